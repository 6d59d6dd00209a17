"""Pick nodes for tasks of workflows with `placement: scored`. Whoever does it, the rule gives the same answer."""

import asyncio
from collections.abc import Callable

from weft.node.ports import LinkLost, NodeSettings, Ports


async def place_forever(ports: Ports, settings: NodeSettings, needed: Callable[[], bool]) -> None:
    """`needed`: the node knows of such workflows. Where there are none, the store is not asked."""
    while True:
        await asyncio.sleep(settings.place_every_s * (0.8 + 0.4 * ports.random.random()))
        if not needed():
            continue
        try:
            await ports.link.place()
        except LinkLost:
            continue  # what is not placed in time is open to all
