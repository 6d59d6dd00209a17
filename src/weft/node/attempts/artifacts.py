"""Between an attempt's result and the files that hold what is too large for the store.

Both ways go through a thread: 64 MiB take longer to be made durable than a lease should wait.
"""

import asyncio

import msgspec

from weft.core.artifacts import ArtifactReference, File, reference_of, with_error, with_output
from weft.core.expressions.run_names import Ended
from weft.executors.protocol import Outcome
from weft.store.artifact_files import ArtifactError, ArtifactStorage


async def store_output(
    artifacts: ArtifactStorage | None, run_id: str, outcome: Outcome, result_max: int
) -> ArtifactReference | None:
    """What stands for the output if that is too large for the store. What cannot be kept fails the attempt."""
    try:
        return await _store(artifacts, run_id, outcome, result_max)
    except ArtifactError as error:
        outcome.ok = False
        outcome.error = str(error)
        outcome.output, outcome.context = msgspec.UNSET, None
        return None


async def _store(
    artifacts: ArtifactStorage | None, run_id: str, outcome: Outcome, result_max: int
) -> ArtifactReference | None:
    if outcome.context:
        size = len(msgspec.json.encode(outcome.context))
        if size > result_max:
            raise ArtifactError(
                f"its context of {size:,} bytes is over result_max ({result_max:,}): give it as output instead"
            )
    if outcome.output is msgspec.UNSET:
        return None
    data = msgspec.json.encode(outcome.output)
    if len(data) <= result_max:
        return None
    if artifacts is None:
        raise ArtifactError(
            f"its output of {len(data):,} bytes is over result_max ({result_max:,}), and there is no place for it"
        )
    return await asyncio.to_thread(artifacts.write, run_id, data)


async def load_output(artifacts: ArtifactStorage | None, run_id: str, ended: Ended) -> bool:
    """Put the output in its place, if it is in an artifact. False: it cannot be had here, and the result says why."""
    reference = reference_of(ended.result)
    if reference is None:
        return True
    assert ended.result is not None
    file = await asyncio.to_thread(read_file, artifacts, run_id, reference)
    if file.text is None:
        ended.result = with_error(ended.result, file.error)
        return False
    ended.result = with_output(ended.result, file.text)
    return True


def read_files(
    artifacts: ArtifactStorage | None, run_id: str, references: list[ArtifactReference]
) -> dict[tuple[str, str], File]:
    return {(run_id, found.sha256): read_file(artifacts, run_id, found) for found in references}


def read_file(artifacts: ArtifactStorage | None, run_id: str, reference: ArtifactReference) -> File:
    try:
        if artifacts is None:
            raise ArtifactError("this process has no place for artifacts")
        return File(artifacts.read(run_id, reference).decode())
    except ArtifactError as error:
        return File(None, str(error))
