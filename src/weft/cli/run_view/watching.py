"""Watch a run that other nodes work on, as if it ran here. ^C stops watching, and nothing else."""

import sys
import time

from weft.cli.exit_codes import INTERRUPTED, OK
from weft.cli.run_view.following import READ_S, Options, RunFollower, view_of
from weft.cli.run_view.output_sink import Sink
from weft.cli.run_view.summary import Summary, summarise
from weft.cli.session import CommandSession
from weft.client.verbs import Connection
from weft.operations.replies import RunInfo
from weft.store.protocol import StoreBusy

REDRAW_S = 0.25
RUN_S = 1.0  # its counters, and signals that runs below it wait for: our stream tells of neither
SERVER_RETRY_S = 0.5


def watch_run(session: CommandSession, connection: Connection, run_id: str, after: int, options: Options) -> int:
    """Until the run has ended, or is paused; the exit code."""
    workflow = connection.workflow(run_id)
    sink = Sink()
    view = view_of(session, sink, connection, run_id, workflow, options)
    sys.stdout.flush()
    sys.stderr.flush()
    interrupted = False
    try:
        summary = RunWatcher(session, connection, run_id, workflow, view, sink, after, options).run()
        view.end(summary)
    except KeyboardInterrupt:
        interrupted = True
        view.note(f"no longer watched; run {run_id} goes on: weft cancel {run_id} stops it")
    finally:
        view.close()
        sink.close(1.0 if interrupted else None)
    if sink.lost is not None and not interrupted and summary.exit_code == OK:
        raise sink.lost
    return INTERRUPTED if interrupted else summary.exit_code


class RunWatcher(RunFollower):
    def run(self) -> Summary:
        run = self._connection.run(self._run_id)
        self._view.begin(run)
        self._tracker.look_at_running()
        ahead = self._connection.now() - _now_ms()
        try:
            self._follow(run, ahead)
            self._catch_up()
            return summarise(self._connection, self._run_id, len(self._tracker.again), False)
        finally:
            if self._streams is not None:
                self._streams.close()
            self._tracker.follower.close()

    def _follow(self, run: RunInfo, ahead: int) -> None:
        follower = self._tracker.follower
        next_draw, next_look, shown = 0.0, 0.0, -1
        while True:
            try:
                more = self._read_for(READ_S, time.monotonic)
                if self._streams is not None and not self._sink.full:
                    more = self._streams.poll() or more
                now = time.monotonic()
                if now >= next_draw and (follower.seq != shown or now >= next_look):
                    shown = follower.seq
                    run = self._connection.run(self._run_id)
                    self._show_run(run, dict(self._tracker.running), _now_ms() + ahead)
                    next_draw, next_look = now + REDRAW_S, now + RUN_S
                elif now >= next_draw:
                    self._view.tick(run, dict(self._tracker.running), _now_ms() + ahead)
                    next_draw = now + REDRAW_S
                if not more and self._at_its_end():
                    return
            except StoreBusy as error:
                self._say_silent(error)
                continue
            if not more or self._sink.full:
                follower.wait(REDRAW_S if self._view.paced or follower.seq != shown else RUN_S)
            if self._view.paced and not more:  # events and picture change together: nothing is seen ended and running
                time.sleep(max(0.0, next_draw - time.monotonic()))

    def _say_silent(self, error: StoreBusy) -> None:
        """The run goes on by itself; what happens meanwhile is read when the server is back."""
        if not self._waiting_for_store:
            self._waiting_for_store = True
            self._view.note(f"waiting for the server: {error}")
        time.sleep(SERVER_RETRY_S)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
