"""End the sessions of processes that are provably gone, so that their attempts run again at once.

Every node does this, leader or not: a lock that the kernel let go of needs nobody's judgement.
"""

import asyncio
from collections.abc import Callable

from weft.node.ports import LinkLost, NodeSettings, Ports


async def bury_forever(ports: Ports, settings: NodeSettings, session: str, buried: Callable[[], None]) -> None:
    """`buried` is called when some have ended: one of them may have been the leader."""
    while True:
        await asyncio.sleep(settings.expire_every_s * (0.8 + 0.4 * ports.random.random()))
        try:
            ended = await ports.chore_link.expire_dead(session)
        except LinkLost:
            continue
        if ended:
            ports.log("ended sessions of nodes that are gone", {"sessions": ended})
            buried()
