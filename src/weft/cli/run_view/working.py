"""Work on one run in this process: a node that claims for this run only, a view that follows it, and the signals.

First ^C: the node drains, what runs may end within the drain time, the rest goes back. Second: kill. Third: out,
at once; the spawner ends what is left.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from weft.cli.exit_codes import BAD_INPUT, INTERRUPTED, OK, GiveUp
from weft.cli.run_view.following import READ_S, REDRAW_S, Options, RunFollower, view_of
from weft.cli.run_view.output_sink import Sink
from weft.cli.run_view.summary import Summary, summarise
from weft.cli.run_view.text_views import View
from weft.cli.run_view.tracker import Running
from weft.cli.session import CommandSession
from weft.client.local import StoreConnection
from weft.core.decision.draft import Hint
from weft.core.workflow import Workflow
from weft.executors.output import StreamName, output_path
from weft.local_node.factory import make_node, node_options, node_settings
from weft.local_node.plugin_executors import plugin_kinds
from weft.local_node.process_tuning import tune
from weft.node.node import Node
from weft.operations.reading.output.attempts import AttemptOutput, FileOutput
from weft.store.protocol import StoreBusy

LOOK_S = 0.02
STORE_RETRY_S = 0.5  # for a store that does not answer
IDLE_AFTER_S = 2.0  # nothing happened for so long: look less often
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def work_on(session: CommandSession, connection: StoreConnection, run_id: str, after: int, options: Options) -> int:
    """Until the run has ended or somebody stops us; the exit code."""
    if session.config.slots == 0:
        raise GiveUp(BAD_INPUT, "with --slots 0 nothing would run here", "leave it to a worker: weft submit")
    workflow = connection.workflow(run_id)
    sink = Sink()
    view = view_of(session, sink, connection, run_id, workflow, options)
    sys.stdout.flush()
    sys.stderr.flush()
    work = RunWorker(session, connection, run_id, workflow, view, sink, after, options)
    try:
        tune()
        summary = asyncio.run(work.run())
        view.end(summary)
    finally:
        view.close()
        sink.close(1.0 if work.interrupts else None)
    if not summary.run.finished and not summary.awaiting_advance:  # interrupted, or its node was drained
        return INTERRUPTED
    if sink.lost is not None and summary.exit_code == OK:
        raise sink.lost
    return summary.exit_code


class RunWorker(RunFollower):
    def __init__(
        self,
        session: CommandSession,
        connection: StoreConnection,
        run_id: str,
        workflow: Workflow,
        view: View,
        sink: Sink,
        after: int,
        options: Options,
    ) -> None:
        self._node: Node | None = None
        self._here = connection
        self._own = options.own
        super().__init__(session, connection, run_id, workflow, view, sink, after, options)
        self._prefixes: dict[int, str] = {}  # of runs, by number
        self._exchanges = -1
        self.interrupts = 0

    def _open_output(self, task: str, attempt: int, stream: StreamName, session: str | None) -> AttemptOutput:
        """Our own node's files are here, and need not come by way of the store."""
        if self._node is not None and session == self._node.session:
            return FileOutput(output_path(str(self._here.access.output_root / self._run_id), task, attempt, stream))
        return super()._open_output(task, attempt, stream, session)

    async def run(self) -> Summary:
        connection, config = self._here, self._session.config
        settings = node_settings(
            connection, slots=config.slots, workdir=config.workdir, scope=self._run_id,
            http_private=self._own, **node_options(config),
        )  # fmt: skip
        node = make_node(
            connection, settings, plugins=plugin_kinds(connection.workflows(self._run_id)),
            python_runners=config.python_runners, log=self._log,
        )  # fmt: skip
        self._node = node
        note = self._session.log("info", "settings", config.described())
        if note is not None:
            self._view.note(note)
        self._view.begin(connection.run(self._run_id))
        self._tracker.look_at_running()
        loop = asyncio.get_running_loop()
        for number in heeded_signals():
            loop.add_signal_handler(number, self._interrupt, node)
        unlisten = connection.link.listen(self._wake)
        working = asyncio.create_task(node.run())
        try:
            await self._follow(node, working)
            node.stop()
            await working
            self._catch_up()
        finally:
            unlisten()
            await self._end(node, working)
            if self._streams is not None:
                self._streams.close()
            for number in heeded_signals():
                loop.remove_signal_handler(number)
        return summarise(connection, self._run_id, len(self._tracker.again), self.interrupts > 0)

    async def _end(self, node: Node, working: "asyncio.Task[None]") -> None:
        """On any way out: nothing of ours is left running."""
        if not working.done():
            node.stop()
            node.stop()
            await asyncio.gather(working, return_exceptions=True)

    def _wake(self, hint: Hint) -> None:
        self._woken = True

    def _interrupt(self, node: Node) -> None:
        self.interrupts += 1
        if self.interrupts == 1:
            drain = self._session.config.drain
            self._view.note(f"stopping: running tasks may end within {drain:g} s; ^C again kills them")
        elif self.interrupts == 2:
            self._view.note("killing what still runs")
        else:
            self._view.close()
            self._sink.close(0.2)
            os._exit(INTERRUPTED)
        node.stop()

    def _log(self, message: str, fields: dict[str, Any]) -> None:
        text = self._session.log("warning", message, fields)
        if text is not None:
            self._view.note(text)

    # -- following ---------------------------------------------------------------------------------------

    async def _follow(self, node: Node, working: "asyncio.Task[None]") -> None:
        """Until the run has ended, or the node has."""
        loop = asyncio.get_running_loop()
        next_draw = quiet_since = loop.time()
        while not working.done():
            now = loop.time()
            beat = now >= next_draw
            # One read for each picture, and one write: READ_S of each REDRAW_S is all that the view takes from the
            # node. On a terminal, events and picture change together: no task is seen both ended and running. Without
            # one, a node that holds nothing need not be spared: its run may be over.
            due = beat or self._over or not (self._view.paced or _holds(node))
            more = False
            try:
                if due and self._has_changed(node):
                    quiet_since = now
                    more = self._read_for(READ_S, loop.time)
                if self._streams is not None and not self._sink.full:
                    more = self._streams.poll() or more
                if beat:
                    self._draw(node)
                    next_draw = now + REDRAW_S
                if not more and self._at_its_end():
                    return
            except StoreBusy as error:
                await self._without_store(error)
            pause = 0.0 if more and self._over and not self._sink.full else LOOK_S
            await asyncio.sleep(REDRAW_S if now - quiet_since > IDLE_AFTER_S else pause)
        working.result()

    async def _without_store(self, error: StoreBusy) -> None:
        """The node goes on by itself; what happens meanwhile is read when the store is back."""
        self._woken = True
        if not self._waiting_for_store:
            self._waiting_for_store = True
            self._view.note(f"waiting for the store: {error}")
        await asyncio.sleep(STORE_RETRY_S)

    def _has_changed(self, node: Node) -> bool:
        """Somebody else wrote to the store, or our own node did."""
        exchanges = node.loop.exchanges if node.loop is not None else 0
        # The end of a run may be there before its last events: they follow when no older transaction is going on.
        changed = self._woken or exchanges != self._exchanges or (self._over and not self._tracker.run_ended)
        self._woken, self._exchanges = False, exchanges
        return changed

    def _draw(self, node: Node) -> None:
        now = self._connection.now()
        self._show_run(self._connection.run(self._run_id), self._running(node, now), now)

    def _running(self, node: Node, now: int) -> dict[str, Running]:
        """What others run, as the events say; what our own node runs, as it knows better: events come later, and
        what was claimed ahead of a free slot is still queued to people."""
        known = self._tracker.running
        running = {name: task for name, task in known.items() if task.session != node.session}
        for held in node.loop.worker.held.values() if node.loop is not None else ():
            if held.started:
                name = self._prefix(held.claim.run_no, held.facts.id) + held.definition.called(held.claim.idx)
                running[name] = known.get(name) or Running(name, held.claim.attempt, now, None, node.session)
        return running

    def _prefix(self, run_no: int, run_id: str) -> str:
        """Tasks of a run that one of ours started are called by the way to them: deploy/build."""
        known = self._prefixes.get(run_no)
        if known is None:
            path = self._connection.path_within(run_id, self._run_id)
            known = self._prefixes[run_no] = f"{path}/" if path else ""
        return known


def _holds(node: Node) -> bool:
    return node.loop is not None and bool(node.loop.worker.held)


def heeded_signals() -> list[signal.Signals]:
    """What our parent wants ignored (nohup) stays ignored."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
