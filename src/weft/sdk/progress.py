"""A line on the terminal that says how far a run is, while `flow.run()` waits for it. Without a terminal, nothing."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from weft.core.definition.field_types.text_formats import rounded_duration
from weft.store.protocol import StoreError

if TYPE_CHECKING:
    from weft.client.verbs import Connection
    from weft.operations.replies import RunInfo

LOOK_S: Final = 0.25
_CLEAR: Final = "\r\x1b[K"


@contextmanager
def shown_progress(connection: "Connection", run_id: str) -> Iterator[None]:
    """On standard error, in a thread of its own: the caller's waits for the run."""
    stream = sys.stderr
    if stream is None or not stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield
        return
    over = threading.Event()
    thread = threading.Thread(
        target=_show, args=(connection, run_id, stream, over), name="weft-progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _write_end(connection, run_id, stream)


def _show(connection: "Connection", run_id: str, stream: TextIO, over: threading.Event) -> None:
    began = time.monotonic()
    while not over.wait(LOOK_S):
        try:
            run = connection.run(run_id)
        except StoreError:  # the node waits for the store, and so does the line
            continue
        stream.write(f"{_CLEAR}{_text(run, int((time.monotonic() - began) * 1000))}")
        stream.flush()


def _write_end(connection: "Connection", run_id: str, stream: TextIO) -> None:
    """How it ended stays on the screen; a run that was left unfinished leaves nothing."""
    try:
        run = connection.run(run_id)
    except StoreError:
        stream.write(_CLEAR)
        return
    took = 0 if run.finished_at is None else run.finished_at - (run.started_at or run.created_at)
    stream.write(f"{_CLEAR}{_text(run, took)}\n" if run.finished else _CLEAR)
    stream.flush()


def _text(run: "RunInfo", took_ms: int) -> str:
    """Short enough for any terminal: a line that wraps could not be cleared."""
    bad = run.failed + run.dead_letter
    done = run.succeeded + bad + run.cancelled + run.skipped
    failed = f", {bad:,} failed" if bad else ""
    name = run.name if len(run.name) <= 24 else f"{run.name[:23]}…"
    encoding = sys.stderr.encoding or "utf-8"
    text = f"{name} {run.state}: {done:,}/{run.total:,} tasks{failed}, {rounded_duration(took_ms)}"
    return text.encode(encoding, "replace").decode(encoding)
