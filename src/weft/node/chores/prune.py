"""A chore of the leader: remove runs that ended longer ago than the setting `keep` says."""

import asyncio
import shutil
from pathlib import Path

from weft.core.commands import Prune, Reply
from weft.node.ports import NodeSettings, Ports

LIMIT = 100
_under_way: set["asyncio.Task[Reply]"] = set()  # a loop knows its tasks only weakly


async def prune(ports: Ports, settings: NodeSettings, term: int) -> None:
    if settings.keep_s is None:
        return
    more = True
    removed = 0
    while more:
        command = Prune(None, LIMIT, older_ms=int(settings.keep_s * 1000), term=term)
        some = asyncio.create_task(_prune_some(ports, settings, command))
        some.add_done_callback(_under_way.discard)
        _under_way.add(some)
        # Not cancelled with this chore: when a node stops while rows are removed, their files go as well.
        reply = await asyncio.shield(some)
        removed += reply.changed
        more = reply.more
    if removed:
        ports.log("removed runs that ended long ago", {"runs": removed, "term": term})


async def _prune_some(ports: Ports, settings: NodeSettings, command: Prune) -> Reply:
    reply: Reply = await ports.chore_link.commit(command)
    # Rows first, files after: files without rows are only waste, rows without files would lie.
    places = (settings.output_root, settings.artifact_root, settings.workspace_root)
    roots = [Path(root) for root in places if root is not None]
    directories = [root / run_id for root in roots for _, run_id in reply.data["runs"]]
    if directories:
        await asyncio.to_thread(_remove, directories)
    return reply


def _remove(directories: list[Path]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
