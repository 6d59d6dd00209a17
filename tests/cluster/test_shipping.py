"""What a node sends of its output files, whatever the store does: against a twin that only concatenates."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from weft.executors.output_file import OutputFile
from weft.executors.protocol import Launch
from weft.node.attempts import output as o
from weft.node.ports import LinkLost
from weft.store.shipment import CHUNK_MAX, Shipment

RATE = 300_000
ONLY_STDERR = {"stderr": ""}  # of its report: what stdout had is not in it


class Store:
    """Takes shipments as a store does; loses requests and replies."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.chunks: dict[int, bytes] = {}
        self.size: int | None = None
        self.taken = 0
        self.faults = seed > 0
        self.refuses = False

    def joined(self) -> bytes:
        return b"".join(self.chunks[at] for at in sorted(self.chunks))

    async def ship(self, shipment: Shipment) -> list[tuple[int, int]]:
        if self.faults and self._random.random() < 0.2:
            raise LinkLost("the request was lost")
        if self.refuses:
            return [(chunk.task_id, chunk.attempt) for chunk in shipment.chunks]
        for chunk in shipment.chunks:
            assert len(chunk.data) <= CHUNK_MAX
            if chunk.drop is not None:
                first, end = chunk.drop
                self.chunks = {a: d for a, d in self.chunks.items() if not (a >= first and a + len(d) <= end)}
            if chunk.data:
                self.chunks.setdefault(chunk.at, chunk.data)
            self.taken += len(chunk.data)
            self.size = chunk.size if chunk.size is not None else self.size
        if self.faults and self._random.random() < 0.2:
            raise LinkLost("the reply was lost")
        return []


class Shipper(o.OutputShipper):
    def __init__(self, store: Store, directory: Path, cap: int) -> None:
        self.now = 0.0
        self.shown: list[str] = []
        super().__init__(store.ship, lambda: self.now, lambda text, fields: self.shown.append(text), RATE)
        self.session = "s"
        self.began(Launch(1, 1, "run", "task", "shell", {}, {}, None, str(directory), cap))

    async def tick(self) -> None:
        self.now += o.EVERY_S
        while await self._send_some():
            pass


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(o, "RETRY_S", 0.0)


@pytest.mark.parametrize("seed", range(1, 41))
def test_the_store_has_the_prefix_and_the_tail_whatever_is_lost(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    cap = choice.choice((50_000, 400_000, 2_000_000))
    store = Store(seed)

    async def work() -> bytes:
        shipper = Shipper(store, tmp_path, cap)
        written = b""
        with (tmp_path / "task.1.out").open("ab", buffering=0) as file:
            stream = OutputFile(b"", file.fileno(), True, cap)
            for _ in range(choice.randrange(1, 12)):
                data = choice.randbytes(choice.choice((0, 10, 5_000, 200_000, 600_000)))
                file.write(data)
                written += data
                if choice.random() < 0.7:
                    stream.sweep()  # as the spawner does: over the cap the middle goes
                if choice.random() < 0.7:
                    await shipper.tick()
                assert written.startswith(store.joined())
            stream.sweep()
        shipper.ended(1, 1, ONLY_STDERR)
        for _ in range(400):
            await shipper.tick()
        assert not shipper._ended
        return written

    written = asyncio.run(work())
    have = store.joined()
    assert store.size == len(written)
    if len(written) <= cap:
        assert have == written
    else:
        head = cap // 2
        assert have[:head] == written[:head]
        assert have[head:] == written[len(written) - len(have) + head :]
        assert cap <= len(have) <= cap + CHUNK_MAX


def test_within_the_budget(tmp_path: Path) -> None:
    store = Store()

    async def work() -> list[int]:
        shipper = Shipper(store, tmp_path, 10**9)
        (tmp_path / "task.1.out").write_bytes(bytes(3 * RATE))
        taken = []
        for _ in range(8):
            await shipper.tick()
            taken.append(store.taken)
        return taken

    assert asyncio.run(work()) == [RATE * half // 2 for half in (1, 2, 3, 4, 5, 6)] + [3 * RATE] * 2


def test_a_store_that_hangs_holds_at_most_one_shipment(tmp_path: Path) -> None:
    async def work() -> int:
        waits = asyncio.Event()

        async def hang(shipment: Shipment) -> list[tuple[int, int]]:
            await waits.wait()
            return []

        store = Store()
        store.ship = hang  # type: ignore[method-assign]
        shipper = Shipper(store, tmp_path, 10**9)
        (tmp_path / "task.1.out").write_bytes(bytes(4 * RATE))
        sending = asyncio.create_task(shipper.tick())
        while not shipper._unsent:
            await asyncio.sleep(0)
        for number in range(2, o.WAITING_MAX + 50):  # attempts go on beginning and ending
            shipper.began(Launch(number, 1, "run", "task", "shell", {}, {}, None, str(tmp_path), 10**9))
            shipper.ended(number, 1, {"stdout": "", "stderr": "…", "stderrTruncated": True})
        sending.cancel()
        assert len(shipper._ended) == o.WAITING_MAX
        assert "output was not sent: too much of it waits" in shipper.shown
        return sum(len(chunk.data) for _, _, chunk in shipper._unsent)

    assert 0 < asyncio.run(work()) <= o.SHIPMENT_MAX


def test_refused_means_never_again(tmp_path: Path) -> None:
    store = Store()
    store.refuses = True

    async def work() -> Any:
        shipper = Shipper(store, tmp_path, 10**9)
        (tmp_path / "task.1.out").write_bytes(b"late")
        await shipper.tick()
        store.refuses = False
        await shipper.tick()
        shipper.ended(1, 1, ONLY_STDERR)
        for _ in range(5):
            await shipper.tick()
        return shipper.shown

    assert "output was refused: its attempts are not this session's any more" in asyncio.run(work())
    assert store.chunks == {}


def test_a_command_that_truncates_its_own_output(tmp_path: Path) -> None:
    store = Store()

    async def work() -> None:
        shipper = Shipper(store, tmp_path, 10**9)
        path = tmp_path / "task.1.out"
        path.write_bytes(b"first words")
        await shipper.tick()
        path.write_bytes(b"second")
        await shipper.tick()
        shipper.ended(1, 1, ONLY_STDERR)
        await shipper.tick()

    asyncio.run(work())
    assert (store.chunks, store.size) == ({0: b"second"}, 6)
