"""A node in a process of its own: `python -m bench.node URL SLOTS`, until its standard input ends."""

import asyncio
import sys

from bench.harness import directory, node_on
from weft.local_node.process_tuning import tune
from weft.store.postgres.driver import PostgresStore


async def main(url: str, slots: int) -> None:
    with directory() as path:
        async with node_on(path, slots, {"noop": lambda launch: None}, PostgresStore(url)):
            print("ready", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    tune()
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
