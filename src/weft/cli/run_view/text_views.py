"""Ways to watch a run: one line per change (pipes), one JSON value per line (machines). live.py is for terminals."""

from typing import Protocol

from weft.cli.run_view.output_sink import Sink
from weft.cli.run_view.summary import Summary, summary_lines, tail_lines
from weft.cli.run_view.tracker import Change, Running
from weft.cli.session import json_text
from weft.cli.terminal.formats import clock, clock_now, duration, state_word
from weft.cli.terminal.terminal import Terminal
from weft.client.verbs import Connection
from weft.executors.output import StreamName
from weft.operations.replies import EventInfo, RunInfo

TAIL_LINES = 5
TAILS_MAX = 20  # failures shown with their output; a thousand of them would help nobody
OUT, ERR = 1, 2


class View(Protocol):
    paced: bool  # drawn at its own pace: nothing is gained by reading more often

    def begin(self, run: RunInfo) -> None: ...
    def show(self, events: list[EventInfo], changes: list[Change]) -> None: ...
    def tick(self, run: RunInfo, running: dict[str, Running], now: int) -> None: ...
    def note(self, text: str) -> None: ...
    def output(self, stream: StreamName, data: bytes) -> None: ...
    def output_ended(self) -> None:
        """All output of an attempt has been handed over."""
        ...

    def end(self, summary: Summary) -> None: ...
    def close(self) -> None: ...


def change_text(change: Change) -> str:
    """Everything about a change but its time and its task."""
    parts = [state_word(change.state) if change.state != "scheduled" else "failed"]
    if change.state == "lost":
        parts = ["lost its node"]
    elif change.state == "returned":
        parts = ["handed back"]
    elif change.state == "held":
        parts = ["done, held for its level"]
    if change.cached is not None:
        parts.append(f"cached (run {change.cached})")
    if change.took_ms is not None:
        parts.append(duration(change.took_ms))
    if change.attempt > 1 or change.state == "scheduled":
        parts.append(f"attempt {change.attempt}")
    if change.why and (change.state != "succeeded" or not change.attempt):
        parts.append(change.why)
    if change.wake_in_ms is not None:
        how = "again in"
        if change.state == "waiting":
            how = "at most" if change.why else "for"
        parts.append(f"{how} {duration(change.wake_in_ms)}")
    return "  ".join(parts)


class Tails:
    """The last lines of what failed, for as long as there are not too many."""

    def __init__(self, connection: Connection, run_id: str) -> None:
        self._connection = connection
        self._run_id = run_id
        self._shown = 0

    def of(self, change: Change) -> list[str]:
        if change.state not in ("failed", "dead_letter", "scheduled") or change.attempt == 0:
            return []
        self._shown += 1
        if self._shown > TAILS_MAX:
            return []
        return tail_lines(self._connection, self._run_id, change.task, change.attempt, TAIL_LINES)


class LineView:
    """On standard error, so that output of tasks on standard output stays clean."""

    paced = False

    def __init__(self, terminal: Terminal, sink: Sink, tails: Tails) -> None:
        self._terminal = terminal
        self._sink = sink
        self._tails = tails

    def begin(self, run: RunInfo) -> None:
        self._print([f"{clock_now()}  {run.name}  run {run.id}"])

    def show(self, events: list[EventInfo], changes: list[Change]) -> None:
        ended = {(change.task, change.attempt) for change in changes if change.state != "running"}
        bar = self._terminal.sign("bar")
        lines = []
        for change in changes:
            if change.state == "running" and (change.task, change.attempt) in ended:
                continue  # over before it could be shown
            name = change.title if change.count == 1 else f"{change.count:,} tasks ({change.task})"
            lines.append(f"{clock(change.at)}  {name}  {self._terminal.state(change.state, change_text(change))}")
            lines += [f"            {bar} {line}" for line in self._tails.of(change)]
        self._print(lines)

    def tick(self, run: RunInfo, running: dict[str, Running], now: int) -> None:
        pass

    def note(self, text: str) -> None:
        self._print([text])

    def output(self, stream: StreamName, data: bytes) -> None:
        self._sink.put(OUT if stream == "stdout" else ERR, data)

    def output_ended(self) -> None:
        pass

    def end(self, summary: Summary) -> None:
        self._print(summary_lines(summary, self._terminal))

    def close(self) -> None:
        pass

    def _print(self, lines: list[str]) -> None:
        """All of them in one write."""
        encoding = self._terminal.stream.encoding or "utf-8"
        text = "".join(f"{line}\n" for line in lines)
        self._sink.put(ERR, self._terminal.encoded(text).encode(encoding, "replace"))


class JsonView:
    """Events and, last, the summary on standard output; everything else on standard error."""

    paced = False

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def begin(self, run: RunInfo) -> None:
        pass

    def show(self, events: list[EventInfo], changes: list[Change]) -> None:
        self._sink.put(OUT, "".join(f"{event_json(event)}\n" for event in events).encode())

    def tick(self, run: RunInfo, running: dict[str, Running], now: int) -> None:
        pass

    def note(self, text: str) -> None:
        self._sink.put(ERR, (text + "\n").encode(errors="replace"))

    def output(self, stream: StreamName, data: bytes) -> None:
        self._sink.put(ERR, data)

    def output_ended(self) -> None:
        pass

    def end(self, summary: Summary) -> None:
        run = summary.run
        value = {
            "type": "summary", "run": run.id, "state": run.state, "took_ms": summary.took_ms,
            "total": run.total, "succeeded": run.succeeded, "failed": run.failed, "dead_letter": run.dead_letter,
            "cancelled": run.cancelled, "skipped": run.skipped, "tried_again": summary.tried_again,
            "reason": run.reason, "failures": summary.failures, "interrupted": summary.interrupted,
            "output": summary.output, "output_error": summary.output_error,
            "awaiting_advance": summary.awaiting_advance,
        }  # fmt: skip
        self._sink.put(OUT, (json_text(value) + "\n").encode())

    def close(self) -> None:
        pass


def event_json(event: EventInfo) -> str:
    return json_text(
        {
            "type": "event", "seq": event.seq, "at": event.at, "run": event.run_id, "kind": event.kind,
            "task": event.task, "node": event.node, "session": event.session, "data": event.data,
            **({} if event.label is None else {"label": event.label}),
        }
    )  # fmt: skip
