"""Submits from a process of its own: `python -m bench.submitter URL`, a run for each line of its standard input. It
answers with the moments before and after (CLOCK_MONOTONIC, the same for all processes)."""

import sys
import time
from pathlib import Path

from bench.harness import Bench
from weft.client.local import StoreConnection
from weft.local_node.process_tuning import tune
from weft.operations.access import StoreAccess
from weft.store.postgres.driver import PostgresStore


def main(url: str) -> None:
    bench = Bench(StoreConnection(StoreAccess(PostgresStore(url), root=Path.cwd())), None)
    flow = bench.compile({"t": {"inline": "noop"}})
    print("ready", flush=True)
    for _ in sys.stdin:
        before = time.monotonic()
        bench.submit(*flow)
        print(before, time.monotonic(), flush=True)
    bench.connection.close()


if __name__ == "__main__":
    tune()
    main(sys.argv[1])
