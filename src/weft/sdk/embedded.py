"""Weft inside an application: open a store, run flows here, hand others over to workers.

    with weft.open() as w:
        total = w.run(nightly, day="2026-01-01")      # here, durably; the result, or RunFailed
        run_id = w.submit(nightly, day="2026-01-02")  # stored; a worker takes it

The nodes of one store live on an event loop in a thread of their own, so the application's loop, if it has one, is
not touched. Settings come from where the command line takes them: WEFT_* variables and weft.toml.
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from weft import config as settings
from weft.sdk.errors import Closed
from weft.sdk.flows import Flow
from weft.sdk.runs import flow_given, loaded_from, output_of

if TYPE_CHECKING:
    from weft.authoring.load import Loaded
    from weft.control.local import LocalControl
    from weft.control.node_thread import NodeThread
    from weft.core.workflow import Workflow
    from weft.executors.inline import InlineFunction
    from weft.executors.inline_call import AsyncFunction

P = ParamSpec("P")
R = TypeVar("R")


def open(
    store: str | Path | None = None,
    *,
    slots: int | None = None,
    labels: Mapping[str, str] | None = None,
    workdir: str | Path | None = None,
    python_runners: int | None = None,
    worker: bool = False,
    inline: "Mapping[str, AsyncFunction] | Iterable[AsyncFunction]" = (),
) -> "Weft":
    """Open a store, the one that the command line would use if none is named. It is made if it is not there.

    `worker`: a node in this process takes whatever is queued, until the store is closed. Without it, `run` starts a
    node that works on that run only.

    `inline` are async functions of this application that tasks may name (`inline: fetch`, or `@task(inline=True)`):
    they run on the node's event loop, in this process.
    """
    flags: dict[str, Any] = {"store": store, "slots": slots, "workdir": workdir, "python_runners": python_runners}
    if labels is not None:
        flags["labels"] = dict(labels)
    directory = Path.cwd()
    return Weft(settings.load(os.environ, directory, flags), directory, worker=worker, inline=inline)


class Weft:
    """An open store. Close it, or use it in a `with`."""

    def __init__(
        self,
        config: settings.Config,
        directory: Path,
        *,
        worker: bool = False,
        inline: "Mapping[str, AsyncFunction] | Iterable[AsyncFunction]" = (),
    ) -> None:
        from weft.control.opening import open_control

        self._inline: dict[str, InlineFunction] = {}
        if inline:
            from weft.executors.inline_call import inline_functions

            self._inline = inline_functions(inline)
        self._config = config
        self._directory = directory
        self._thread: NodeThread | None = None
        self._control: LocalControl | None = open_control(config, directory)
        self._worker = worker
        if worker:
            self._nodes().start_worker()

    @property
    def control(self) -> "LocalControl":
        """All other verbs, on this store."""
        if self._control is None:
            raise Closed("this store has been closed: call weft.open() again, or do it within the `with`")
        return self._control

    def __enter__(self) -> "Weft":
        self.control  # noqa: B018 - not after it has been closed
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what works here: running tasks get the drain time, the rest goes back to the queue."""
        control, self._control = self._control, None
        thread, self._thread = self._thread, None
        try:
            if thread is not None:
                thread.close()
        finally:
            if control is not None:
                control.close()

    # -- running -----------------------------------------------------------------------------------------

    def run(self, flow: Flow[P, R], /, *arguments: P.args, **named: P.kwargs) -> R:
        """Run a flow here and wait for it: what it returns, as its annotation says, or RunFailed."""
        return self.finish(self._store(flow, arguments, named, here=True), flow)

    def submit(self, flow: Flow[P, R], /, *arguments: P.args, **named: P.kwargs) -> str:
        """Store a run for workers to take; its id."""
        return self._store(flow, arguments, named, here=self._worker)

    def start(
        self,
        definition: "Flow[Any, Any] | str | Path | Loaded",
        inputs: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        priority: int = 0,
        max_parallel: int | None = None,
        fresh: bool = False,
    ) -> str:
        """Store a run of a flow or of a definition's file, with all that can be said about it; its id.

        `key` is for idempotency: one run per key, however often it is asked for. `fresh`: tasks with `cache` run all
        the same, and keep what comes out.
        """
        loaded, values = loaded_from(definition, inputs or {}, self._config.definition_defaults)
        return self._submit(loaded, values, key, priority, max_parallel, fresh)

    @overload
    def finish(self, run_id: str) -> Any: ...
    @overload
    def finish(self, run_id: str, flow: Flow[Any, R]) -> R: ...
    def finish(self, run_id: str, flow: Flow[Any, Any] | None = None) -> Any:
        """Work on a stored run here until it has ended: its output, or RunFailed. The output is JSON, or, of a run of
        `flow`, what the flow's return annotation says."""
        if not self.control.run(run_id).finished:
            self._nodes().finish(run_id)
        return output_of(self.control, run_id, flow)

    def resume(self, run_id: str) -> Any:
        """Try again what did not succeed, and finish it here: the run's output, or RunFailed."""
        _, run_id = self.control.find(run_id)
        self.control.resume(run_id)
        return self.finish(run_id)

    @overload
    def output(self, run_id: str) -> Any: ...
    @overload
    def output(self, run_id: str, flow: Flow[Any, R]) -> R: ...
    def output(self, run_id: str, flow: Flow[Any, Any] | None = None) -> Any:
        """The output of a run that has ended, as `finish` gives it; RunFailed if it did not succeed."""
        return output_of(self.control, run_id, flow)

    # -- the parts ---------------------------------------------------------------------------------------

    def _store(self, flow: Flow[Any, Any], arguments: tuple[Any, ...], named: dict[str, Any], *, here: bool) -> str:
        import inspect

        from weft.authoring.load import with_defaults

        loaded = with_defaults(flow_given(flow, "run").load(), self._config.definition_defaults)
        if here and flow.inline and not self._worker:
            self._learn(flow.inline)
        bound = inspect.signature(flow).bind(*arguments, **named)
        if here:
            from weft.authoring.children import workflows_of

            for workflow in workflows_of(loaded):
                self._refuse_unplaceable(workflow)
        return self._submit(loaded, flow.inputs_from(bound.arguments))

    def _learn(self, functions: "Mapping[str, AsyncFunction]") -> None:
        """A node that is made for a run has the flow's own inline functions, without being told of them."""
        from weft.executors.inline_call import inline_functions

        self._inline |= {n: f for n, f in inline_functions(functions).items() if n not in self._inline}

    def _submit(
        self,
        loaded: "Loaded",
        inputs: dict[str, Any],
        key: str | None = None,
        priority: int = 0,
        max_parallel: int | None = None,
        fresh: bool = False,
    ) -> str:
        from weft.control.submission import submission

        workflow = loaded.workflow
        source = self._config.workdir or self._directory
        if loaded.source_path is not None:
            source = loaded.source_path.parent
        command = submission(
            loaded, json.dumps(inputs), source=str(source), priority=priority,
            max_parallel=max_parallel, key=key, fresh=fresh,
        )  # fmt: skip
        reply = self.control.submit(command, workflow)
        assert reply.run_id is not None
        return reply.run_id

    def _nodes(self) -> "NodeThread":
        if self._thread is None:
            from weft.control.node_thread import NodeThread

            self._thread = NodeThread(self.control, self._config, self._inline, _log)
        return self._thread

    def _refuse_unplaceable(self, workflow: "Workflow") -> None:
        """A run that no node could finish would wait for ever."""
        from weft.control.here import own_facts
        from weft.control.placing import facts_of, unplaceable
        from weft.core.commands import Refused

        others = [facts_of(node) for node in self.control.nodes() if node.scope is None]
        here = own_facts(self.control, self._config, tuple(self._inline))
        why = unplaceable(workflow, others, here)
        if why is not None:
            raise Refused("invalid", why)


def _log(message: str, fields: dict[str, Any]) -> None:
    logging.getLogger("weft").warning("%s %s", message, json.dumps(fields, default=str))
