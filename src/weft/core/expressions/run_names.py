"""What expressions can see of a run: `inputs`, `tasks` (and `parent`, the same), `context`, `run`, `item`, `index`.

Conditions are evaluated by the rules, templates by the node that runs the attempt; both build their names here.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from weft.core.artifacts import KEY as ARTIFACT
from weft.core.artifacts import elsewhere
from weft.core.expressions import Elsewhere
from weft.core.workflow import Workflow

_LONG_STATES = {"succeeded": "completed"}


class Ended(msgspec.Struct):
    """One task's, or one element's, end as an expression may ask about it."""

    pos: int
    idx: int
    state: str
    exit_code: int | None
    error: str | None
    result: str | None  # JSON


def task_view(ended: Ended, *, long_form: bool) -> dict[str, Any]:
    """A task that did not run has null `exitCode` and `output`."""
    result = None if ended.result is None else msgspec.json.decode(ended.result)
    output = None
    if isinstance(result, dict):
        output = result.pop("output", None)
        result.pop("context", None)
        if output is None and ARTIFACT in result:
            output = elsewhere(result)
            result.pop("artifactError", None)
    return {
        "state": _LONG_STATES.get(ended.state, ended.state) if long_form else ended.state,
        "exitCode": ended.exit_code,
        "error": ended.error,
        "output": output,
        "result": result,
        "stdout": _stream(result, "stdout"),
        "stderr": _stream(result, "stderr"),
    }


def _stream(result: Any, name: str) -> Any:
    return result.get(name) if isinstance(result, dict) else None


def tasks_view(ends: Iterable[Ended], workflow: Workflow, *, long_form: bool = False) -> dict[str, Any]:
    """By name. A mapped task's output is the list of its elements' outputs, in the order of their indexes."""
    whole: dict[str, dict[str, Any]] = {}
    elements: dict[str, list[tuple[int, Any]]] = {}
    for ended in ends:
        name = workflow.tasks[ended.pos].name
        if ended.idx < 0:
            whole[name] = task_view(ended, long_form=long_form)
        else:
            elements.setdefault(name, []).append((ended.idx, task_view(ended, long_form=long_form)["output"]))
    for name, outputs in elements.items():
        if name in whole:
            gathered = [output for _, output in sorted(outputs, key=lambda pair: pair[0])]
            absent = next((output for output in gathered if type(output) is Elsewhere), None)
            whole[name]["output"] = gathered if absent is None else absent
    for name, view in whole.items():
        if workflow.tasks[workflow.position[name]].mapped and view["state"] in ("succeeded", "completed"):
            view["output"] = view["output"] or []
    return whole


def names_for(
    *, inputs: dict[str, Any], tasks: dict[str, Any], run: dict[str, Any], context: dict[str, Any]
) -> dict[str, Any]:
    return {
        "inputs": inputs,
        "tasks": tasks,
        "parent": tasks,
        "run": run,
        "context": context,
        "workflow": {"context": context},
    }
