"""A node with a replica in a process of its own: `python -m bench.replicated_node URL SLOTS`, until input ends."""

import asyncio
import sys
from pathlib import Path

from bench.harness import directory, node_on
from weft.local_node.process_tuning import tune
from weft.store.etcd.url import EtcdUrl
from weft.store.replicated.log_store import LogStore
from weft.store.replicated.opening import open_replicated


def opened(url: str, path: Path) -> LogStore:
    return open_replicated(EtcdUrl(url), path, keeps=True, log=lambda text: None, wait_s=30)


async def main(url: str, slots: int) -> None:
    with directory() as path:
        async with node_on(path, slots, {"noop": lambda launch: None}, opened(url, path)):
            print("ready", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    tune()
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
