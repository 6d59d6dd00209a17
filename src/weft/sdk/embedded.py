"""Weft inside an application: open a store, run flows in this process, submit others to workers.

    with weft.open() as w:
        total = w.run(nightly, day="2026-01-01")      # in this process, durably; the result, or RunFailed
        run_id = w.submit(nightly, day="2026-01-02")  # stored; a worker takes it

The nodes of a store run on an event loop in a thread of their own, so they do not use the event loop of the
application. Settings are those of the command line: WEFT_* variables and weft.toml.
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from weft import config as settings
from weft.sdk.flows import Flow
from weft.sdk.runs import ConnectionOwner, load_for_run, output_of, require_flow

if TYPE_CHECKING:
    from weft.authoring.load import Loaded
    from weft.client.local import StoreConnection  # noqa: F401 - named in the base of Weft
    from weft.core.workflow import Workflow
    from weft.executors.inline import AsyncFunction, InlineFunction
    from weft.local_node.node_thread import NodeThread

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
    """Open a store, by default that of the command line. It is created if it does not exist.

        with weft.open() as w:
            total = w.run(nightly, day="2026-01-01")  # in this process, durably
            run_id = w.submit(nightly, day="2026-01-02")  # stored; a worker takes it

    `store` is a path or a URL (`postgresql://…`). `slots` is how many tasks run in this process at a time, `labels`
    are those of its node, `workdir` is where tasks start, `python_runners` the number of processes for Python tasks.
    What is not given comes from the settings: WEFT_* variables and weft.toml.

    `worker`: a node in this process claims queued tasks of all runs, until the store is closed. Without it, `run`
    starts a node that works on that run only.

    `inline` are async functions of this application that tasks may name (`inline: fetch`, or `@task(inline=True)`):
    they run on the event loop of the node, in this process.
    """
    flags: dict[str, Any] = {"store": store, "slots": slots, "workdir": workdir, "python_runners": python_runners}
    if labels is not None:
        flags["labels"] = dict(labels)
    directory = Path.cwd()
    return Weft(settings.load(os.environ, directory, flags), directory, worker=worker, inline=inline)


class Weft(ConnectionOwner["StoreConnection"]):
    """An open store: what `weft.open` returns. Close it, or use it in a `with` statement."""

    _if_closed = "this store is closed: call weft.open() again, or use it inside the `with` statement"

    def __init__(
        self,
        config: settings.Config,
        directory: Path,
        *,
        worker: bool = False,
        inline: "Mapping[str, AsyncFunction] | Iterable[AsyncFunction]" = (),
    ) -> None:
        from weft.client.opening import open_connection

        self._inline: dict[str, InlineFunction] = {}
        if inline:
            from weft.executors.inline import inline_functions

            self._inline = inline_functions(inline)
        self._config = config
        self._directory = directory
        self._thread: NodeThread | None = None
        super().__init__(open_connection(config, directory))
        self._worker = worker
        if worker:
            self._nodes().start_worker()

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()

    # -- running -----------------------------------------------------------------------------------------

    def run(self, flow: Flow[P, R], /, *arguments: P.args, **named: P.kwargs) -> R:
        """Run a flow in this process, wait for it, and return its result, as the type of its return annotation.
        Raises RunFailed."""
        return self.finish(self._store(flow, arguments, named, in_process=True), flow)

    def run_shown(self, flow: Flow[P, R], /, *arguments: P.args, **named: P.kwargs) -> R:
        """Like `run`, with a line on the terminal that says how far the run is."""
        from weft.sdk.progress import shown_progress

        run_id = self._store(flow, arguments, named, in_process=True)
        with shown_progress(self.connection, run_id):
            return self.finish(run_id, flow)

    def submit(self, flow: Flow[P, R], /, *arguments: P.args, **named: P.kwargs) -> str:
        """Store a run of a flow, which workers execute, and return its id."""
        return self._store(flow, arguments, named, in_process=self._worker)

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
        """Store a run of a flow or of a definition file, with all options, and return its id.

        `key` is an idempotency key: one run per key, however often it is submitted. `priority` is 0 to 10, higher
        goes first. `max_parallel` is how many tasks of the run may run at a time. `fresh`: tasks with `cache` run
        even if there is a kept result, and replace it.
        """
        loaded, values = load_for_run(definition, inputs or {}, self._config.definition_defaults)
        return self._submit(loaded, values, key, priority, max_parallel, fresh)

    @overload
    def finish(self, run_id: str) -> Any: ...
    @overload
    def finish(self, run_id: str, flow: Flow[Any, R]) -> R: ...
    def finish(self, run_id: str, flow: Flow[Any, Any] | None = None) -> Any:
        """Work on a stored run in this process until it ends, and return its output: JSON, or, with `flow`, the type
        of its return annotation. Raises RunFailed."""
        if not self.connection.run(run_id).finished:
            self._nodes().finish(run_id)
        return output_of(self.connection, run_id, flow)

    def resume(self, run_id: str) -> Any:
        """Retry what did not succeed, finish the run in this process, and return its output. Raises RunFailed."""
        _, run_id = self.connection.find(run_id)
        self.connection.resume(run_id)
        return self.finish(run_id)

    # -- the parts ---------------------------------------------------------------------------------------

    def _store(
        self, flow: Flow[Any, Any], arguments: tuple[Any, ...], named: dict[str, Any], *, in_process: bool
    ) -> str:
        import inspect

        from weft.authoring.load import with_defaults

        loaded = with_defaults(require_flow(flow, "run").load(), self._config.definition_defaults)
        if in_process and flow.inline and not self._worker:
            self._register(flow.inline)
        bound = inspect.signature(flow).bind(*arguments, **named)
        if in_process:
            from weft.authoring.children import workflows_of

            for workflow in workflows_of(loaded):
                self._refuse_unplaceable(workflow)
        return self._submit(loaded, flow.inputs_from(bound.arguments))

    def _register(self, functions: "Mapping[str, AsyncFunction]") -> None:
        """Registers the inline functions of a flow for the node that will run it."""
        from weft.executors.inline import inline_functions

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
        from weft.operations.submission import submission

        workflow = loaded.workflow
        source = self._config.workdir or self._directory
        if loaded.source_path is not None:
            source = loaded.source_path.parent
        command = submission(
            loaded, json.dumps(inputs), source=str(source), priority=priority,
            max_parallel=max_parallel, key=key, fresh=fresh,
        )  # fmt: skip
        reply = self.connection.submit(command, workflow)
        assert reply.run_id is not None
        return reply.run_id

    def _nodes(self) -> "NodeThread":
        if self._thread is None:
            from weft.local_node.node_thread import NodeThread

            self._thread = NodeThread(self.connection, self._config, self._inline, _log)
        return self._thread

    def _refuse_unplaceable(self, workflow: "Workflow") -> None:
        """Refuses a run with a task that no node can run, which would wait forever."""
        from weft.core.commands import Refused
        from weft.local_node.factory import own_facts
        from weft.local_node.plugin_executors import plugin_kinds, plugins_here
        from weft.operations.reading.placement import facts_of, unplaceable

        others = [facts_of(node) for node in self.connection.nodes() if node.scope is None]
        added, down = plugins_here(self._config, plugin_kinds([workflow]))
        own = own_facts(self.connection, self._config, tuple(self._inline), down, added)
        reason = unplaceable(workflow, others, own)
        if reason is not None:
            raise Refused("invalid", reason)


def _log(message: str, fields: dict[str, Any]) -> None:
    logging.getLogger("weft").warning("%s %s", message, json.dumps(fields, default=str))
