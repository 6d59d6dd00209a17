"""How far a store carries: what open tasks and history weigh, and what a claim, a list and a start cost beside them.

Sizes, counts and processor time, so that other load on the machine changes little. `WEFT_LIMITS_SCALE=0.1` measures a
tenth of it. Open tasks are submitted; history is one real run of 100 tasks, copied row by row within the database.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg
from tests.postgres_server import Server

from bench.harness import Bench, Result, directory, node_on
from bench.postgres import fresh
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.core.rows import ORDINAL_BITS
from weft.operations.access import StoreAccess
from weft.operations.resources.run_changes import PruneRunsRequest, prune_runs
from weft.operations.resources.runs import GetRunRequest, ListRunsRequest, get_run, list_runs
from weft.operations.resources.tasks import ListTasksRequest, list_tasks
from weft.store.postgres.driver import PostgresStore
from weft.store.sqlite.driver import SqliteStore

SCALE = float(os.environ.get("WEFT_LIMITS_SCALE", "1"))
RUN_TASKS = 100_000  # of one run with open tasks
OPEN_RUNS = max(1, round(10 * SCALE))
OLD_TASKS = 100  # of one run of the history
OLD_RUNS = max(10, round(100_000 * SCALE))
COPIED_AT_ONCE = 10_000
CLAIMED = 100  # by one exchange
NOOP: dict[str, Callable[..., Any]] = {"noop": lambda launch: None}


class Place(Protocol):
    """A store to be measured: how to open it, how large it is, what its database has used of the processor."""

    name: str

    def open(self) -> Any: ...
    def size(self) -> int: ...
    def used_s(self) -> float: ...
    def copy_run(self, run_no: int, copies: range) -> None: ...


class InFile:
    name = "SQLite"

    def __init__(self, path: Path) -> None:
        self.path = path / "weft.db"

    def open(self) -> SqliteStore:
        return SqliteStore(self.path)

    def size(self) -> int:
        store = self.open()
        store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.close()
        return self.path.stat().st_size

    def used_s(self) -> float:
        return 0.0  # it works in our own process

    def copy_run(self, run_no: int, copies: range) -> None:
        store = self.open()
        writer = store._writer
        writer.execute("PRAGMA synchronous = OFF")
        writer.execute("BEGIN IMMEDIATE")
        numbers = "WITH RECURSIVE n(k) AS (SELECT {0} UNION ALL SELECT k + 1 FROM n WHERE k < {1})"
        for table in ("runs", "tasks", "events"):
            columns = [row[1] for row in writer.execute(f"PRAGMA table_info({table})")]
            statement = copying(table, columns, run_no, "n")
            writer.execute(f"{numbers.format(copies.start, copies.stop - 1)} {statement}")
        writer.execute("UPDATE meta SET value = ? WHERE key = 'runs'", (run_no + copies.stop,))
        writer.execute("COMMIT")
        store.close()


class InDatabase:
    name = "PostgreSQL"

    def __init__(self, server: Server, database: str) -> None:
        self.server, self.database = server, database
        fresh(server, database)

    def open(self) -> PostgresStore:
        return PostgresStore(self.server.socket_url(self.database))

    def _ask(self, *statements: str) -> Any:
        with psycopg.connect(self.server.url(self.database), autocommit=True) as connection:
            for statement in statements[:-1]:
                connection.execute(statement)
            found = connection.execute(statements[-1])
            return found.fetchall() if found.description else []

    def size(self) -> int:
        return int(self._ask("SELECT pg_database_size(current_database())")[0][0])

    def used_s(self) -> float:
        return self.server.cpu_s

    def copy_run(self, run_no: int, copies: range) -> None:
        series = f"generate_series({copies.start}, {copies.stop - 1}) n(k)"
        for table in ("runs", "tasks", "events"):
            where = f"table_name = '{table}' AND table_schema = 'public' ORDER BY ordinal_position"
            columns = [
                row[0] for row in self._ask(f"SELECT column_name FROM information_schema.columns WHERE {where}")
            ]
            self._ask(copying(table, columns, run_no, series))
        self._ask(f"SELECT setval('run_numbers', {run_no + copies.stop})")
        self._ask("ANALYZE")


def copying(table: str, columns: list[str], run_no: int, numbers: str) -> str:
    """A statement that copies a run's rows of this table, once for each number k."""
    changed = {
        "runs": {"no": "no + k", "root": "root + k", "id": "id || '-' || k"},
        "tasks": {"id": f"id + (CAST(k AS BIGINT) << {ORDINAL_BITS})", "run_no": "run_no + k"},
        "events": {"run_no": "run_no + k"},
    }[table]
    kept = [name for name in columns if not (table == "events" and name in ("seq", "xid"))]
    values = [changed.get(name, f'"{name}"') for name in kept]
    where = f"{'no' if table == 'runs' else 'run_no'} = {run_no}"
    names = ", ".join(f'"{name}"' for name in kept)
    return f"INSERT INTO {table} ({names}) SELECT {', '.join(values)} FROM {table}, {numbers} WHERE {where}"


class Spent:
    """Milliseconds of processor: ours, and the database's."""

    ours = theirs = 0.0

    def __str__(self) -> str:
        return f"{self.ours:.2f} ms" + (f" and {self.theirs:.2f} of the server" if self.theirs else "")


@contextmanager
def measured(place: Place, times: int) -> Iterator[Spent]:
    """Of one of so many."""
    spent = Spent()
    ours, theirs = time.process_time(), place.used_s()
    yield spent
    spent.ours = (time.process_time() - ours) * 1000 / times
    spent.theirs = (place.used_s() - theirs) * 1000 / times


def claims(place: Place, connection: StoreConnection, session: str, times: int = 50) -> Spent:
    """Of one exchange that claims 100 tasks."""
    commit = connection.link.committer.commit
    commit(c.Register(session, session, 600_000, None, "{}"))
    commit(c.Exchange(session, 1, [], CLAIMED, ["shell"], 0))
    with measured(place, times) as spent:
        for number in range(2, times + 2):
            reply = commit(c.Exchange(session, number, [], CLAIMED, ["shell"], 0))
            assert len(reply.claims) == CLAIMED
    return spent


def start(place: Place) -> Spent:
    """Of a node: the store is opened, a session registered, the first tasks claimed."""
    with measured(place, 1) as spent:
        connection = StoreConnection(StoreAccess(place.open()))
        connection.link.committer.commit(c.Register("new", "new", 600_000, None, "{}"))
        connection.link.committer.commit(c.Exchange("new", 1, [], CLAIMED, ["shell"], 0))
    connection.close()
    return spent


def reads(place: Place, connection: StoreConnection, times: int = 20) -> list[tuple[str, Spent]]:
    last = connection.call(list_runs, ListRunsRequest(limit=1)).runs[0]
    asked: list[tuple[str, Any, Any]] = [
        ("newest 50 runs", list_runs, ListRunsRequest(limit=50)),
        ("50 runs in the middle", list_runs, ListRunsRequest(limit=50, cursor=f"r{last.no // 2}")),
        ("100 running tasks", list_tasks, ListTasksRequest(state=["running"], limit=100)),
        ("one run, 100 tasks", get_run, GetRunRequest(run=last.id, tasks=100)),
    ]
    found = []
    for name, operation, request in asked:
        connection.call(operation, request)
        with measured(place, times) as spent:
            for _ in range(times):
                connection.call(operation, request)
        found.append((name, spent))
    return found


def open_tasks(place: Place) -> list[Result]:
    connection = StoreConnection(StoreAccess(place.open()))
    bench = Bench(connection, None)
    bench.submit(*bench.compile({f"q{i}": {"run": "true"} for i in range(10_000)}))
    few = claims(place, connection, "few")
    connection.close()
    empty = place.size()
    connection = StoreConnection(StoreAccess(place.open()))
    bench = Bench(connection, None)
    flow = bench.compile({f"t{i}": {"run": "true"} for i in range(RUN_TASKS)})
    count = OPEN_RUNS * RUN_TASKS
    with measured(place, count) as submitted:
        for _ in range(OPEN_RUNS):
            bench.submit(*flow)
    many = claims(place, connection, "many")
    begun = start(place)
    connection.close()
    bytes_each = (place.size() - empty) / count
    return [
        Result(f"an open task, {place.name}", bytes_each, "bytes", None, lower=True, note=f"of {count:,}"),
        _spent(f"… to submit, {place.name}", submitted, 1000, "µs a task"),
        _spent(f"100 claims beside {count:,} open, {place.name}", many, 1, "ms", f"beside 10,000: {few}"),
        _spent(f"start of a node beside {count:,} open, {place.name}", begun, 1, "ms"),
    ]


async def history(place: Place) -> list[Result]:
    with directory() as path:
        async with node_on(path, 100, NOOP, place.open()) as bench:
            run_no = bench.submit(*bench.compile({f"t{i}": {"inline": "noop"} for i in range(OLD_TASKS)}))
            await bench.finished(run_no)
    empty = place.size()
    for first in range(1, OLD_RUNS + 1, COPIED_AT_ONCE):
        place.copy_run(run_no, range(first, min(first + COPIED_AT_ONCE, OLD_RUNS + 1)))
    count = OLD_RUNS * OLD_TASKS
    size = place.size() - empty
    connection = StoreConnection(StoreAccess(place.open()))
    bench = Bench(connection, None)
    bench.submit(*bench.compile({f"q{i}": {"run": "true"} for i in range(10_000)}))
    beside = f"beside {count:,} finished, {place.name}"
    results = [
        Result(f"a finished task, {place.name}", size / count, "bytes", None, lower=True,
               note=f"of {count:,} in {OLD_RUNS:,} runs: {size / 1e9:.2f} GB"),
        _spent(f"100 claims {beside}", claims(place, connection, "after"), 1, "ms"),
        _spent(f"start of a node {beside}", start(place), 1, "ms"),
    ]  # fmt: skip
    results += [_spent(f"{name} {beside}", spent, 1, "ms") for name, spent in reads(place, connection)]
    with measured(place, 1) as spent:
        removed = len(connection.call(prune_runs, PruneRunsRequest(before=2**50)).runs)
    connection.close()
    spent.ours, spent.theirs = spent.ours / removed, spent.theirs / removed
    return [*results, _spent(f"pruning a run of 100 tasks {beside}", spent, 1, "ms", f"of {removed:,}")]


def _spent(name: str, spent: Spent, unit: float, words: str, more: str = "") -> Result:
    parts = [f"ours {spent.ours * unit:.2f}, the server's {spent.theirs * unit:.2f}"] if spent.theirs else []
    note = "; ".join([*parts, *([more] if more else [])])
    return Result(name, (spent.ours + spent.theirs) * unit, words, None, lower=True, note=f"processor time; {note}")


def spread(server: Server) -> list[Result]:
    """Processor time of a no-op task, nodes and database together: one node, two on one database, two on two."""
    results = []
    for nodes, databases in ((1, 1), (2, 1), (2, 2)):
        places = [InDatabase(server, f"spread_{nodes}_{databases}_{number}") for number in range(databases)]
        ours, theirs, connections = _work(server, places, nodes // databases)
        name = f"{nodes} node{'s' * (nodes > 1)} on {databases} database{'s' * (databases > 1)}"
        note = f"nodes {ours:.0f}, database {theirs:.0f}; {connections / nodes:.1f} connections a node"
        results.append(Result(f"a no-op task, {name}", ours + theirs, "µs", None, lower=True, note=note))
    return results


def _work(server: Server, places: list[InDatabase], nodes_each: int) -> tuple[float, float, float]:
    runs, tasks = 8, 1000
    benches = [Bench(StoreConnection(StoreAccess(place.open())), None) for place in places]
    processes = []
    for place in places:
        words = [sys.executable, "-m", "bench.node", server.socket_url(place.database), "100"]
        processes += [
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(nodes_each)
        ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    flow = benches[0].compile({f"t{i}": {"inline": "noop"} for i in range(tasks)})
    theirs = server.cpu_s
    ours = sum(_used_s(process.pid) for process in processes)
    numbers = [(bench, bench.submit(*flow)) for bench in benches for _ in range(runs)]
    while any(bench._reader.read("run_state", no)[0][0] in ("pending", "running") for bench, no in numbers):
        time.sleep(0.5)
    count = len(numbers) * tasks
    ours = (sum(_used_s(process.pid) for process in processes) - ours) / count * 1e6
    theirs = (server.cpu_s - theirs) / count * 1e6
    connections = sum(
        place._ask(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )[0][0]
        for place in places
    )
    before = {bench.connection.store.name for bench in benches}
    for bench in benches:
        bench.connection.close()
    for process in processes:
        process.communicate()
    return ours, theirs, connections - len(before) * 2  # our own: one that writes, one that looks


def _used_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def all_of_it() -> list[Result]:
    results: list[Result] = []

    def tell(found: list[Result]) -> None:
        results.extend(found)
        for one in found:
            print(f"  {one.name}: {one.value:,.2f} {one.unit} ({one.note})", file=sys.stderr, flush=True)

    with directory() as path:
        tell(open_tasks(InFile(path / "open")))
        tell(await history(InFile(path / "history")))
    server = Server(settings=("shared_buffers=256MB", "max_wal_size=4GB"))
    try:
        tell(spread(server))
        tell(open_tasks(InDatabase(server, "limits_open")))
        tell(await history(InDatabase(server, "limits_history")))
    finally:
        server.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [*results, Result("peak memory of this process", peak, "MB", None, lower=True)]
