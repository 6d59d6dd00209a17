"""The same engine on PostgreSQL: a server of its own on this machine, over its socket, fsync on.

One node in this process, where nothing else is said.
"""

import asyncio
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import psycopg
from tests.postgres_server import Server

from bench import shell
from bench.engine import SLOTS, TASKS
from bench.harness import Bench, Result, best, directory, node_on
from bench.scale import FILLED
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.core.rows import ORDINAL_BITS
from weft.operations.access import StoreAccess
from weft.store.postgres.driver import PostgresStore

ROUNDS = 3
NOOP = {"noop": lambda launch: None}


def fresh(server: Server, name: str) -> None:
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")


@contextlib.contextmanager
def database(server: Server, name: str) -> Iterator[PostgresStore]:
    fresh(server, name)
    yield PostgresStore(server.socket_url(name))


async def all_of_it() -> list[Result]:
    server = Server(durable=True, settings=("shared_buffers=256MB", "max_wal_size=4GB"))
    try:
        engine = [*await no_ops(server), *await chain(server), *await fan(server), *await bulk(server)]
        cluster = [*await latency(server), *await pair(server), *await distributed_shell(server)]
        return [*engine, *cluster, *million(server), *renewals(server)]
    finally:
        server.close()


async def no_ops(server: Server) -> list[Result]:
    rates = [await no_op_rate(server, f"noop_{number}") for number in range(ROUNDS)]
    note = f"{TASKS} tasks, one run, {SLOTS} slots, batches of up to 500, submit to done; best of {ROUNDS}"
    return [Result("no-op tasks, PostgreSQL", max(rates), "tasks/s", 15_000, lower=False, note=note)]


async def no_op_rate(server: Server, name: str) -> float:
    with directory() as path, database(server, name) as store:
        async with node_on(path, SLOTS, NOOP, store) as bench:
            flow = bench.compile({f"t{i}": {"inline": "noop"} for i in range(TASKS)})
            return TASKS / await bench.run(*flow)


async def chain(server: Server) -> list[Result]:
    times = []
    for number in range(ROUNDS):
        with directory() as path, database(server, f"chain_{number}") as store:
            async with node_on(path, SLOTS, NOOP, store) as bench:
                tasks = {f"t{i}": {"inline": "noop", "needs": [f"t{i - 1}"] if i else []} for i in range(1000)}
                times.append(await bench.run(*bench.compile(tasks)))
    note = f"best of {ROUNDS}"
    return [Result("chain of 1,000, PostgreSQL", best(times), "ms a task", 1.2, lower=True, note=note)]


async def fan(server: Server) -> list[Result]:
    times = []
    for number in range(ROUNDS):
        with directory() as path, database(server, f"fan_{number}") as store:
            async with node_on(path, SLOTS, NOOP, store) as bench:
                middle = {f"t{i}": {"inline": "noop", "needs": ["first"]} for i in range(TASKS)}
                tasks = {"first": {"inline": "noop"}, **middle, "last": {"inline": "noop", "needs": list(middle)}}
                times.append(await bench.run(*bench.compile(tasks)))
    note = f"{SLOTS} slots, best of {ROUNDS}"
    return [Result("1 → 10,000 → 1, PostgreSQL", best(times), "s", 1.2, lower=True, note=note)]


async def bulk(server: Server) -> list[Result]:
    """Ten runs of 10,000 tasks, one after the other; nobody works on them."""
    with directory() as path, database(server, "bulk") as store:
        async with node_on(path, 1, None, store) as bench:
            flow = bench.compile({f"t{i}": {"inline": "noop"} for i in range(TASKS)})
            started = time.perf_counter()
            for _ in range(10):
                bench.submit(*flow)
            rate = 10 * TASKS / (time.perf_counter() - started)
    note = "10 runs of 10,000 tasks, one after the other"
    return [Result("submit in bulk, PostgreSQL", rate, "tasks/s", 120_000, lower=False, note=note)]


async def latency(server: Server) -> list[Result]:
    """Submitted by another process; the node, otherwise idle, hears of it from the server."""
    begun: asyncio.Queue[float] = asyncio.Queue()
    delays = []
    with directory() as path, database(server, "latency") as store:
        noted = {"noop": lambda launch: begun.put_nowait(time.monotonic())}
        async with node_on(path, 4, noted, store):
            elsewhere = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "bench.submitter", server.socket_url("latency"),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            assert elsewhere.stdin is not None
            assert elsewhere.stdout is not None
            await elsewhere.stdout.readline()
            for _ in range(100):
                await asyncio.sleep(0.02)
                elsewhere.stdin.write(b"\n")
                submitted = float((await elsewhere.stdout.readline()).split()[0])
                delays.append((await begun.get() - submitted) * 1000)
            elsewhere.stdin.close()
            await elsewhere.wait()
    delays.sort()
    note = "100 submissions of another process to an idle node, until its function runs"
    return [
        Result("submit → start, PostgreSQL, p50", statistics.median(delays), "ms", 3, lower=True, note=note),
        Result("submit → start, PostgreSQL, p99", delays[98], "ms", 10, lower=True),
    ]


RUNS = 16
RENEW_S = 5.0  # what `renew_every` is by default


async def pair(server: Server) -> list[Result]:
    """Nodes in processes of their own; this one submits and looks. Interleaved rounds."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for number in range(2):
        for nodes in rates:
            rates[nodes].append(await _with_nodes(server, f"pair_{number}_{nodes}", nodes))
    one, two = max(rates[1]), max(rates[2])
    note = f"{RUNS} runs of 1,000 tasks, {SLOTS} slots a node; one node {one:,.0f}/s, two {two:,.0f}/s"
    return [Result("two nodes against one, PostgreSQL", two / one, "×", 1.4, lower=False, note=note)]


async def _with_nodes(server: Server, name: str, nodes: int) -> float:
    with directory() as path, database(server, name) as store:
        bench = Bench(StoreConnection(StoreAccess(store, root=path)), None)
        words = [sys.executable, "-m", "bench.node", server.socket_url(name), str(SLOTS)]
        processes = [
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(nodes)
        ]
        try:
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            flow = bench.compile({f"t{i}": {"inline": "noop"} for i in range(1000)})
            started = time.perf_counter()
            for run_no in [bench.submit(*flow) for _ in range(RUNS)]:
                await bench.finished(run_no)
            return RUNS * 1000 / (time.perf_counter() - started)
        finally:
            for process in processes:
                process.communicate()
            bench.connection.close()


async def distributed_shell(server: Server) -> list[Result]:
    here, there = [], []
    for number in range(2):
        with directory() as path:
            here.append(await shell.commands(path))
        with directory() as path, database(server, f"shell_{number}") as store:
            there.append(await shell.commands(path, store))
    note = (
        f"{shell.COUNT} × `true`, {shell.PARALLEL} at a time; SQLite {max(here):.0f}/s, PostgreSQL {max(there):.0f}/s"
    )
    return [Result("shell on PostgreSQL against SQLite", max(here) / max(there), "×", 1.1, lower=True, note=note)]


def million(server: Server) -> list[Result]:
    """The claim alone, beside no and beside a million finished tasks."""
    empty, full = _claims(server, "claims_empty", 0), _claims(server, "claims_full", 1_000_000)
    at = int(len(empty) * 0.99)
    note = (
        f"p50 {empty[len(empty) // 2]:.2f} → {full[len(full) // 2]:.2f} ms, p99 {empty[at]:.2f} → {full[at]:.2f} ms"
    )
    ratio = full[at] / empty[at]
    return [Result("claim p99 beside 1,000,000 finished", ratio, "×", 1.5, lower=True, note=note + ", 50 a claim")]


def _claims(server: Server, name: str, finished: int) -> list[float]:
    with directory() as path, database(server, name) as store:
        connection = StoreConnection(StoreAccess(store, root=path))
        if finished:
            with psycopg.connect(server.url(name), autocommit=True) as direct:
                values = (
                    "900000, i, -1, 1, 'succeeded', 1, 0, 0, 0, 0, 0, 0, 0, 'shell', 1, 1, 1, false, true, 1, 1, 2"
                )
                direct.execute(
                    f"INSERT INTO tasks ({FILLED}) SELECT {900_000 << ORDINAL_BITS} + i, {values}"
                    f" FROM generate_series(0, {finished - 1}) i"
                )
                direct.execute("VACUUM ANALYZE tasks")
        bench = Bench(connection, None)
        bench.submit(*bench.compile({f"q{i}": {"run": "true"} for i in range(10_000)}))
        commit = connection.link.committer.commit
        commit(c.Register("s", "n", 60_000, None, "{}"))
        times = []
        for number in range(1, 201):
            started = time.perf_counter()
            reply = commit(c.Exchange("s", number, [], 50, ["shell"], 0))
            times.append((time.perf_counter() - started) * 1000)
            assert len(reply.claims) == 50
        connection.close()
    return sorted(times)


def renewals(server: Server) -> list[Result]:
    """What renewing costs the server, and what 100 nodes would cost it at the default interval."""
    count, sessions = 2000, 100
    with directory() as path, database(server, "renewals") as store:
        connection = StoreConnection(StoreAccess(store, root=path))
        for number in range(sessions):
            connection.link.committer.commit(c.Register(f"s{number}", f"n{number}", 600_000, None, "{}"))
        before = server.cpu_s
        for number in range(count):
            session = f"s{number % sessions}"
            assert store.renew(session, 600_000, None)
        each = (server.cpu_s - before) / count
        connection.close()
    share = each * sessions / RENEW_S * 100
    note = f"{each * 1e6:.0f} µs of the server's processor a renewal, one every 5 s from each of 100 nodes"
    return [Result("100 nodes renewing, PostgreSQL", share, "% of a core", 5, lower=True, note=note)]
