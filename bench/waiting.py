"""What an attempt costs its node while it waits for a service: 5,000 attempts of http and of cloud_run. The services
are in a process of their own, and never end anything.

python -m bench.waiting [COUNT]
"""

import asyncio
import gc
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from weft.executors.cloud_run.executor import CloudRunExecutor
from weft.executors.http_call.addresses import AddressRules
from weft.executors.http_call.executor import HttpExecutor
from weft.executors.protocol import Launch, Outcome

COUNT = 5000
WARM = 100
_NODE = "--node"
_SERVICE = "--service"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Both services at once: http gets 202 and a Location; Cloud Run an operation, and an execution that goes on."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            size = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0] or 0)
            await reader.readexactly(size)
            target = head.split(" ", 2)[1]
            name = b"projects/p/locations/r/jobs/j/executions/j-00001"
            status, body = b"202 X\r\nLocation: /poll", b"{}"
            if target.startswith("/v2/"):
                execution = b'{"name":"%s","taskCount":1,"runningCount":1,"startTime":"2026-01-01T00:00:00Z"}' % name
                operation = b'{"name":"operations/1","metadata":{"name":"%s"}}' % name
                status, body = b"200 X", operation if target.endswith(":run") else execution
            writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _serve() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


def _launch(number: int, kind: str, spec: dict[str, Any], directory: str) -> Launch:
    env = {
        "WEFT_RUN_ID": "r", "WEFT_TASK": f"t.{number}", "WEFT_ATTEMPT": "1", "WEFT_INDEX": str(number),
        "WEFT_IDEMPOTENCY_KEY": f"r/t.{number}",
    }  # fmt: skip
    return Launch(number, 1, "r", f"t.{number}", kind, {kind: dict(spec)}, env, None, directory, 64 << 20)


async def _measure(kind: str, port: int, count: int) -> tuple[float, int, int]:
    """Kilobytes of an attempt that waits, threads, and files and connections that all of them hold."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "token").write_text("t")
        executor: Any
        if kind == "http":
            executor = HttpExecutor(AddressRules(private=True))
            spec: dict[str, Any] = {"url": f"http://127.0.0.1:{port}/start", "json": {"a": 1}}
            spec["poll"] = {"every": "1h", "max_every": "1h"}
        else:
            executor = CloudRunExecutor(f"http://127.0.0.1:{port}", f"{directory}/token")
            spec = {"project": "p", "region": "r", "job": "j", "overrides": {"env": {"DAY": "2026-01-01"}}}
        await executor.open()
        ended: list[Outcome] = []

        async def start(first: int, number: int) -> None:
            for one in range(first, first + number):
                launch = _launch(one, kind, spec, directory)
                if kind == "cloud_run":
                    launch.handle = executor.handle(launch)
                executor.start(launch, ended.append)
            await _until(lambda: len(list(Path(directory).glob("*.err"))) == first + number)
            await asyncio.sleep(0.5)

        await start(0, WARM)
        process = psutil.Process()
        gc.collect()
        before, open_before = process.memory_info().rss, process.num_fds()
        threads = threading.active_count()
        await start(WARM, count)
        gc.collect()
        used = (process.memory_info().rss - before) / count / 1000
        held = []
        for _ in range(10):  # the least: connections of requests that are under way are not kept
            held.append(process.num_fds() - open_before)
            await asyncio.sleep(0.2)
        found = used, threading.active_count() - threads, min(held)
        assert not ended, ended[:1]
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
        return found


async def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < end, "the attempts did not come to wait"
        await asyncio.sleep(0.2)


def measure(kind: str, count: int) -> tuple[float, int, int]:
    """In a process of its own, whose memory is fresh."""
    module = [sys.executable, "-m", "bench.waiting"]
    with subprocess.Popen([*module, _SERVICE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        assert service.stdin is not None
        try:
            node = [*module, _NODE, kind, service.stdout.readline().strip(), str(count)]
            done = subprocess.run(node, stdout=subprocess.PIPE, text=True, check=True, timeout=240)
        finally:
            service.stdin.close()
            service.wait(30)
    kilobytes, threads, descriptors = done.stdout.split()
    return float(kilobytes), int(threads), int(descriptors)


if __name__ == "__main__":
    if sys.argv[1:2] == [_SERVICE]:
        asyncio.run(_serve())
    elif sys.argv[1:2] == [_NODE]:
        print(*asyncio.run(_measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        for kind in ("http", "cloud_run"):
            size, threads, descriptors = measure(kind, int(sys.argv[1]) if len(sys.argv) > 1 else COUNT)
            print(f"{kind}: {size:.1f} KB of a waiting attempt, {threads} threads, {descriptors} descriptors in all")
