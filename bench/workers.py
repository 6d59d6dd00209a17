"""Workers without a store behind one server on PostgreSQL: what a thousand idle ones cost it, and how fast one is
beside a worker that has the store itself."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from tests.postgres_server import Server

from bench.harness import Result, directory
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.core.placement.demands import private_demand
from weft.node.ports import LinkLost, RestRenewal
from weft.node.workers.http_transport import HttpTransport
from weft.node.workers.remote_link import RemoteLink
from weft.operations.access import StoreAccess
from weft.store.postgres.driver import PostgresStore

IDLE = int(os.environ.get("WEFT_BENCH_WORKERS", "1000"))
MEASURE_S = 40.0
SETTLE_S = 12.0
LEASE_S = 30.0
TASKS = int(os.environ.get("WEFT_BENCH_WORKER_TASKS", "1500"))
ROUNDS = 3
KNOWN = "shell"  # what the tasks of most workflows ask for
SLOTS = 8


class IdleWorker:
    """All that an idle `weft worker --server` says: it waits for work, and its waits renew its lease, with new
    measurements each time."""

    def __init__(self, url: str, token: str, number: int) -> None:
        self._link = RemoteLink(HttpTransport([url], token, lambda m, f: None), LEASE_S, lambda m, f: None)
        self._session = f"idle{number:06d}"
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # until it is cancelled

    async def work(self) -> None:
        while True:
            with contextlib.suppress(LinkLost):  # a busy machine: it is said again
                return await self._work()

    async def _work(self) -> None:
        ttl_ms = int(LEASE_S * 1000)
        facts = {"slots": 4, "kinds": ["shell", "python"], "lease_ttl_ms": ttl_ms, "host": socket.gethostname()}
        await self._link.register(c.Register(self._session, self._session, ttl_ms, None, json.dumps(facts)))
        await self._link.renew(self._session, ttl_ms, None, None)
        await self._link.exchange(c.Exchange(self._session, 1, [], 4, [private_demand(self._session), KNOWN], 1))
        self._link.listen(lambda hint: None, self)
        await self._over

    def rest(self) -> RestRenewal:
        measured = json.dumps({"cores": 8, "load": 0.5, "memory_total": 1 << 34, "memory_free": 1 << 33})
        return RestRenewal(time.monotonic(), int(LEASE_S * 1000), measured, (1, 0, 0))

    def rested(self, renewal: RestRenewal, *, renewed: bool) -> None:
        if not renewed and not self._over.done():
            self._over.set_exception(AssertionError("the lease was not renewed"))


def serve(place: Path, store: str, *words: str) -> "tuple[subprocess.Popen[bytes], int]":
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    words = ("serve", "--slots", "0", "--port", str(port), "--store", store, *words)
    process = subprocess.Popen([sys.executable, "-m", "weft", *words], cwd=place, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return process, port
        time.sleep(0.05)
    raise AssertionError("the server did not start")


async def idle(place: Path, server: Server, store: str, connection: StoreConnection) -> list[Result]:
    define(place, connection)
    process, port = serve(place, store)
    token = connection.create_token("idle", "worker").token
    watched = psutil.Process(process.pid)
    workers: list[asyncio.Task[None]] = []
    try:
        for number in range(IDLE):
            workers.append(asyncio.create_task(IdleWorker(f"http://127.0.0.1:{port}", token, number).work()))
            if number % 20 == 19:
                await asyncio.sleep(0.3)
        await asyncio.sleep(SETTLE_S)
        before, database, began = cpu_s(watched), server.cpu_s, time.monotonic()
        await asyncio.sleep(MEASURE_S)
        took = time.monotonic() - began
        used, stored = cpu_s(watched) - before, server.cpu_s - database
        broken = [worker for worker in workers if worker.done()]
        assert not broken, broken[0].exception()
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        reader: Any = connection.store.reader()
        open_now = int(reader.query(sql)[0][0]) - 2  # those of this process
        live = sum(node.health == "healthy" for node in connection.nodes())
        memory = watched.memory_info().rss / 2**20
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        process.terminate()
        process.wait(30)
    note = f"{live} healthy of {IDLE}, and PostgreSQL {stored / took * 100:.1f} %"
    return [
        Result(
            "idle workers over HTTP: processor",
            used / took * 100,
            "% of a core",
            5,
            lower=True,
            note=note,
        ),
        Result("idle workers over HTTP: memory", memory, "MiB", 300, lower=True),
        Result("idle workers over HTTP: connections", open_now, "", 20, lower=True, note="to PostgreSQL"),
    ]


def define(place: Path, connection: StoreConnection) -> None:
    """A run that has ended: what its tasks asked for is known to all nodes."""
    (place / "w.json").write_text(json.dumps({"name": "known", "tasks": {"a": "true"}}))
    connection.link.committer.commit(c.CancelRun(submit(place / "w.json", connection)))


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def throughput(place: Path, store: str, connection: StoreConnection) -> list[Result]:
    """Alternately: a worker with the store, and one without; each has the queue for itself."""
    process, port = serve(place, store)
    token = place / "token"
    token.write_text(connection.create_token("fast", "worker").token)
    over_http = ("--server", f"http://127.0.0.1:{port}", "--token-file", str(token))
    rates: dict[str, list[float]] = {"direct": [], "http": []}
    try:
        for _ in range(ROUNDS):
            for kind, words in (("direct", ("--role", "worker", "--store", store)), ("http", over_http)):
                rates[kind].append(await asyncio.to_thread(rate_of, place / kind, words, connection))
    finally:
        process.terminate()
        process.wait(30)
    direct, http = max(rates["direct"]), max(rates["http"])
    note = f"{http:,.0f} and {direct:,.0f} shell tasks/s, {SLOTS} slots"
    return [Result("a worker over HTTP beside one with the store", http / direct, "", 0.5, lower=False, note=note)]


def rate_of(place: Path, words: tuple[str, ...], connection: StoreConnection) -> float:
    place.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "weft", "worker", "--slots", str(SLOTS), *words]
    worker = subprocess.Popen(command, cwd=place, stderr=subprocess.DEVNULL)
    try:
        until(lambda: any(node.pid == worker.pid for node in connection.nodes()))
        definition = {"name": "many", "tasks": {"many": {"replicas": TASKS, "run": "true"}}}
        (place / "w.json").write_text(json.dumps(definition))
        began = time.monotonic()
        run_id = submit(place / "w.json", connection)
        until(lambda: connection.run(run_id).finished)
        return TASKS / (time.monotonic() - began)
    finally:
        worker.terminate()
        worker.wait(30)


def submit(path: Path, connection: StoreConnection) -> str:
    from weft.authoring.load import load_value
    from weft.operations.ids import new_id

    loaded = load_value(json.loads(path.read_text()), "many")
    workflow, run_id = loaded.workflow, new_id()
    connection.submit(c.Submit(run_id, workflow.hash, workflow.name, loaded.encoded, "{}"), workflow)
    return run_id


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def all_of_it() -> list[Result]:
    server = Server(durable=True)
    try:
        with directory() as place:
            store = server.url("postgres")
            connection = StoreConnection(StoreAccess(PostgresStore(store), root=Path(place)))
            try:
                found = await idle(Path(place), server, store, connection)
                return [*found, *await throughput(Path(place), store, connection)]
            finally:
                connection.close()
    finally:
        server.close()
