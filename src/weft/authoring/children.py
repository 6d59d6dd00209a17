"""The workflows that a definition's tasks run, where it names files or flows: loaded with it, checked with it.

Names are another matter: they are looked up in the store when a run is submitted.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from weft.authoring.code_positions import shown_path
from weft.authoring.errors import DefinitionErrors, LocatedError
from weft.core.definition.child_workflows import DEPTH_MAX, kind_of
from weft.core.definition.document import Document, encode_document
from weft.core.definition.inputs import wrong_inputs
from weft.core.definition.problems import Path as ValuePath
from weft.core.definition.problems import Problem
from weft.core.definition.source_paths import Written
from weft.core.rows import Pin
from weft.core.workflow import Workflow

if TYPE_CHECKING:
    from weft.authoring.load import Loaded


class Trail(msgspec.Struct):
    """The files that led here, and all that have been loaded on the way."""

    files: list[str] = []
    loaded: dict[str, "Loaded"] = {}


class Children(msgspec.Struct):
    """By what the tasks call them; `problems` are of the definition itself, `errors` of the others' own files."""

    found: dict[str, "Loaded"] = {}
    problems: list[Problem] = []
    errors: list[LocatedError] = []


def find_children(document: Document, value: Any, directory: Path, trail: Trail) -> Children:
    """`value` is the definition as it was written, to tell places in it."""
    out = Children()
    broken: dict[str, None] = {}
    written = Written(value)
    for name, task in document["tasks"].items():
        reference = task.get("workflow")
        if reference is None or kind_of(reference) == "name" or reference in out.found or reference in broken:
            continue
        try:
            out.found[reference] = _load(reference, directory, trail)
        except DefinitionErrors as errors:
            broken[reference] = None
            out.errors += errors.errors
        except _Wrong as wrong:
            out.problems.append(Problem((*written.task(name)[0], "workflow"), *wrong.args))
    out.problems += input_problems(document, written, out.found)
    return out


def input_problems(document: Document, written: Written, found: dict[str, "Loaded"]) -> list[Problem]:
    """What the tasks give to the workflows they run, held against the inputs that those declare."""
    out = []
    for name, task in document["tasks"].items():
        child = found.get(task.get("workflow", ""))
        if child is not None:
            out += _inputs(task, written.task(name)[0], child.workflow)
    return out


class _Wrong(Exception):
    """(message, fix) about a reference."""


def _load(reference: str, directory: Path, trail: Trail) -> "Loaded":
    if kind_of(reference) == "flow":
        from weft.authoring.flow_files import find_flow

        return find_flow(reference, str(directory)).load()
    from weft.authoring.load import load_file

    path = directory / reference
    identity = os.path.realpath(path)
    if identity in trail.files:
        files = [*trail.files[trail.files.index(identity) :], identity]
        shown = " -> ".join(os.path.relpath(file, directory) for file in files)
        raise _Wrong(f"these files run each other: {shown}", "remove one of these tasks")
    if len(trail.files) >= DEPTH_MAX:
        raise _Wrong(f"workflows run each other more than {DEPTH_MAX} deep", "let one of them do the work itself")
    known = trail.loaded.get(identity)
    if known is not None:
        return known
    if not path.is_file():
        fix = "the path counts from the directory of this definition"
        raise _Wrong(f"there is no file {reference}", None if Path(reference).is_absolute() else fix)
    loaded = load_file(shown_path(str(path)), trail=trail)
    trail.loaded[identity] = loaded
    return loaded


def _inputs(task: dict[str, Any], place: ValuePath, child: Workflow) -> list[Problem]:
    out = []
    for problem in wrong_inputs(child.inputs, task.get("with", {})):
        path = (*place, "with", *problem.path) if "with" in task else (*place, "workflow")
        at = problem.at if problem.path or "with" in task else "value"
        out.append(msgspec.structs.replace(problem, path=path, at=at))
    return out


def family_of(loaded: "Loaded", source: str) -> tuple[list[tuple[str, str, bytes]], list[Pin]]:
    """What a submission carries beside its own document: (hash, name, document) of all that its tasks run, at any
    depth, and which name means which. `source` is the directory where the run's tasks start."""
    documents: dict[str, tuple[str, str, bytes]] = {}
    pins: list[Pin] = []
    pending = [(loaded, source)]
    seen = {(loaded.workflow.hash, source): None}
    for parent, directory in pending:
        for name, child in parent.children.items():
            hash = child.workflow.hash
            at = directory if child.source_path is None else str(child.source_path.parent)
            pins.append(Pin(parent.workflow.hash, directory, name, hash, at))
            documents.setdefault(hash, (hash, child.workflow.name, encode_document(child.document)))
            if (hash, at) not in seen:
                seen[(hash, at)] = None
                pending.append((child, at))
    return list(documents.values()), pins


def workflows_of(loaded: "Loaded") -> list[Workflow]:
    """It and all that its tasks run, as far as it is known here; each once."""
    found: dict[str, Workflow] = {}
    pending = [loaded]
    for one in pending:
        if one.workflow.hash not in found:
            found[one.workflow.hash] = one.workflow
            pending += one.children.values()
    return list(found.values())
