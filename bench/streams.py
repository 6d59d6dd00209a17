"""A thousand readers of one server: what they cost in memory, how soon the last of them hears of an event, and what
the work beside them loses."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil

from bench.harness import Result, directory

TOKEN = "a-token-for-the-bench"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
READERS = 1000
IDLE = 200  # more of them read nothing at all
RUNS = 40
TASKS = 20


async def all_of_it() -> list[Result]:
    with directory() as place:
        server = await asyncio.to_thread(_Server, place)
        try:
            return await _measure(server)
        finally:
            await asyncio.to_thread(server.stop)


async def _measure(server: "_Server") -> list[Result]:
    await asyncio.to_thread(_work, server, 10)  # warm: what the first requests load is not the readers' cost
    alone = await asyncio.to_thread(_work, server, RUNS)
    before = server.memory()
    begun = time.perf_counter()
    readers = [await _Reader.begin(server.port) for _ in range(READERS)]
    joined_s = time.perf_counter() - begun
    deaf = [await _Reader.begin(server.port, deaf=True) for _ in range(IDLE)]
    for reader in readers:
        await reader.heard(0)
    idle = server.memory()
    watched = await asyncio.to_thread(_work, server, RUNS)
    last = server.last_event()
    await asyncio.gather(*(reader.heard(last) for reader in readers))
    busy = server.memory()
    delays = []
    for _ in range(20):
        began = time.perf_counter()
        await asyncio.to_thread(server.post, "/v1/runs", _definition(1))
        await asyncio.to_thread(server.settled)
        last = server.last_event()
        await asyncio.gather(*(reader.heard(last) for reader in readers))
        delays.append((time.perf_counter() - began) * 1000)
    counts = {reader.count for reader in readers}
    for reader in (*readers, *deaf):
        reader.close()
    note = f"{busy:.0f} MB in all, {before:.0f} without; {IDLE} more that read nothing; joined in {joined_s:.1f} s"
    return [
        Result("1,000 readers: memory they cost", busy - before, "MB", 100, lower=True, note=note),
        Result("1,000 readers, idle: memory they cost", idle - before, "MB", 100, lower=True),
        Result("a run of one task told to all 1,000", statistics.median(delays), "ms", None, lower=True,
               note="submit, run, and the last reader has its end"),
        Result("tasks/s beside 1,000 readers", RUNS * TASKS / watched, "tasks/s", None, lower=False,
               note=f"{RUNS * TASKS / alone:,.0f} without; each reader heard {sorted(counts)} events"),
    ]  # fmt: skip


def _definition(tasks: int) -> dict[str, Any]:
    return {"definition": {"name": "w", "tasks": {"a": {"run": "true", "replicas": tasks}}}}


def _work(server: "_Server", runs: int) -> float:
    began = time.perf_counter()
    for _ in range(runs):
        server.post("/v1/runs", _definition(TASKS))
    server.settled()
    return time.perf_counter() - began


class _Server:
    """`weft serve` in a process of its own."""

    def __init__(self, place: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        environment["WEFT_TOKEN"] = TOKEN
        self._process = subprocess.Popen(
            [sys.executable, "-m", "weft", "serve", "--port", "0", "--json"], cwd=place, env=environment,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stderr is not None
        for line in self._process.stderr:
            said = json.loads(line)
            if said["message"] == "ready":
                self.port = int(said["url"].rpartition(":")[2])
                break
        self._seen = psutil.Process(self._process.pid)

    def get(self, path: str) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=HEADERS)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def post(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), HEADERS)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def settled(self) -> None:
        while self.get("/v1/runs?state=pending&state=running&limit=1")["runs"]:
            time.sleep(0.002)

    def last_event(self) -> int:
        found: list[int] = []
        cursor = ""
        while page := self.get(f"/v1/events?limit=1000{cursor}"):
            if not page["events"]:
                break
            found.append(page["last"])
            cursor = f"&cursor={page['next']}"
        return found[-1]

    def memory(self) -> float:
        return float(self._seen.memory_info().rss) / 1e6

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        assert self._process.stderr is not None
        self._process.stderr.close()


class _Reader:
    """One connection, as cheap as it gets: a thousand of them live in this process."""

    def __init__(self, incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter, deaf: bool) -> None:
        self._outgoing = outgoing
        self._news = asyncio.Event()
        self._last = -1
        self.count = 0
        self._reading = None if deaf else asyncio.create_task(self._read(incoming))

    @classmethod
    async def begin(cls, port: int, *, deaf: bool = False) -> "_Reader":
        incoming, outgoing = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET /v1/events/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        outgoing.write(head.encode())
        if deaf:
            await incoming.readuntil(b"\r\n\r\n")
        return cls(incoming, outgoing, deaf)

    async def _read(self, incoming: asyncio.StreamReader) -> None:
        """By the piece, not by the line: what is measured is the server, and it shares two cores with this."""
        rest = b""
        while data := await incoming.read(1 << 20):
            data = rest + data
            self.count += data.count(b"id: ")
            at = data.rfind(b"id: ")
            if at >= 0 and (end := data.find(b"\n", at)) >= 0:
                self._last = int(data[at + 4 : end])
                rest = b""
            elif at >= 0:  # its number is still to come
                self.count -= 1
                rest = data[at:]
            else:
                rest = data[-3:]
            self._last = max(self._last, 0)
            self._news.set()

    async def heard(self, number: int) -> None:
        while self._last < number:
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._outgoing.close()
