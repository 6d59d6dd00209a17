"""Output of containers: nothing missing and nothing twice, whatever happens to the engine; bounded; masked."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
from hypothesis import given
from hypothesis import strategies as st

from tests.executors.attempts import ends
from tests.executors.container.containers import Containers, until
from weft.executors.container.frames import LogEntries, LogPosition, OutputFrames, since

COUNT = "i=0; while [ $i -lt {n} ]; do echo line $i; echo err $i >&2; i=$((i+1)); {pause} done; printf end"


def counted(n: int, word: str) -> bytes:
    return b"".join(b"%s %d\n" % (word.encode(), i) for i in range(n))


def test_the_engine_restarts_while_a_container_runs(containers: Containers) -> None:
    """Its output goes on where it was: what it printed while nobody served the API, too."""

    async def story() -> None:
        async with containers.executor() as attempts:
            running, running_end = attempts.start(COUNT.format(n=60, pause="sleep 0.1;"))
            ending, ending_end = attempts.start(COUNT.format(n=20, pause="sleep 0.1;"))
            await attempts.until_output(running, b"line 5\n")
            await attempts.until_output(ending, b"line 5\n")
            containers.podman.kill_service()
            await until(lambda: any("does not answer since" in text for text in attempts.said))
            await asyncio.sleep(2.0)  # the second one ends meanwhile
            assert not running_end.done()
            assert await attempts.executor.check() is not None
            assert attempts.executor.engine is None
            containers.podman.serve()
            for launch, future, n in ((running, running_end, 60), (ending, ending_end, 20)):
                outcome = await ends(future, 60)
                assert outcome.ok, outcome
                assert attempts.output(launch) == counted(n, "line") + b"end"
                assert attempts.output(launch, "err") == counted(n, "err")
            assert attempts.said[-1] == ""
            assert containers.left() == []

    asyncio.run(story())


def test_a_stop_while_the_engine_is_away_waits_for_it(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as attempts:
            launch, future = attempts.start("echo up; sleep 600")
            await attempts.until_output(launch, b"up")
            containers.podman.kill_service()
            attempts.stop(launch, "cancel", 0.0)
            await until(lambda: any("does not answer since" in text for text in attempts.said))
            await asyncio.sleep(0.5)
            assert not future.done()
            containers.podman.serve()
            outcome = await ends(future, 60)
            assert outcome.stopped == "cancel", outcome
            assert containers.left() == []

    asyncio.run(story())


def test_close_does_not_wait_for_an_engine_that_is_away(containers: Containers, private_files: Path) -> None:
    """What it could not end is reported by nobody, and is left to `remove`."""

    async def story() -> None:
        async with containers.executor() as attempts:
            launch, future = attempts.start("echo up; sleep 600")
            await attempts.until_output(launch, b"up")
            containers.podman.kill_service()
            began = time.monotonic()
            await attempts.executor.close()
            assert 4 < time.monotonic() - began < 30
            assert not future.done()
        containers.podman.serve()
        assert launch.handle is not None
        assert containers.left() == [launch.handle.name]
        async with containers.executor() as attempts:
            assert len(list(private_files.iterdir())) == 1
            assert await attempts.executor.remove([launch.handle]) == [launch.handle]
        assert containers.left() == []
        assert list(private_files.iterdir()) == []

    asyncio.run(story())


def test_adopted_output_goes_on_without_gap_or_double(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as first:
            launch, _ = first.start(
                COUNT.format(n=40, pause="sleep 0.1;") + "; echo [7] > $WEFT_OUTPUT", adoptable=True
            )
            await first.until_output(launch, b"line 5\n")
        stored = (len(first.output(launch)), len(first.output(launch, "err")))
        before = first.output(launch)
        async with containers.executor() as second:
            handle = launch.handle
            again, future = second.start(
                None, task=launch.task, attempt=2, handle=handle, adopted=True, adoptable=True, stored=stored
            )
            outcome = await ends(future, 60)
            assert outcome.ok, outcome
            assert outcome.output == [7]
            assert before + second.output(again) == counted(40, "line") + b"end"
            assert len(second.output(again, "err")) == len(counted(40, "err")) - stored[1]
            assert containers.left() == []
            _, future = second.start(None, attempt=3, handle=handle, adopted=True)
            outcome = await ends(future, 60)
            assert outcome.forgotten
            assert not outcome.ok

    asyncio.run(story())


def test_much_output_in_bounded_memory_and_disk(containers: Containers) -> None:
    """Of a gigabyte: `make soak`."""
    size, cap = int(os.environ.get("WEFT_OUTPUT_BYTES", 1 << 28)), 1 << 20

    async def story() -> None:
        async with containers.executor() as attempts:
            process = psutil.Process()
            await attempts.run("echo warm")
            before = process.memory_info().rss
            text = f"echo first; head -c {size} /dev/zero; echo; echo last"
            launch, future = attempts.start(text, output_max=cap)
            most = 0
            while not future.done():
                most = max(most, process.memory_info().rss)
                await asyncio.sleep(0.05)
            outcome = await ends(future, 240)
            assert outcome.ok, outcome
            assert outcome.result is not None
            written = size + len("first\n\nlast\n")
            assert outcome.result["stdoutBytes"] == written
            assert outcome.result["stdoutKept"] == [cap // 2, cap // 2]
            assert outcome.result["stdout"].endswith("\0\nlast\n")
            path = Path(launch.output_dir) / f"{launch.task}.1.out"
            assert path.stat().st_size == written
            assert path.stat().st_blocks * 512 <= cap + (64 << 10)
            with path.open("rb") as file:
                assert file.read(8) == b"first\n\0\0"
            assert most - before < 24 << 20, f"{(most - before) >> 20} MiB"

    asyncio.run(story())


def test_secrets_are_masked_and_not_in_inspect(containers: Containers, private_files: Path) -> None:
    secret, registry = "s3cr3t-of-many-bytes", "user:password-of-registry"

    async def story() -> None:
        async with containers.executor() as attempts:
            given: dict[str, Any] = {"secrets": {"KEY": secret}, "credentials": registry}
            files = {"secrets_as": "files", "credentials": "REGISTRY"}
            show = (
                "echo $KEY; printf s3cr3t-; sleep 0.2; echo of-many-bytes >&2; echo of-many-bytes; env | grep -c pass"
            )
            printed, printed_end = attempts.start(show + " || true", **given, container={"credentials": "REGISTRY"})
            filed, filed_end = attempts.start("cat $KEY_FILE; sleep 600", **given, container=files)
            await ends(printed_end, 60)
            assert attempts.output(printed) == b"***\n***\n0\n"
            assert attempts.output(printed, "err") == b"of-many-bytes\n"
            await attempts.until_output(filed, b"***")
            assert filed.handle is not None
            seen = msgspec.json.encode(containers.podman.inspect(filed.handle.name)).decode()
            assert "KEY_FILE" in seen
            assert secret not in seen
            assert "password-of-registry" not in seen
            attempts.stop(filed, "cancel", 0.0)
            await ends(filed_end, 60)
            assert attempts.output(filed) == b"***"

    asyncio.run(story())
    assert list(private_files.iterdir()) == []


def test_output_that_cannot_be_stored_fails_the_attempt(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as attempts:
            (containers.directory / "file").write_text("")
            outcome = await attempts.run("echo x; sleep 600", output_dir=str(containers.directory / "file" / "below"))
            assert not outcome.ok
            assert "the output could not be stored" in str(outcome.error), outcome

    asyncio.run(story())


# The log: pure


entries = st.lists(
    st.tuples(st.sampled_from((1, 2)), st.integers(0, 4), st.binary(max_size=5), st.booleans()), max_size=30
)


@given(entries, st.lists(st.tuples(st.integers(0, 200), st.integers(1, 20)), max_size=4), st.booleans())
def test_readings_that_break_anywhere_give_each_byte_once(
    found: list[tuple[int, int, bytes, bool]], cuts: list[tuple[int, int]], nanoseconds: bool
) -> None:
    """Entries at seconds that repeat, as Podman's; readings that are cut at any byte and go on with `since`."""
    at = 1_800_000_000
    log: list[tuple[int, int, bytes]] = []
    for stream, pause, text, whole in found:
        at += pause
        log.append((stream, at, text + (b"\n" if whole else b"")))
    positions = {1: LogPosition(), 2: LogPosition()}
    got = {1: b"", 2: b""}
    for cut, chunk in [*cuts, (1 << 30, 7)]:
        start = since(positions)
        data = b"".join(
            frame(stream, stamp(second, nanoseconds) + b" " + text)
            for stream, second, text in log
            if start is None or second >= int(start)
        )[:cut]
        frames, reading = OutputFrames(), LogEntries(positions)
        for offset in range(0, len(data), chunk):
            for stream, part, complete in frames.feed(data[offset : offset + chunk]):
                got[stream] += reading.feed(stream, part, complete)
    for stream in (1, 2):
        assert got[stream] == b"".join(text for number, _, text in log if number == stream)


def stamp(second: int, nanoseconds: bool) -> bytes:
    fraction = ".000000001" if nanoseconds else ""
    return (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)) + fraction + "Z").encode()


def frame(stream: int, payload: bytes) -> bytes:
    return bytes((stream, 0, 0, 0)) + len(payload).to_bytes(4, "big") + payload


def test_what_was_received_while_attached_is_left_out_of_the_log() -> None:
    positions = {1: LogPosition(taken=4), 2: LogPosition()}
    reading = LogEntries(positions)
    new = [reading.feed(1, b"2026-01-01T00:00:00Z " + text, True) for text in (b"ab\n", b"cd\n", b"ef\n")]
    assert new == [b"", b"d\n", b"ef\n"]
