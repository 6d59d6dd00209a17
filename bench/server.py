"""The server, a process of its own (`weft serve`), asked over loopback by this one: submissions, a long list, and how
soon a process starts."""

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.harness import Result, directory
from weft.authoring.load import load_value
from weft.client.local import StoreConnection
from weft.operations.access import StoreAccess
from weft.operations.submission import submission
from weft.store.sqlite.driver import SqliteStore

ROUNDS = 3
BATCH = 200
BATCHES = 20
CLIENTS = 8
SINGLES = 2000
LISTED = int(os.environ.get("WEFT_BENCH_RUNS", "100000"))
LISTS = 40
STARTS = 60
TOKEN = "a-token-for-the-bench"
ONE = {"name": "bench", "tasks": {"a": {"run": "true"}}}
CLOCK = {"name": "clock", "tasks": {"a": {"argv": ["date", "+%s%N"]}}, "output": "${{ tasks.a.stdout }}"}


class Line:
    """One connection and nothing else: what is measured is the server."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def ask(self, method: str, path: str, body: bytes = b"") -> Any:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += f"Authorization: Bearer {TOKEN}\r\n"
        self._socket.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status = int(self._file.readline().split()[1])
        length = 0
        while (line := self._file.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        found = self._file.read(length)
        assert status < 300, (status, found[:500])
        return found

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@contextmanager
def served(path: Path, slots: int) -> Iterator[int]:
    """The port of a server on this directory's store."""
    words = [
        sys.executable,
        "-m",
        "weft",
        "serve",
        "--port",
        "0",
        "--slots",
        str(slots),
        "--store",
        str(path / "weft.db"),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    environment["WEFT_TOKEN"] = TOKEN
    process = subprocess.Popen(
        [*words, "--json"], cwd=path, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            shown = json.loads(line)
            if shown["message"] == "ready":
                port = int(shown["url"].rpartition(":")[2])
                break
        else:
            raise RuntimeError("the server did not start")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield port
    finally:
        process.terminate()
        process.wait()


def _batches(port: int) -> float:
    line = Line(port)
    body = json.dumps({"runs": [{"definition": ONE}] * BATCH}).encode()
    line.ask("POST", "/v1/runs:batch", body)
    began = time.perf_counter()
    for _ in range(BATCHES):
        line.ask("POST", "/v1/runs:batch", body)
    took = time.perf_counter() - began
    line.close()
    return BATCH * BATCHES / took


def _singles(port: int) -> float:
    body = json.dumps({"definition": ONE}).encode()
    share = SINGLES // CLIENTS
    ready = threading.Barrier(CLIENTS + 1)

    def submit() -> None:
        line = Line(port)
        line.ask("POST", "/v1/runs", body)
        ready.wait()
        for _ in range(share):
            line.ask("POST", "/v1/runs", body)
        line.close()

    threads = [threading.Thread(target=submit) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return share * CLIENTS / (time.perf_counter() - began)


def _submits() -> list[Result]:
    batches, singles = [], []
    for _ in range(ROUNDS):
        with directory() as path, served(path, 0) as port:
            batches.append(_batches(port))
            singles.append(_singles(port))
    return [
        Result("submit over HTTP, batches", max(batches), "runs/s", 1000, lower=False,
               note=f"{BATCH} a request, one connection; best of {ROUNDS}"),
        Result("submit over HTTP, one by one", max(singles), "runs/s", 500, lower=False,
               note=f"{CLIENTS} connections; best of {ROUNDS}"),
    ]  # fmt: skip


def _lists() -> list[Result]:
    with directory() as path:
        connection = StoreConnection(StoreAccess(SqliteStore(path / "weft.db")))
        loaded = load_value(ONE)
        for begin in range(0, LISTED, 1000):
            count = min(1000, LISTED - begin)
            connection.submit_each([submission(loaded, "{}", source=str(path)) for _ in range(count)])
        connection.close()
        with served(path, 0) as port:
            line = Line(port)
            found = [
                _timed(line, where) for where in ("/v1/runs", "/v1/runs?state=failed", "/v1/runs?name=other", "/")
            ]
            line.close()
    shown = f"{LISTED:,} runs, p50 of {LISTS}; none failed: {found[1]:.1f} ms, none of a name: {found[2]:.1f} ms"
    return [
        Result("list of runs, first page", found[0], "ms", 50, lower=True, note=shown),
        Result("the page at /", found[3], "ms", None, lower=True, note=f"{LISTED:,} runs, p50 of {LISTS}"),
    ]


def _timed(line: Line, where: str) -> float:
    times = []
    for _ in range(LISTS):
        began = time.perf_counter()
        line.ask("GET", where)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _starts() -> list[Result]:
    body = json.dumps({"definition": CLOCK}).encode()
    times = []
    with directory() as path, served(path, 4) as port:
        line = Line(port)
        for number in range(STARTS + 5):
            sent = time.time_ns()
            run = json.loads(line.ask("POST", "/v1/runs", body))["run"]
            while (state := json.loads(line.ask("GET", f"/v1/runs/{run}?tasks=0"))["run"]["state"]) == "running":
                time.sleep(0.01)
            assert state == "succeeded", state
            started = int(json.loads(line.ask("GET", f"/v1/runs/{run}/output"))["output"])
            if number >= 5:
                times.append((started - sent) / 1e6)
        line.close()
    note = (
        f"the process's own clock; p90 {statistics.quantiles(times, n=10)[-1]:.1f} ms, {STARTS} runs, one at a time"
    )
    return [Result("submit over HTTP → process started", statistics.median(times), "ms", 10, lower=True, note=note)]


async def all_of_it() -> list[Result]:
    return await asyncio.to_thread(lambda: [*_submits(), *_starts(), *_lists()])
