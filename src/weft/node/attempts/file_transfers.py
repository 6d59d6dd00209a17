"""The files of an attempt on their way: through a thread, however large they are, while the lease goes on."""

import asyncio

import msgspec

from weft.core.artifacts import KeptFiles
from weft.core.expressions.run_names import Ended
from weft.core.workflow import Workflow
from weft.executors.protocol import Launch, Outcome
from weft.node.ports import LinkLost, Ports
from weft.store.kept_files import FilesError

_RETRY_S = 0.25
_NO_PLACE = "this node has no place for files of tasks"


async def keep_files(ports: Ports, launch: Launch, session: str, outcome: Outcome) -> KeptFiles | None:
    """What cannot be kept fails the attempt."""
    try:
        files = ports.files
        if files is None:
            raise FilesError(_NO_PLACE)
        return await files.in_thread(lambda: files.keep(launch, session))
    except (FilesError, OSError) as error:
        outcome.ok, outcome.error = False, str(error)
        outcome.output, outcome.context = msgspec.UNSET, None
        return None


async def fetch_files(
    ports: Ports, run_no: int, positions: tuple[int, ...], workflow: Workflow, launch: Launch
) -> str | None:
    """Why they could not be had; None: they are there."""
    ends = await _ends(ports, run_no, positions)
    try:
        files = ports.files
        if files is None:
            raise FilesError(_NO_PLACE)
        await files.in_thread(lambda: files.fetch(launch, workflow, ends))
    except (FilesError, OSError) as error:
        return f"files: {error}"
    return None


async def _ends(ports: Ports, run_no: int, positions: tuple[int, ...]) -> list[Ended]:
    while True:
        try:
            found = await ports.link.ends(run_no, list(positions))
        except LinkLost:
            await asyncio.sleep(_RETRY_S)
            continue
        newest = {(ended.pos, ended.idx): ended for ended in found}  # rows come oldest generation first
        return [newest[place] for place in sorted(newest)]
