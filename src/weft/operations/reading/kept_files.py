"""Files that tasks of a run have kept (`artifacts`)."""

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from weft.core.artifacts import ArtifactReference, KeptFiles, kept_files
from weft.core.expressions.run_names import Ended
from weft.operations.errors import NotFound
from weft.operations.reading.runs import find_run, run_info
from weft.operations.replies import ArtifactInfo
from weft.store.artifact_files import ArtifactError
from weft.store.kept_files import DirectoryFiles, FilesError, FileStorage, KeptFileReader, StoreFiles

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess


def artifacts_of(access: "StoreAccess", ref: str, task: str | None, limit: int) -> tuple[list[ArtifactInfo], bool]:
    """Of all tasks, or of one and its elements; and whether there are more."""
    out: list[ArtifactInfo] = []
    for name, kept in _kept(access, ref, task):
        for file in kept.list:
            if len(out) == limit:
                return out, True
            out.append(
                ArtifactInfo(task=name, path=file.path, bytes=file.bytes, sha256=file.sha256, attempt=kept.attempt)
            )
    return out, False


def open_kept_file(access: "StoreAccess", ref: str, task: str, path: str) -> tuple[ArtifactReference, BinaryIO]:
    """To be read by parts, and closed. ArtifactError: its bytes are not here."""
    for name, kept in _kept(access, ref, task):
        file = kept.find(path) if name == task else None
        if file is not None:
            storage = _storage(access, kept)
            reference = ArtifactReference(file.path, file.bytes, file.sha256, "")
            opened = io.BufferedReader(KeptFileReader(storage, kept, file))
            try:
                opened.peek(1)  # an error comes before the first byte is sent
            except FilesError as error:
                raise ArtifactError(str(error)) from None
            return reference, opened
    raise NotFound(f"{task} of run {find_run(access, ref)[1]} has kept no file {path!r}")


def _storage(access: "StoreAccess", kept: KeptFiles) -> FileStorage:
    if kept.place == "store":
        return StoreFiles(access.store.keep_output, access.reader)
    return DirectoryFiles(access.artifact_root)


def _kept(access: "StoreAccess", ref: str, task: str | None) -> Iterator[tuple[str, KeptFiles]]:
    run = run_info(access, ref)
    workflow = access.workflow(run.workflow)
    place = None if task is None else workflow.place(task)
    if task is not None and place is None:
        raise NotFound(f"run {run.id} has no task {task!r}")
    positions = [pos for pos, one in enumerate(workflow.tasks) if one.artifacts and place in (None, (pos, -1))]
    if place is not None and place[1] >= 0:
        positions = [place[0]]
    newest: dict[tuple[int, int], Ended] = {}
    for row in access.read("ends_at", run.no, msgspec.json.encode(positions).decode()) if positions else []:
        ended = Ended(*row)
        newest[ended.pos, ended.idx] = ended  # rows come oldest generation first
    for at in sorted(newest):
        found = kept_files(newest[at].result) if place is None or place[1] in (-1, at[1]) else None
        if found is not None:
            yield workflow.tasks[at[0]].called(at[1]), found
