"""Remove workspaces that nobody needs any more. Every node does this, for its own machine."""

import asyncio
import contextlib

from weft.node.ports import NodeSettings, Ports
from weft.store.protocol import StoreError


async def tidy_forever(ports: Ports, settings: NodeSettings) -> None:
    while True:
        await asyncio.sleep(settings.prune_every_s * (0.8 + 0.4 * ports.random.random()))
        await tidy(ports)


async def tidy(ports: Ports) -> None:
    if ports.workspaces is None:
        return
    with contextlib.suppress(OSError, StoreError):  # the next round tries again
        await asyncio.to_thread(ports.workspaces.remove_ended)
