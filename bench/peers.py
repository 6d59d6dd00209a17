"""Peers that run here without a server, in the same run: huey (durable, SQLite) and doit (not durable)."""

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

from bench.harness import Result, directory

_HUEY = """
import sys, time
from huey import SqliteHuey
huey = SqliteHuey(filename=sys.argv[1], fsync=True)
@huey.task()
def noop(): pass
n = 2000
started = time.perf_counter()
for _ in range(n): noop()
consumer = huey.create_consumer(workers=1, periodic=False, initial_delay=0.001, max_delay=0.005)
consumer.start()
while huey.pending_count() or huey.result_count() < 0: time.sleep(0.002)
print(n / (time.perf_counter() - started))
consumer.stop(graceful=True)
"""

_DOIT = """
def task_all():
    for i in range(2000):
        yield {"name": str(i), "actions": [lambda: None]}
"""


async def huey(ours: float) -> list[Result]:
    if importlib.util.find_spec("huey") is None:
        return []
    with directory() as path:
        script = path / "peer.py"
        script.write_text(_HUEY)
        done = subprocess.run(
            [sys.executable, str(script), str(path / "huey.db")],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
    theirs = float(done.stdout.split()[-1])
    return [
        Result("no-op tasks against huey", ours / theirs, "×", None, lower=False, note=f"huey, fsync: {theirs:.0f}/s")
    ]


async def doit(ours: float) -> list[Result]:
    if importlib.util.find_spec("doit") is None:
        return []
    with directory() as path:
        (path / "dodo.py").write_text(_DOIT)
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "doit", "-v0"], cwd=Path(path), check=True, capture_output=True, timeout=120
        )
        theirs = 2000 / (time.perf_counter() - started)
    return [Result("no-op tasks against doit", ours / theirs, "×", None, lower=False, note=f"doit: {theirs:.0f}/s")]
