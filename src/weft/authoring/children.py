"""Child definitions: the files and flows that the tasks of a definition run are loaded and checked with it.

Names of stored workflows are looked up in the store when a run is submitted.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from weft.authoring.code_positions import display_path
from weft.authoring.errors import DefinitionErrors, LocatedError
from weft.core.definition.child_workflows import DEPTH_MAX, kind_of
from weft.core.definition.document import Document
from weft.core.definition.inputs import wrong_inputs
from weft.core.definition.problems import Path as ValuePath
from weft.core.definition.problems import ValueProblem
from weft.core.definition.source_paths import SourcePaths
from weft.core.rows import Pin
from weft.core.workflow import Workflow

if TYPE_CHECKING:
    from weft.authoring.load import Loaded


class LoadTrail(msgspec.Struct):
    """The files that led to the present one, and all files loaded so far, by real path. Without `imports`, no code of
    the author is run: flows that tasks name are listed in `not_imported`."""

    files: list[str] = []
    loaded: dict[str, "Loaded"] = {}
    imports: bool = True
    not_imported: dict[str, None] = {}


class ChildDefinitions(msgspec.Struct):
    """`loaded`: by the reference of the tasks. `problems` are in the parent, `errors` in the files of children."""

    loaded: dict[str, "Loaded"] = {}
    problems: list[ValueProblem] = []
    errors: list[LocatedError] = []


def find_children(document: Document, value: Any, directory: Path, trail: LoadTrail) -> ChildDefinitions:
    """`value` is the definition as the author wrote it, for the paths of problems."""
    out = ChildDefinitions()
    broken: dict[str, None] = {}
    source = SourcePaths(value)
    for name, task in document["tasks"].items():
        reference = task.get("workflow")
        if reference is None or kind_of(reference) == "name" or reference in out.loaded or reference in broken:
            continue
        if kind_of(reference) == "flow" and not trail.imports:
            trail.not_imported[reference] = None
            continue
        try:
            out.loaded[reference] = _load(reference, directory, trail)
        except DefinitionErrors as errors:
            broken[reference] = None
            out.errors += errors.errors
        except _BadReference as bad:
            out.problems.append(ValueProblem((*source.task(name)[0], "workflow"), *bad.args))
    out.problems += input_problems(document, source, out.loaded)
    return out


def input_problems(document: Document, source: SourcePaths, children: dict[str, "Loaded"]) -> list[ValueProblem]:
    """Checks `with` of the tasks against the inputs that their child workflows declare."""
    out = []
    for name, task in document["tasks"].items():
        child = children.get(task.get("workflow", ""))
        if child is not None:
            out += _inputs(task, source.task(name)[0], child)
    return out


class _BadReference(Exception):
    """(message, fix): the reference cannot be loaded."""


def _load(reference: str, directory: Path, trail: LoadTrail) -> "Loaded":
    if kind_of(reference) == "flow":
        from weft.authoring.flow_files import find_flow

        return find_flow(reference, str(directory)).load()
    from weft.authoring.load import load_file

    path = directory / reference
    identity = os.path.realpath(path)
    if identity in trail.files:
        files = [*trail.files[trail.files.index(identity) :], identity]
        shown = " -> ".join(os.path.relpath(file, directory) for file in files)
        raise _BadReference(f"these files run each other: {shown}", "remove one of these tasks")
    if len(trail.files) >= DEPTH_MAX:
        raise _BadReference(
            f"workflows run each other more than {DEPTH_MAX} deep", "let one of them run the tasks itself"
        )
    known = trail.loaded.get(identity)
    if known is not None:
        return known
    if not path.is_file():
        fix = "the path is relative to the directory of this definition"
        raise _BadReference(f"there is no file {reference}", None if Path(reference).is_absolute() else fix)
    loaded = load_file(display_path(str(path)), trail=trail)
    trail.loaded[identity] = loaded
    return loaded


def _inputs(task: dict[str, Any], task_path: ValuePath, child: "Loaded") -> list[ValueProblem]:
    out = []
    for problem in wrong_inputs(child.inputs, task.get("with", {})):
        path = (*task_path, "with", *problem.path) if "with" in task else (*task_path, "workflow")
        at = problem.at if problem.path or "with" in task else "value"
        out.append(msgspec.structs.replace(problem, path=path, at=at))
    return out


def family_of(loaded: "Loaded", source: str) -> tuple[list[tuple[str, str, bytes]], list[Pin]]:
    """What a submission carries beside its own document: (hash, name, document) of all child workflows, at any depth,
    and the pins from references to them. `source` is the directory where the tasks of the run start."""
    documents: dict[str, tuple[str, str, bytes]] = {}
    pins: list[Pin] = []
    pending = [(loaded, source)]
    seen = {(loaded.hash, source): None}
    for parent, directory in pending:
        for name, child in parent.children.items():
            at = directory if child.source_path is None else str(child.source_path.parent)
            pins.append(Pin(parent.hash, directory, name, child.hash, at))
            documents.setdefault(child.hash, (child.hash, child.name, child.encoded))
            if (child.hash, at) not in seen:
                seen[(child.hash, at)] = None
                pending.append((child, at))
    return list(documents.values()), pins


def workflows_of(loaded: "Loaded") -> list[Workflow]:
    """The workflow and its child workflows that are loaded, at any depth, each once."""
    workflows: dict[str, Workflow] = {}
    pending = [loaded]
    for one in pending:
        if one.hash not in workflows:
            workflows[one.hash] = one.workflow
            pending += one.children.values()
    return list(workflows.values())
