"""Shared by the embedded store and the client: the connection while it is open, loading what a run is started from,
and reading its output."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from weft.sdk.errors import Closed, RunFailed, TaskFailure
from weft.sdk.flows import Flow

if TYPE_CHECKING:
    from weft.authoring.load import Loaded
    from weft.client.verbs import Connection
    from weft.core.definition.site_defaults import SiteDefaults

C = TypeVar("C", bound="Connection")
R = TypeVar("R")
FAILURES_MAX = 20


class ConnectionOwner(Generic[C]):
    """Holds a connection until it is closed: by `close`, or by the end of a `with` statement."""

    _if_closed: str  # what to say then

    def __init__(self, connection: C) -> None:
        self._connection: C | None = connection

    @property
    def connection(self) -> C:
        """All other operations on this store or server: `runs()`, `cancel(run_id)`, `signal(…)`, and the others that
        the HTTP API has."""
        if self._connection is None:
            raise Closed(self._if_closed)
        return self._connection

    def __enter__(self) -> Self:
        self.connection  # noqa: B018 - raises Closed
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it. A store's nodes in this process stop: running tasks get the drain time, then they go back to the
        queue."""
        connection, self._connection = self._connection, None
        try:
            self._stop()
        finally:
            if connection is not None:
                connection.close()

    def _stop(self) -> None:
        """Stop what uses the connection: it is closed next."""

    @overload
    def output(self, run_id: str) -> Any: ...
    @overload
    def output(self, run_id: str, flow: Flow[Any, R]) -> R: ...
    def output(self, run_id: str, flow: Flow[Any, Any] | None = None) -> Any:
        """The output of a finished run: JSON, or, with `flow`, the type of its return annotation. RunFailed if it did
        not succeed."""
        return output_of(self.connection, run_id, flow)


def failures_of(connection: "Connection", run_id: str) -> list[TaskFailure]:
    """The failed tasks of a run, including those of child runs."""
    tasks, _ = connection.tasks(run_id, states=["failed", "dead_letter"], limit=FAILURES_MAX)
    out: list[TaskFailure] = []
    for task in [task for task in tasks if task.elements is None] or tasks:
        if task.child is not None:
            of_child = failures_of(connection, task.child)
            out += [TaskFailure(f"{task.name}/{f.task}", f.state, f.reason, f.traceback) for f in of_child]
            continue
        attempts = connection.attempts(run_id, task.name)
        error = (attempts[-1].result or {}).get("error") if attempts else None
        traceback = error.get("traceback") if isinstance(error, dict) else None
        out.append(TaskFailure(task.name, task.state, task.reason, traceback))
    return out


def output_of(connection: "Connection", run_id: str, flow: Flow[Any, Any] | None) -> Any:
    """The output of a run: JSON, or the type of the return annotation of `flow`. Raises RunFailed."""
    from weft.core.commands import Refused

    run = connection.run(run_id)
    if run.state != "succeeded":
        raise RunFailed(run.id, run.name, run.state, run.reason, failures_of(connection, run.id))
    try:
        value = connection.output(run.id, whole=True)
    except Refused as refused:
        raise RunFailed(run.id, run.name, run.state, f"the run has no output: {refused}", []) from None
    return value if flow is None else require_flow(flow, "output").result_from(value)


def require_flow(flow: Any, verb: str) -> Flow[Any, Any]:
    """Raises TypeError for an object that is not a flow, above all for a function without the decorator."""
    if isinstance(flow, Flow):
        return flow
    name = getattr(flow, "__name__", type(flow).__name__)
    if hasattr(flow, "options"):
        fix = f"{name} is a task: call it in a function with @flow, and pass that function"
    elif callable(flow):
        fix = f"{name} is a plain function: write @flow above its def"
    else:
        fix = f"this is a {name}; for the path of a definition use start()"
    raise TypeError(f"{verb}() takes a flow; {fix}")


def load_for_run(
    definition: "Flow[Any, Any] | str | Path | Loaded", inputs: Mapping[str, Any], defaults: "SiteDefaults"
) -> "tuple[Loaded, dict[str, Any]]":
    """The loaded definition, and the checked values of its inputs as JSON."""
    from weft.authoring.load import Loaded, load_file, with_defaults
    from weft.core.definition.inputs import checked_inputs
    from weft.executors.python_functions.json_values import plain_value

    if isinstance(definition, (str, Path)):
        definition = load_file(definition)
    if isinstance(definition, Loaded):
        plain = {name: plain_value(value, f"the input {name} is") for name, value in inputs.items()}
        return with_defaults(definition, defaults), checked_inputs(definition.inputs, plain)
    flow = require_flow(definition, "start")
    return with_defaults(flow.load(), defaults), flow.inputs_from(inputs)
