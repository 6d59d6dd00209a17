"""The same engine on a replicated log: three etcd members and three nodes on this machine, fsync on.

The first node is in this process, the others have processes of their own; each applies the entries of all.
"""

import asyncio
import contextlib
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator

from tests.replicated.etcd_cluster import EtcdCluster

from bench.engine import SLOTS, TASKS
from bench.harness import Bench, Result, best, directory, node_on
from bench.replicated_node import opened

NODES = 3
ROUNDS = 3
NOOP = {"noop": lambda launch: None}


async def all_of_it() -> list[Result]:
    cluster = EtcdCluster()
    try:
        async with three_nodes(cluster) as bench:
            measured = [*await no_ops(bench), *await chain(bench)]
        return [*measured, *await catch_up(cluster)]
    finally:
        cluster.close()


@contextlib.asynccontextmanager
async def three_nodes(cluster: EtcdCluster) -> AsyncIterator[Bench]:
    with directory() as path:
        others = [_other(cluster, number) for number in range(1, NODES)]
        try:
            for other in others:
                assert other.stdout is not None
                assert other.stdout.readline() == "ready\n"
            async with node_on(path, SLOTS, NOOP, opened(cluster.url("bench"), path)) as bench:
                yield bench
        finally:
            for other in others:
                other.communicate()


def _other(cluster: EtcdCluster, number: int) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "bench.replicated_node", cluster.url("bench", number), str(SLOTS)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def no_ops(bench: Bench) -> list[Result]:
    flow = bench.compile({f"t{i}": {"inline": "noop"} for i in range(TASKS)})
    rates = [TASKS / await bench.run(*flow) for _ in range(ROUNDS)]
    note = f"{TASKS} tasks, one run, {NODES} nodes with {SLOTS} slots, submit to done; best of {ROUNDS}"
    return [Result("no-op tasks, replicated log", max(rates), "tasks/s", 6_000, lower=False, note=note)]


async def chain(bench: Bench) -> list[Result]:
    tasks = {f"t{i}": {"inline": "noop", "needs": [f"t{i - 1}"] if i else []} for i in range(200)}
    times = [await bench.run(*bench.compile(tasks)) * 1000 / 200 for _ in range(ROUNDS)]
    return [Result("chain of 200, replicated log", best(times), "ms a task", 4, lower=True, note=f"best of {ROUNDS}")]


async def catch_up(cluster: EtcdCluster) -> list[Result]:
    """A fresh replica applies all that was measured before."""
    tasks = ROUNDS * (TASKS + 200)
    with directory() as path:
        began, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
        async with node_on(path, 1, NOOP, opened(cluster.url("bench"), path)):
            took = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_SELF).ru_utime - cpu
        await asyncio.sleep(0)
    note = f"{tasks} tasks from the log's first entry on, {used:.1f} s of processor time"
    return [Result("catch-up, replicated log", tasks / took, "tasks/s", 10_000, lower=False, note=note)]
