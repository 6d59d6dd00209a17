"""What a running attempt costs its node: memory, and no thread. The API server is in a process of its own, and so is
the node, whose memory must be fresh."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from tests.conftest import Figure
from tests.executors.kubernetes.clusters import IMAGE
from weft.executors.kubernetes.executor import KubernetesExecutor
from weft.executors.protocol import Launch, Outcome

COUNT = 100
KILOBYTES_MAX = 50.0


def test_a_waiting_attempt_is_small(tmp_path: Path, figure: Figure) -> None:
    """Each of them follows its log over a connection of its own."""
    command = [sys.executable, "-m", "tests.executors.kubernetes.serve_fake", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            node = [sys.executable, "-m", __name__, server.stdout.readline().strip(), str(tmp_path)]
            measured = subprocess.run(node, stdout=subprocess.PIPE, text=True, check=True, timeout=200)
            kilobytes, threads = map(float, measured.stdout.split())
        finally:
            assert server.stdin is not None
            server.stdin.close()
            server.wait(60)
    figure("a running attempt on Kubernetes", f"{kilobytes:.1f} KB of its node's memory, {threads:g} more threads")
    assert kilobytes < KILOBYTES_MAX
    assert threads == 0


async def _measure(config: str, directory: Path) -> tuple[float, int]:
    executor = KubernetesExecutor({"KUBECONFIG": config})
    await executor.open()
    assert await executor.check() is None
    ended: list[Outcome] = []

    async def start(first: int, count: int) -> None:
        for number in range(first, first + count):
            spec = {"kubernetes": {"image": IMAGE}, "run": "echo on; sleep 600"}
            launch = Launch(
                number, 1, "r", f"t{number}", "kubernetes", spec, {}, None, str(directory / "out"), 1 << 20
            )
            launch.handle = executor.handle(launch)
            executor.start(launch, ended.append)
        wanted = {str(directory / "out" / f"t{number}.1.out") for number in range(first, first + count)}
        end = time.monotonic() + 120
        while not all(Path(path).exists() for path in wanted):
            assert time.monotonic() < end, ended
            await asyncio.sleep(0.05)

    await start(0, 20)
    before, threads = _memory(), threading.active_count()
    await start(20, COUNT)
    used = (_memory() - before) / COUNT / 1000
    more = threading.active_count() - threads
    await executor.close()
    assert len(ended) == COUNT + 20
    assert {outcome.stopped for outcome in ended} == {"cancel"}
    return used, more


def _memory() -> int:
    gc.collect()
    memory: int = psutil.Process().memory_info().rss
    return memory


if __name__ == "__main__":
    print(*asyncio.run(_measure(sys.argv[1], Path(sys.argv[2]))))
