"""End sessions whose leases have passed by the store's clock, so that their attempts run again elsewhere.

The leader looks every `expire_every_s`. Every other node looks too, so that a dead leader delays no reclaim: each
twice as rarely while there are few of them, and then the more rarely the more there are. So the store reads a
number of rows that grows with the number of nodes, not with its square.
"""

from collections.abc import Iterable

from weft.core.commands import Expire
from weft.node.ports import NodeSettings, Ports

NODES_FEW = 8


async def expire(ports: Ports, settings: NodeSettings, term: int) -> None:
    """The leader's chore."""
    await end_late(ports, (await ports.chore_link.watch(late=True)).late)


async def end_late(ports: Ports, sessions: Iterable[str]) -> None:
    ended = []
    for session in sessions:
        reply = await ports.chore_link.commit(Expire(session, "lease"))
        if reply.state == "dead":
            ended.append(session)
    if ended:
        ports.log("ended sessions whose leases have passed", {"sessions": ended})


def standby_every_s(settings: NodeSettings, live: int, chance: float) -> float:
    """How long a node that does not lead waits between two looks; `chance` is from 0 to 1."""
    return settings.expire_every_s * 2 * max(1.0, live / NODES_FEW) * (0.8 + 0.2 * chance)
