"""A run followed by its events and shown as it goes on: what those who work on it and those who only watch share."""

import time
from collections.abc import Callable

import msgspec

from weft.cli.commands.signals import how_to_signal, signals_below
from weft.cli.run_view.output_following import Prefixer, Streams
from weft.cli.run_view.output_sink import Sink
from weft.cli.run_view.text_views import JsonView, LineView, Tails, View
from weft.cli.run_view.tracker import Running, Tracker
from weft.cli.session import CommandSession
from weft.cli.terminal.terminal import padded, width_of
from weft.client.following import PAGE
from weft.client.verbs import Connection
from weft.core.workflow import Workflow
from weft.executors.output import StreamName
from weft.operations.reading.output.attempts import AttemptOutput
from weft.operations.replies import RunInfo

REDRAW_S = 0.1
READ_S = 0.01  # at a time
PREFIX_WIDTH_MAX = 24
SENDING_MAX_S = 5.0  # for output of other nodes when the run is over
SENDING_LOOK_S = 0.02


class Options(msgspec.Struct):
    """How to work and what to show."""

    logs: bool
    json: bool
    own: bool = False  # this process has submitted the run, from a definition of this machine


def view_of(
    session: CommandSession, sink: Sink, connection: Connection, run_id: str, workflow: Workflow, options: Options
) -> View:
    if options.json:
        return JsonView(sink)
    tails = Tails(connection, run_id)
    if session.err.can_move:
        from weft.cli.run_view.live import LiveView  # only a terminal needs it

        return LiveView(session.err, sink, tails, workflow, output_here=session.out.tty)
    return LineView(session.err, sink, tails)


class RunFollower:
    def __init__(
        self,
        session: CommandSession,
        connection: Connection,
        run_id: str,
        workflow: Workflow,
        view: View,
        sink: Sink,
        after: int,
        options: Options,
    ) -> None:
        self._session = session
        self._connection = connection
        self._run_id = run_id
        self._view = view
        self._sink = sink
        self._tracker = Tracker(connection, connection.follow(run_id, after=after), run_id, workflow)
        self._streams = self._make_streams(workflow, options)
        self._asked: dict[tuple[str, str], None] = {}  # signals that somebody has been asked for
        self._woken = True
        self._over = False  # the run has ended: the node needs the processor no more
        self._awaits_advance = False  # it is moved by hand, and may have come to rest
        self._waiting_for_store = False  # it has been said

    def _make_streams(self, workflow: Workflow, options: Options) -> Streams | None:
        alone = workflow.chain or len(workflow.tasks) == 1
        if not options.logs and (options.json or not alone):
            return None
        if alone and not any(task.mapped for task in workflow.tasks):
            streams = Streams(self._open_output, lambda task, stream, data: self._view.output(stream, data))
            streams.ended = lambda task: self._view.output_ended()
            return streams
        longest = max((width_of(task.name) for task in workflow.tasks), default=0)
        width = min(longest, PREFIX_WIDTH_MAX)
        bar, titles = self._session.out.sign("bar"), self._tracker.titles
        prefixer = Prefixer(
            self._view.output, lambda task: f"{padded(titles.get(task, task), width)} {bar} ".encode()
        )
        streams = Streams(self._open_output, prefixer.take)
        streams.ended = prefixer.ended
        return streams

    def _open_output(self, task: str, attempt: int, stream: StreamName, session: str | None) -> AttemptOutput:
        return self._tracker.follower.open_output(task, attempt, stream)

    def _at_its_end(self) -> bool:
        if self._tracker.run_ended and self._connection.run(self._run_id).finished:
            return True
        return self._awaits_advance and self._connection.awaiting_advance(self._run_id)

    def _read_for(self, seconds: float, clock: Callable[[], float]) -> bool:
        """Take in events for so long; True if there may be more."""
        until = clock() + seconds
        while self._read():
            if clock() >= until:
                return True
        return False

    def _read(self) -> bool:
        """Take in a page of events; True if there may be another."""
        if self._sink.full:
            self._woken = True
            return True
        events = self._tracker.follower.events()
        changes = self._tracker.take(events)
        self._waiting_for_store = False
        if self._streams is not None:
            for running in self._tracker.ended:
                self._streams.end(running.task, running.attempt, running.session)
            for running in self._tracker.running.values():
                self._streams.begin(running.task, running.attempt, running.session)
            self._streams.poll()
        if events:
            self._view.show(events, changes)
            self._woken = True
        return len(events) >= PAGE

    def _show_run(self, run: RunInfo, running: dict[str, Running], now: int) -> None:
        self._over = run.finished
        self._awaits_advance = run.advance_state == "paused"
        alone = all(name in self._tracker.children.values() for name in running)
        if not run.finished and not run.active and alone:
            self._say_held(deep=bool(running))
        self._view.tick(run, running, now)

    def _say_held(self, *, deep: bool) -> None:
        """Nothing runs and nothing is queued: only somebody's signal, or its timeout, can move the run on. `deep`:
        the runs that it started may be the ones that wait."""
        wanted = [(self._run_id, task, name) for task, name in self._tracker.wanted.items()]
        if deep:
            wanted += signals_below(self._connection, self._run_id)
        for run_id, task, name in wanted:
            if (run_id, name) not in self._asked:
                self._asked[(run_id, name)] = None
                self._view.note(f"{task} waits for the signal {name}: {how_to_signal(run_id, name)}")

    def _catch_up(self) -> None:
        """What the node's last words were, and what others still send."""
        self._tracker.follower.catch_up()
        until = time.monotonic() + SENDING_MAX_S
        while self._read() or (self._streams is not None and (self._streams.poll() or self._streams.busy)):
            if self._streams is not None and self._streams.waiting:
                if time.monotonic() > until:
                    self._streams.give_up()
                time.sleep(SENDING_LOOK_S)
