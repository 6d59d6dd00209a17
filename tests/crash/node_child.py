"""A node with a short lease, to be stopped and continued: `python -m tests.crash.node_child NAME LEASE_S`.

It works on the store of the working directory until its input ends.
"""

import asyncio
import sys
from pathlib import Path

from weft.client.local import StoreConnection
from weft.local_node.factory import make_node, node_settings
from weft.operations.access import StoreAccess
from weft.store.sqlite.driver import SqliteStore


async def main(name: str, lease_s: float) -> None:
    connection = StoreConnection(StoreAccess(SqliteStore(Path.cwd() / ".weft" / "weft.db")))
    settings = node_settings(
        connection, slots=2, name=name, lease_ttl_s=lease_s, renew_every_s=lease_s / 6, expire_every_s=0.1,
        poll_s=0.2, leader_ttl_s=lease_s, leader_renew_s=lease_s / 3,
    )  # fmt: skip
    node = make_node(connection, settings)
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, node.stop)
    await node.run()
    connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
