"""What an embedded store and a client have in common: what a run is started from, and what comes out of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.core.definition.site_defaults import SiteDefaults
from weft.sdk.errors import RunFailed, TaskFailure
from weft.sdk.flows import Flow

if TYPE_CHECKING:
    from weft.authoring.load import Loaded
    from weft.control.protocol import Control

FAILURES_MAX = 20


def failures_of(control: "Control", run_id: str) -> list[TaskFailure]:
    """The failed tasks of a run, those of runs that its tasks started included."""
    tasks, _ = control.tasks(run_id, states=["failed", "dead_letter"], limit=FAILURES_MAX)
    out: list[TaskFailure] = []
    for task in [task for task in tasks if task.elements is None] or tasks:
        if task.child is not None:
            below = failures_of(control, task.child)
            out += [TaskFailure(f"{task.name}/{f.task}", f.state, f.reason, f.traceback) for f in below]
            continue
        attempts = control.attempts(run_id, task.name)
        error = (attempts[-1].result or {}).get("error") if attempts else None
        traceback = error.get("traceback") if isinstance(error, dict) else None
        out.append(TaskFailure(task.name, task.state, task.reason, traceback))
    return out


def output_of(control: "Control", run_id: str, flow: Flow[Any, Any] | None) -> Any:
    from weft.core.commands import Refused

    run = control.run(run_id)
    if run.state != "succeeded":
        raise RunFailed(run.id, run.name, run.state, run.reason, failures_of(control, run.id))
    try:
        value = control.output(run.id, artifacts_max=2**62)
    except Refused as refused:
        raise RunFailed(run.id, run.name, run.state, f"it has no output: {refused}", []) from None
    return value if flow is None else flow_given(flow, "output").result_from(value)


def flow_given(flow: Any, verb: str) -> Flow[Any, Any]:
    """Raises TypeError for what is no flow, above all for a function without its decorator."""
    if isinstance(flow, Flow):
        return flow
    name = getattr(flow, "__name__", type(flow).__name__)
    if hasattr(flow, "options"):
        fix = f"{name} is a task: call it in a function under @flow, and give that"
    elif callable(flow):
        fix = f"{name} is a plain function: write @flow above its def"
    else:
        fix = f"for the path of a definition use start(), which takes both, not a {name}"
    raise TypeError(f"{verb}() takes a flow; {fix}")


def loaded_from(
    definition: "Flow[Any, Any] | str | Path | Loaded", inputs: Mapping[str, Any], defaults: SiteDefaults
) -> "tuple[Loaded, dict[str, Any]]":
    """What runs, and the values of its inputs as JSON, checked."""
    from weft.authoring.load import Loaded, load_file, with_defaults
    from weft.core.definition.inputs import checked_inputs
    from weft.executors.python_value import plain_value

    if isinstance(definition, (str, Path)):
        definition = load_file(definition)
    if isinstance(definition, Loaded):
        plain = {name: plain_value(value, f"the input {name} is") for name, value in inputs.items()}
        return with_defaults(definition, defaults), checked_inputs(definition.workflow.inputs, plain)
    flow = flow_given(definition, "start")
    return with_defaults(flow.load(), defaults), flow.inputs_from(inputs)
