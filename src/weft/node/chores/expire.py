"""A chore of the leader: end sessions whose leases have passed, so that their attempts run again elsewhere."""

from weft.core.commands import Expire
from weft.node.ports import NodeSettings, Ports


async def expire(ports: Ports, settings: NodeSettings, term: int) -> None:
    ended = []
    for session in await ports.link.late_sessions():
        reply = await ports.link.commit(Expire(session, "lease", term))
        if reply.state == "dead":
            ended.append(session)
    if ended:
        ports.log("ended sessions whose leases have passed", {"sessions": ended, "term": term})
