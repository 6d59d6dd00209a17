"""The same engine on PostgreSQL: a server of its own on this machine, fsync on, one node in this process."""

import contextlib
import time
from collections.abc import Iterator

import psycopg
from tests.postgres_server import Server

from bench.engine import SLOTS, TASKS
from bench.harness import Result, best, directory, node_on
from weft.store.postgres.driver import PostgresStore

ROUNDS = 3
NOOP = {"noop": lambda launch: None}


@contextlib.contextmanager
def database(server: Server, name: str) -> Iterator[PostgresStore]:
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    yield PostgresStore(server.url(name))


async def all_of_it() -> list[Result]:
    server = Server(durable=True, settings=("shared_buffers=256MB", "max_wal_size=4GB"))
    try:
        return [*await no_ops(server), *await chain(server), *await fan(server), *await bulk(server)]
    finally:
        server.close()


async def no_ops(server: Server) -> list[Result]:
    rates = []
    for number in range(ROUNDS):
        with directory() as path, database(server, f"noop_{number}") as store:
            async with node_on(path, SLOTS, NOOP, store) as bench:
                flow = bench.compile({f"t{i}": {"inline": "noop"} for i in range(TASKS)})
                rates.append(TASKS / await bench.run(*flow))
    note = f"{TASKS} tasks, one run, {SLOTS} slots, batches of up to 500, submit to done; best of {ROUNDS}"
    return [Result("no-op tasks, PostgreSQL", max(rates), "tasks/s", 15_000, lower=False, note=note)]


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
    return [Result("submit in bulk, PostgreSQL", rate, "tasks/s", 80_000, lower=False, note=note)]
