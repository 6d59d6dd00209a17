"""Watch a run that a server's nodes work on, as if it ran here. ^C stops watching, and nothing else."""

import sys
import time

from weft.cli.exits import INTERRUPTED
from weft.cli.following import READ_S, Follower, Options, view_of
from weft.cli.session import Session
from weft.cli.sink import Sink
from weft.cli.summary import Summary, summarise
from weft.control.protocol import Control
from weft.store.protocol import StoreBusy

REDRAW_S = 0.25
LOOK_S = 0.05
LOOK_MAX_S = 0.5  # the longer nothing happens, the less often we ask
SLOWER = 1.2
SERVER_RETRY_S = 0.5


def watch(session: Session, control: Control, run_id: str, after: int, options: Options) -> int:
    """Until the run has ended, or rests; the exit code."""
    workflow = control.workflow(run_id)
    sink = Sink()
    view = view_of(session, sink, control, run_id, workflow, options)
    sys.stdout.flush()
    sys.stderr.flush()
    interrupted = False
    try:
        summary = Watch(session, control, run_id, workflow, view, sink, after, options).run()
        view.end(summary)
    except KeyboardInterrupt:
        interrupted = True
        view.note(f"no longer watched; run {run_id} goes on: weft cancel {run_id} stops it")
    finally:
        view.close()
        sink.close(1.0 if interrupted else None)
    return INTERRUPTED if interrupted else summary.exit_code


class Watch(Follower):
    def run(self) -> Summary:
        self._view.begin(self._control.run(self._run_id))
        self._tracker.look_at_running()
        try:
            self._follow()
            self._catch_up()
            return summarise(self._control, self._run_id, len(self._tracker.again), False)
        finally:
            if self._streams is not None:
                self._streams.close()

    def _follow(self) -> None:
        pause, next_draw, seen = LOOK_S, 0.0, self._tracker.seq
        while True:
            try:
                more = self._read_for(READ_S, time.monotonic)
                if self._streams is not None and not self._sink.full:
                    more = self._streams.poll() or more
                if time.monotonic() >= next_draw:
                    self._show_run(dict(self._tracker.running), self._control.now())
                    next_draw = time.monotonic() + REDRAW_S
                if not more and self._at_its_end():
                    return
            except StoreBusy as error:
                self._say_silent(error)
                continue
            pause = LOOK_S if self._tracker.seq != seen else min(LOOK_MAX_S, pause * SLOWER)
            seen = self._tracker.seq
            self._wait(0.0 if more and not self._sink.full else pause)

    def _wait(self, seconds: float) -> None:
        """For news. A stream of events would wake us from here."""
        time.sleep(seconds)

    def _say_silent(self, error: StoreBusy) -> None:
        """The run goes on by itself; what happens meanwhile is read when the server is back."""
        if not self._waiting_for_store:
            self._waiting_for_store = True
            self._view.note(f"waiting for the server: {error}")
        time.sleep(SERVER_RETRY_S)
