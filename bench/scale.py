"""Size must not matter: one run of 100,000 tasks, and claims beside a million finished tasks."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.harness import Bench, Result, directory, node_on
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.core.rows import ORDINAL_BITS
from weft.operations.access import StoreAccess
from weft.store.sqlite.driver import SqliteStore

MANY = 100_000
FILLED = (
    "id, run_no, pos, idx, generation, state, attempt, failures, lost, open, failed, skipped, tolerated, admitted,"
    " demand, ready_at, rank, claim_no, upstream, settled, claimed_at, started_at, finished_at"
)


def _store_large() -> None:
    """In a process of its own, so that its memory can be told apart."""
    with directory() as path:
        connection = StoreConnection(StoreAccess(SqliteStore(path / "weft.db")))
        bench = Bench(connection, None)
        started = time.perf_counter()
        tasks = {"t0": {"run": "true"}, **{f"t{i}": {"run": "true", "needs": [f"t{i - 1}"]} for i in range(1, MANY)}}
        flow = bench.compile(tasks)
        compiled = time.perf_counter()
        del tasks
        bench.submit(*flow)
        stored = time.perf_counter()
        status = Path("/proc/self/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) / 1024  # ru_maxrss would remember the parent's
        print(f"{stored - started} {stored - compiled} {peak}")
        connection.close()


async def large_run() -> list[Result]:
    code = "from bench.scale import _store_large; _store_large()"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    total, submit, peak = (float(x) for x in out)
    results = [
        Result("run of 100,000 tasks, stored", total, "s", 5, lower=True, note=f"of which submit {submit:.1f} s"),
        Result("… peak memory", peak, "MB", 300, lower=True, note="compile and submit, whole process"),
    ]
    small = await _cost_per_completion(1000)
    large = await _cost_per_completion(30_000)
    note = f"fan of 1,000: {small * 1e6:.0f} µs, of 30,000: {large * 1e6:.0f} µs a task"
    results.append(
        Result("cost per completion, 30,000 against 1,000", large / small, "×", 1.2, lower=True, note=note)
    )
    return results


async def _cost_per_completion(count: int) -> float:
    """Seconds a task, from the end of the submission to the end of the run."""
    with directory() as path:
        async with node_on(path, 100, {"noop": lambda launch: None}) as bench:
            tasks: dict[str, Any] = {"first": {"inline": "noop"}}
            tasks |= {f"t{i}": {"inline": "noop", "needs": ["first" if i < 1000 else "last"]} for i in range(count)}
            tasks["last"] = {"inline": "noop", "needs": [f"t{i}" for i in range(1000)]}
            tasks["never"] = {"inline": "noop", "needs": ["last"]}
            flow = bench.compile(tasks)
            run_no = bench.submit(*flow)
            submitted = time.perf_counter()
            await bench.finished(run_no)
            done = time.perf_counter()
            return (done - submitted) / count


async def million() -> list[Result]:
    """Time of the claim alone, with 10,000 queued tasks, on a store without and with a million finished ones."""
    with directory() as path:
        empty = _claim_times(path / "empty.db", 0)
        full = _claim_times(path / "full.db", 1_000_000)
    note = f"p50 {empty * 1e3:.2f} ms empty, {full * 1e3:.2f} ms full; batches of 100"
    return [Result("claims beside 1,000,000 finished tasks", full / empty, "×", 1.5, lower=True, note=note)]


def _claim_times(path: Path, finished: int) -> float:
    path = path.parent / path.stem / "weft.db"
    connection = StoreConnection(StoreAccess(SqliteStore(path)))
    bench = Bench(connection, None)
    if finished:
        _fill(connection, finished)
    bench.submit(*bench.compile({f"q{i}": {"run": "true"} for i in range(10_000)}))
    connection.link.committer.commit(c.Register("s", "n", 60_000, None, "{}"))
    times = []
    for number in range(1, 60):
        command = c.Exchange("s", number, [], 100, ["shell"], 0)
        started = time.perf_counter()
        reply = connection.link.committer.commit(command)
        times.append(time.perf_counter() - started)
        assert len(reply.claims) == 100
    connection.close()
    return sorted(times)[len(times) // 2]


def _fill(connection: StoreConnection, count: int) -> None:
    """Finished tasks, written straight into the tables: how they came there does not matter to a claim."""
    assert isinstance(connection.store, SqliteStore)
    writer = connection.store._writer
    base = 900_000 << ORDINAL_BITS
    writer.execute("BEGIN IMMEDIATE")
    writer.execute(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?2 - 1)"
        f" INSERT INTO tasks ({FILLED}) SELECT ?1 + i, 900000, i, -1, 1, 'succeeded', 1, 0, 0, 0, 0, 0, 0, 0,"
        " 'shell', 1, 1, 1, 0, 1, 1, 1, 2 FROM n", (base, count),
    )  # fmt: skip
    writer.execute("COMMIT")
