"""`make bench-peers`: queues on the same PostgreSQL, and huey on SQLite, beside Weft: no-op tasks, to the end.

Each peer is installed into an environment of its own under .cache/peers; none is in Weft's. A peer's script prints
how many tasks it did in a second. Rounds are interleaved, so that a slow moment of the machine hits all.
"""

import asyncio
import subprocess
import sys
import venv
from pathlib import Path

from tests.postgres_server import Server

from bench.harness import Result, directory
from bench.postgres import fresh, no_op_rate
from weft.local_node.process_tuning import tune

ROUNDS = 3
PEERS: dict[str, tuple[list[str], str]] = {
    "pgqueuer": (
        ["pgqueuer[asyncpg]==1.6.0"],
        """
import asyncio, sys, time
import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.domain.types import QueueExecutionMode
N = 10_000
async def main():
    connection = await asyncpg.connect(sys.argv[1])
    peer = PgQueuer.from_asyncpg_connection(connection)
    await peer.queries.install()
    @peer.entrypoint("noop")
    async def noop(job):
        pass
    started = time.perf_counter()
    for at in range(0, N, 1000):
        await peer.queries.enqueue(["noop"] * 1000, [None] * 1000, [0] * 1000)
    await peer.qm.run(batch_size=500, mode=QueueExecutionMode.drain)
    print(N / (time.perf_counter() - started))
    await connection.close()
asyncio.run(main())
""",
    ),
    "procrastinate": (
        ["procrastinate==3.10.0", "psycopg[binary]"],
        """
import asyncio, sys, time
import procrastinate
N = 1000
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=sys.argv[1]))
@app.task
async def noop():
    pass
async def main():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        started = time.perf_counter()
        await noop.batch_defer_async(*[{} for _ in range(N)])
        await app.run_worker_async(wait=False, concurrency=20, install_signal_handlers=False)
        print(N / (time.perf_counter() - started))
asyncio.run(main())
""",
    ),
    "dbos": (
        ["dbos==3.3.0"],
        """
import sys, time
from dbos import DBOS
N = 500
DBOS(config={"name": "peer", "system_database_url": sys.argv[1], "log_level": "ERROR"})
@DBOS.workflow()
def noop():
    pass
DBOS.launch()
DBOS.register_queue("q", polling_interval_sec=0.01)
started = time.perf_counter()
handles = [DBOS.enqueue_workflow("q", noop) for _ in range(N)]
for handle in handles:
    handle.get_result()
print(N / (time.perf_counter() - started))
DBOS.destroy()
""",
    ),
    "huey": (
        ["huey==3.5.4"],
        """
import sys, time
from huey import SqliteHuey
N = 2000
huey = SqliteHuey(filename=sys.argv[2], fsync=True)
@huey.task()
def noop(): pass
started = time.perf_counter()
for _ in range(N): noop()
consumer = huey.create_consumer(workers=1, periodic=False, initial_delay=0.001, max_delay=0.005)
consumer.start()
while huey.pending_count(): time.sleep(0.002)
print(N / (time.perf_counter() - started))
consumer.stop(graceful=True)
""",
    ),
}


def environment(name: str) -> Path:
    """The peer's own interpreter, made when it is first asked for."""
    home = Path(__file__).parent.parent / ".cache" / "peers" / name
    python = home / "bin" / "python"
    done = home / "installed"
    wanted = "\n".join(PEERS[name][0])
    if not done.exists() or done.read_text() != wanted:
        venv.create(home, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *PEERS[name][0]], check=True)
        done.write_text(wanted)
    return python


def rate(name: str, server: Server, number: int) -> float:
    fresh(server, f"peer_{name}_{number}")
    with directory() as path:
        script = path / "peer.py"
        script.write_text(PEERS[name][1])
        words = [str(environment(name)), str(script), server.url(f"peer_{name}_{number}"), str(path / "peer.db")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


async def main() -> int:
    for name in PEERS:
        environment(name)
    server = Server(durable=True, settings=("shared_buffers=256MB", "max_wal_size=4GB"))
    rates: dict[str, list[float]] = {}
    try:
        for number in range(ROUNDS):
            rates.setdefault("weft", []).append(await no_op_rate(server, f"weft_{number}"))
            for name in PEERS:
                rates.setdefault(name, []).append(rate(name, server, number))
    finally:
        server.close()
    ours = max(rates["weft"])
    print(f"{'weft':<16}{ours:>10,.0f} tasks/s")
    for name in PEERS:
        goal = 2.5 if name == "pgqueuer" else None
        result = Result(name, ours / max(rates[name]), "×", goal, lower=False)
        met = {True: "met", False: "MISSED", None: ""}[result.met]
        wanted = f"(≥ {goal} ×: {met})" if goal else ""
        print(f"{name:<16}{max(rates[name]):>10,.0f} tasks/s   weft is {result.value:,.1f} × {wanted}")
    return 0


if __name__ == "__main__":
    tune()
    sys.exit(asyncio.run(main()))
