"""Pick nodes for tasks of workflows with `placement: scored`: the leader does, or anybody while there is none."""

import asyncio
from collections.abc import Callable

from weft.core.commands import Refused
from weft.node.ports import LinkLost, NodeSettings, Ports


async def place_forever(
    ports: Ports, settings: NodeSettings, needed: Callable[[], bool], term: Callable[[], int | None]
) -> None:
    """`needed`: the node knows of such workflows. Where there are none, the store is not asked. `term`: this node's,
    while it leads."""
    while True:
        await asyncio.sleep(settings.place_every_s * (0.8 + 0.4 * ports.random.random()))
        if not needed():
            continue
        try:
            mine = term()
            if mine is None and (await ports.chore_link.watch()).left_ms > 0:
                continue
            await ports.chore_link.place(mine)
        except (LinkLost, Refused):
            continue  # what is not placed in time is open to all
