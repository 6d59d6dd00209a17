"""Measures what a waiting attempt costs its node, on an engine whose containers never end."""

import asyncio
import gc
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psutil

from weft.executors.container.executor import ContainerExecutor
from weft.executors.protocol import Launch, Outcome


def _launch(number: int, directory: str) -> Launch:
    container = {"image": "any", "mount": "none"}
    return Launch(number, 1, "r", f"t{number}", "container", {"container": container}, {}, None, directory, 8 << 20)


async def waiting_memory(count: int) -> tuple[float, int]:
    """Bytes of this process for each waiting attempt, and threads more than before."""
    with tempfile.TemporaryDirectory() as directory:
        socket = str(Path(directory) / "e.sock")
        words = [sys.executable, "-m", "tests.executors.container.waiting_engine", socket]
        engine = subprocess.Popen(words, stdout=subprocess.PIPE)
        try:
            assert engine.stdout is not None
            await asyncio.to_thread(engine.stdout.readline)
            tempfile.tempdir = directory  # for the private files of attempts that are just dropped
            return await _measure(socket, directory, count)
        finally:
            tempfile.tempdir = None
            engine.kill()
            engine.communicate()


async def _measure(socket: str, directory: str, count: int) -> tuple[float, int]:
    executor = ContainerExecutor(socket)
    await executor.open()
    assert await executor.check() is None
    process = psutil.Process()
    outcomes: list[Outcome] = []

    async def start(first: int, end: int) -> None:
        for number in range(first, end):
            executor.start(_launch(number, directory), outcomes.append)
        while not all(executor.started(number, 1, 0.0) for number in range(first, end)):
            await asyncio.sleep(0.05)

    await start(0, 50)  # warm
    gc.collect()
    before, threads = process.memory_info().rss, threading.active_count()
    await start(50, 50 + count)
    await asyncio.sleep(0.2)
    gc.collect()
    after = process.memory_info().rss
    assert not outcomes, outcomes[:1]
    more = threading.active_count() - threads
    closing = asyncio.ensure_future(executor.close())  # nothing ends there
    await asyncio.sleep(0.1)
    closing.cancel()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0.2)
    return (after - before) / count, more
