"""A chore of the leader: attempts that their nodes should have ended long ago are stopped, or taken from them."""

from weft.core.commands import Overdue
from weft.node.ports import NodeSettings, Ports


async def overdue(ports: Ports, settings: NodeSettings, term: int) -> None:
    reply = await ports.chore_link.commit(Overdue(term))
    if reply.changed:
        ports.log("attempts are overdue", {"attempts": reply.changed, "term": term})
