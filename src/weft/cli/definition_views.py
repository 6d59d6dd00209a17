"""The commands that look at definitions and run nothing: `validate`, `schema` and `graph`.

    validate(paths, json, out, err, imports)      -> exit code
    schema(out)                                   -> exit code
    graph(path, format, json, out, err, width)    -> exit code

0 is fine, 2 is bad input. Errors go to `err`; with `json`, one JSON value goes to `out` in either case.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import msgspec

from weft.cli.terminal.graph_text import draw, times
from weft.core.workflow import BUILT_IN_KINDS, Workflow

if TYPE_CHECKING:
    from weft.authoring.children import LoadTrail
    from weft.authoring.load import Loaded

GraphFormat = Literal["text", "mermaid", "dot"]
OK, BAD_INPUT = 0, 2


def validate(paths: Sequence[str | Path], json: bool, out: TextIO, err: TextIO, *, imports: bool = False) -> int:
    """Checks every file, whatever is wrong with those before it. Flows that tasks run can only be checked by running
    the author's modules (`imports`)."""
    from weft.authoring.children import LoadTrail
    from weft.authoring.errors import DefinitionErrors

    reports: list[dict[str, Any]] = []
    wrong = 0
    for path in paths:
        trail = LoadTrail(imports=imports)
        try:
            workflow = _load(path, trail).workflow
        except DefinitionErrors as errors:
            wrong += 1
            reports.append({"file": str(path), "valid": False, **errors.as_json()})
            if not json:
                _print(err, str(errors))
        else:
            unchecked, unknown = list(trail.not_imported), _unknown_types(workflow)
            known = {**_summary(workflow), "not_imported": unchecked, "unknown_types": unknown}
            reports.append({"file": str(path), "valid": True, **known})
            if not json:
                rest = f"; not checked without --import: {', '.join(unchecked)}" if unchecked else ""
                rest += f"; no plugin here has the type {', '.join(unknown)}" if unknown else ""
                _print(out, f"{path}: ok, {_counts(workflow)}{rest}")
    if json:
        _print_json(out, {"valid": wrong == 0, "files": reports})
    elif wrong and len(paths) > 1:
        _print(err, f"{wrong} of {len(paths)} files have errors")
    return BAD_INPUT if wrong else OK


def _load(path: str | Path, trail: "LoadTrail") -> "Loaded":
    from weft.cli.definition_input import load_named

    return load_named(path, trail)


def schema(out: TextIO) -> int:
    from weft.core.definition.json_schema import definition_schema

    _print_json(out, definition_schema())
    return OK


def graph(
    path: str | Path,
    format: GraphFormat,
    json: bool,
    out: TextIO,
    err: TextIO,
    width: int | None = None,
) -> int:
    from weft.authoring.children import LoadTrail
    from weft.authoring.errors import DefinitionErrors

    try:
        workflow = _load(path, LoadTrail(imports=False)).workflow
    except DefinitionErrors as errors:
        if json:
            _print_json(out, {"file": str(path), "valid": False, **errors.as_json()})
        else:
            _print(err, str(errors))
        return BAD_INPUT
    if json:
        _print_json(out, {**_summary(workflow), "graph": _nodes(workflow)})
    elif format == "mermaid":
        _print(out, mermaid(workflow))
    elif format == "dot":
        _print(out, dot(workflow))
    else:
        _print(out, f"{workflow.name}: {_counts(workflow)}\n")
        _print(out, "\n".join(draw(workflow, width, _speaks_unicode(out))))
    return OK


def mermaid(workflow: Workflow) -> str:
    """Nodes are known by position: words like `end` are syntax to Mermaid."""
    lines = ["graph TD"]
    lines += [f'    n{pos}["{task.name}{times(task)}"]' for pos, task in enumerate(workflow.tasks)]
    lines += [f"    n{need} --> n{pos}" for pos, task in enumerate(workflow.tasks) for need in task.needs]
    final = [f"n{pos}" for pos, task in enumerate(workflow.tasks) if task.final]
    if final:
        lines += ["    classDef final stroke-dasharray: 5 5", f"    class {','.join(final)} final"]
    return "\n".join(lines)


def dot(workflow: Workflow) -> str:
    lines = [f"digraph {_dot_text(workflow.name)} {{", "    node [shape=box];"]
    for task in workflow.tasks:
        style = ", style=dashed" if task.final else ""
        label = _dot_text(task.name + times(task))
        lines.append(f"    {_dot_text(task.name)} [label={label}{style}];")
    for task in workflow.tasks:
        for need in task.needs:
            lines.append(f"    {_dot_text(workflow.tasks[need].name)} -> {_dot_text(task.name)};")
    return "\n".join([*lines, "}"])


def _dot_text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unknown_types(workflow: Workflow) -> list[str]:
    """Their tasks wait for a node that has them. No distribution is looked for if there are none."""
    kinds = {task.kind for task in workflow.tasks} - BUILT_IN_KINDS
    if not kinds:
        return []
    from weft.plugins.registry import installed_types

    return sorted(kinds.difference(installed_types()))


def _summary(workflow: Workflow) -> dict[str, Any]:
    return {
        "name": workflow.name,
        "hash": workflow.hash,
        "tasks": len(workflow.tasks),
        "levels": max(workflow.levels, default=-1) + 1,
    }


def _nodes(workflow: Workflow) -> list[dict[str, Any]]:
    return [
        {
            "name": task.name,
            "level": workflow.levels[pos],
            "needs": [workflow.tasks[need].name for need in task.needs],
            "kind": task.kind,
            "when": task.when,
            "replicas": task.replicas,
            "mapped": task.mapped,
            "wait": task.spec if task.kind == "wait" else None,
            "final": task.final,
        }
        for pos, task in enumerate(workflow.tasks)
    ]


def _counts(workflow: Workflow) -> str:
    tasks, levels = len(workflow.tasks), max(workflow.levels, default=-1) + 1
    return f"{tasks:,} task{'s' * (tasks != 1)} in {levels:,} level{'s' * (levels != 1)}"


def _speaks_unicode(stream: TextIO) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"


def _print(stream: TextIO, text: str) -> None:
    """A terminal that can't show a character gets a substitute, never a traceback."""
    if not _speaks_unicode(stream):
        text = text.replace("…", "...").replace("×", "x").encode(stream.encoding, "replace").decode(stream.encoding)
    stream.write(text + "\n")


def _print_json(stream: TextIO, value: Any) -> None:
    # escaped by hand to ASCII would only hurt readers; a stream without UTF-8 gets \u escapes below
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    if not _speaks_unicode(stream):
        text = "".join(c if c.isascii() else _escaped(c) for c in text)
    stream.write(text + "\n")


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2]):04x}" for at in range(0, len(units), 2))
