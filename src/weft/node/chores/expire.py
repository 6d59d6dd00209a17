"""End the sessions of nodes that are gone, so that their attempts run again."""

import asyncio

from weft.node.ports import LinkLost, NodeSettings, Ports


async def expire_forever(ports: Ports, settings: NodeSettings, session: str) -> None:
    while True:
        await asyncio.sleep(settings.expire_every_s * (0.8 + 0.4 * ports.random.random()))
        try:
            ended = await ports.link.expire_dead(session)
        except LinkLost:
            continue
        if ended:
            ports.log("ended sessions of nodes that are gone", {"sessions": ended})
