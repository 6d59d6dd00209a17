"""Outputs that are too large for the store: a file beside it, and in the result a reference in place of the output.

The reference stands under a key of its own that only nodes write, `artifact`: an output that looks like one is just
an output. Whoever may read files (a node, people's commands) puts the value in its place before names are made. Rules
read no files: a `map` asks the committer for what it needs (FilesNeeded), and every other expression that a rule
evaluates gets an error that says so.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from weft.core.expressions import Elsewhere

KEY = "artifact"
_MARK = f'"{KEY}"'


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
    return found.artifact if found.output is None else None


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
