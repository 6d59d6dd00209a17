"""Workflows that a submission brings along, for tasks that name them by file or flow: `workflow: build.yaml`.

The caller has the files; a server may be elsewhere. So they come as definitions under keys, and `calls` says which
key a task's words mean; without `calls`, the words themselves are the key.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from weft.authoring.children import input_problems
from weft.authoring.load import Loaded, path_text
from weft.core.definition.child_workflows import DEPTH_MAX, references_of
from weft.core.definition.source_paths import SourcePaths
from weft.operations.errors import ApiError
from weft.operations.resources.submissions import Calls, ChildDefinition

CHILDREN_MAX = 1000
LoadChild = Callable[[ChildDefinition], Loaded]


def with_children(
    loaded: Loaded, calls: Calls | None, bodies: Mapping[str, ChildDefinition], load: LoadChild
) -> Loaded:
    """The definition with what its tasks run, at any depth. Names that nobody brought are the store's to know."""
    if len(bodies) > CHILDREN_MAX:
        raise ApiError("body", f"a run may bring {CHILDREN_MAX:,} children along, found {len(bodies):,}")
    known: dict[str, Loaded] = {}
    return _joined(loaded, calls, bodies, load, known, [])


def _joined(
    loaded: Loaded,
    calls: Calls | None,
    bodies: Mapping[str, ChildDefinition],
    load: LoadChild,
    known: dict[str, Loaded],
    trail: list[str],
) -> Loaded:
    found = {}
    for reference in references_of(loaded.workflow):
        key = reference if calls is None else calls.get(reference)
        if key is None or (calls is None and key not in bodies):
            continue
        if key not in bodies:
            raise ApiError("body", f"{reference!r} is said to be {key!r}, and there is none in `children`")
        if key in trail or len(trail) >= DEPTH_MAX:
            raise ApiError("body", f"these workflows run each other, or too deep: {' -> '.join([*trail, key])}")
        if key not in known:
            body = bodies[key]
            child = load(body)
            if body.source is not None:
                child = msgspec.structs.replace(child, source_path=Path(body.source) / child.workflow.name)
            known[key] = _joined(child, body.calls, bodies, load, known, [*trail, key])
        found[reference] = known[key]
    problems = input_problems(loaded.document, SourcePaths(loaded.document), found)
    if problems:
        errors = [{"path": path_text(p.path), "message": p.message, "fix": p.fix} for p in problems]
        raise ApiError("inputs", "; ".join(p.message for p in problems[:5]), errors=errors)
    return msgspec.structs.replace(loaded, children=found)
