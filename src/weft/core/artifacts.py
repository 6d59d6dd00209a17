"""Outputs that are too large for the store: a file beside it, and in the result a reference in place of the output.

The reference stands under a key of its own that only nodes write, `artifact`: an output that looks like one is just
an output. Whoever may read files (a node, people's commands) puts the value in its place before names are made. Rules
read no files: a `map` asks the committer for what it needs (FilesNeeded), and every other expression that a rule
evaluates gets an error that says so.

Files that tasks keep (`artifacts`) are listed in the result under such a key as well, `files`: so only what the
accepted attempt kept counts. Their bytes are stored before the report, under the attempt's number.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from weft.core.expressions import Elsewhere

KEY = "artifact"
FILES_KEY = "files"
_MARK = f'"{KEY}"'
_SHA256 = re.compile("[0-9a-f]{64}")
_RUN = re.compile("[0-9A-Za-z_-]+")
_FILES_MARK = f'"{FILES_KEY}"'


class ArtifactReference(msgspec.Struct, frozen=True, omit_defaults=True):
    path: str  # as the node that wrote it knows it
    bytes: int
    sha256: str
    node: str
    run: str | None = None  # whose directory it is in, if a later run has taken it over


class File(msgspec.Struct, frozen=True):
    """What was read of an artifact: its JSON, or why it could not be read."""

    text: str | None
    error: str = ""


#: By run id and SHA-256.
Files = Mapping[tuple[str, str], File]


class FilesNeeded(Exception):
    """A rule cannot decide without these artifacts. Nothing is written; decide again with them in the draft."""

    def __init__(self, run_id: str, references: list[ArtifactReference]) -> None:
        super().__init__(f"run {run_id}: " + ", ".join(reference.path for reference in references))
        self.run_id = run_id
        self.references = references


def with_run(result: str | None, run_id: str) -> str | None:
    """A result as another run takes it over: what it refers to stays where it is."""
    reference = reference_of(result)
    if result is None or reference is None or reference.run is not None:
        return result
    body = msgspec.json.decode(result)
    body[KEY]["run"] = run_id
    return msgspec.json.encode(body).decode()


class _Result(msgspec.Struct):
    artifact: ArtifactReference | None = None
    output: msgspec.Raw | None = None


def reference_of(result: str | None) -> ArtifactReference | None:
    """What a stored result refers to; None: its output, if it has any, is in it."""
    if result is None or _MARK not in result:
        return None
    try:
        found = msgspec.json.decode(result, type=_Result)
    except msgspec.ValidationError:
        return None
    reference = found.artifact if found.output is None else None
    if reference is None or _SHA256.fullmatch(reference.sha256) is None:  # it becomes a part of a path
        return None
    return None if reference.run is not None and _RUN.fullmatch(reference.run) is None else reference


def with_output(result: str, output: str) -> str:
    """The result with its output, JSON as well, in its place."""
    return f'{result[:-1]},"output":{output}}}'


def elsewhere(result: dict[str, Any]) -> Elsewhere:
    """In the place of an output that was not loaded."""
    reference = result[KEY]
    why = result.get("artifactError") or "conditions, wait and workflows can't read files"
    return Elsewhere(
        f"this output is in the artifact {reference['path']} ({reference['bytes']:,} bytes): {why}",
        "let the task give a smaller output with what is needed here",
    )


def with_error(result: str, why: str) -> str:
    """The result, with the reason for which its artifact could not be read."""
    return f'{result[:-1]},"artifactError":{msgspec.json.encode(why).decode()}}}'


def with_files(results: list[str | None], run_id: str, files: Files) -> list[str | None]:
    """Stored results with their artifacts in place. Raises FilesNeeded for those that have not been read."""
    references = [reference_of(result) for result in results]
    missing = [found for found in references if found is not None and (run_id, found.sha256) not in files]
    if missing:
        raise FilesNeeded(run_id, missing)
    return [
        result if result is None or found is None else _with_file(result, files[(run_id, found.sha256)])
        for result, found in zip(results, references, strict=True)
    ]


def _with_file(result: str, file: File) -> str:
    return with_error(result, file.error) if file.text is None else with_output(result, file.text)


class KeptFile(msgspec.Struct, frozen=True):
    path: str  # relative to the directory in which its task started
    bytes: int
    sha256: str
    executable: bool = False
    at: int = 0  # where its bytes begin among those of its attempt


class KeptFiles(msgspec.Struct, frozen=True):
    """`run`, `task` and `attempt` are those that kept them: a result may stand for a task of another run."""

    run: str
    task: int
    attempt: int
    place: Literal["directory", "store"]
    list: tuple[KeptFile, ...]

    def find(self, path: str) -> KeptFile | None:
        return next((file for file in self.list if file.path == path), None)


class _FilesResult(msgspec.Struct):
    files: KeptFiles | None = None


def kept_files(result: str | None) -> KeptFiles | None:
    """Those that a stored result speaks of."""
    if result is None or _FILES_MARK not in result:
        return None
    try:
        found = msgspec.json.decode(result, type=_FilesResult).files
    except msgspec.ValidationError:
        return None
    if found is None or not all(map(_is_sound, found.list)) or _RUN.fullmatch(found.run) is None:
        return None
    return found


def _is_sound(file: KeptFile) -> bool:
    """Both become parts of paths."""
    outside = file.path.startswith("/") or ".." in file.path.split("/") or not file.path
    return not outside and _SHA256.fullmatch(file.sha256) is not None
