"""Workflows that a submission brings along, for tasks that name them by file or flow: `workflow: build.yaml`.

Whoever submits has the files; a server may be elsewhere. So they come as definitions under keys, and `calls` says
which key a task's words mean; without `calls`, the words themselves are the key.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from weft.api.problems import Trouble
from weft.authoring.children import input_problems
from weft.authoring.load import Loaded, path_text
from weft.core.definition.child_workflows import DEPTH_MAX, references_of
from weft.core.definition.source_paths import SourcePaths

CHILDREN_MAX = 1000
Calls = dict[
    Annotated[str, msgspec.Meta(min_length=1, max_length=1024)],
    Annotated[str, msgspec.Meta(min_length=1, max_length=8192)],
]


class ChildBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    definition: Any
    format: Literal["yaml", "json"] = "yaml"
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    #: Where its tasks start; without it, where those of the run do.
    source: Annotated[str, msgspec.Meta(pattern="^/[^\\0]*$", max_length=4096)] | None = None
    calls: Calls | None = None


Children = dict[Annotated[str, msgspec.Meta(min_length=1, max_length=8192)], ChildBody]
LoadChild = Callable[[ChildBody], Loaded]


def with_children(loaded: Loaded, calls: Calls | None, bodies: Mapping[str, ChildBody], load: LoadChild) -> Loaded:
    """The definition with what its tasks run, at any depth. Names that nobody brought are the store's to know."""
    if len(bodies) > CHILDREN_MAX:
        raise Trouble(422, "body", f"a run may bring {CHILDREN_MAX:,} children along, found {len(bodies):,}")
    known: dict[str, Loaded] = {}
    return _joined(loaded, calls, bodies, load, known, [])


def _joined(
    loaded: Loaded,
    calls: Calls | None,
    bodies: Mapping[str, ChildBody],
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
            raise Trouble(422, "body", f"{reference!r} is said to be {key!r}, and there is none in `children`")
        if key in trail or len(trail) >= DEPTH_MAX:
            raise Trouble(422, "body", f"these workflows run each other, or too deep: {' -> '.join([*trail, key])}")
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
        raise Trouble(422, "inputs", "; ".join(p.message for p in problems[:5]), errors=errors)
    return msgspec.structs.replace(loaded, children=found)
