"""How a run came out, in a few lines: the state, the counts, the reasons, and what to type next."""

import json
from typing import Any

import msgspec

from weft.cli.exit_codes import FAILED, OK
from weft.cli.terminal.formats import counted, duration, state_word
from weft.cli.terminal.terminal import Terminal, printable
from weft.client.verbs import Connection
from weft.core.commands import Refused
from weft.operations.replies import RunInfo, titled

REASONS_MAX = 5
OUTPUT_SHOWN = 500
_ENDS = ("succeeded", "failed", "dead_letter", "cancelled", "skipped")


class Failure(msgspec.Struct):
    task: str
    state: str
    reason: str | None
    child: str | None = None  # the run that it started
    label: str | None = None  # of an element


class Summary(msgspec.Struct):
    """`interrupted`: the run is not over, but this process no longer works on it."""

    run: RunInfo
    took_ms: int
    failures: list[Failure]
    tried_again: int
    interrupted: bool = False
    output: Any = None  # the run's result, of a workflow that has one
    output_error: str | None = None  # why there is none after all
    awaiting_advance: bool = False  # it is moved by hand, and waits for that

    @property
    def exit_code(self) -> int:
        if self.awaiting_advance:
            return OK
        return OK if self.run.state == "succeeded" else FAILED


def summarise(connection: Connection, run_id: str, tried_again: int, interrupted: bool) -> Summary:
    run = connection.run(run_id)
    failures: list[Failure] = []
    if run.failed or run.dead_letter:
        tasks, _ = connection.tasks(run_id, states=["failed", "dead_letter"], limit=REASONS_MAX)
        failures = [Failure(t.name, t.state, t.reason, t.child, t.label) for t in tasks if t.elements is None] or [
            Failure(t.name, t.state, t.reason) for t in tasks
        ]
    began = run.started_at or run.created_at
    took = (run.finished_at or connection.now()) - began
    output, error = output_or_why(connection, run)
    return Summary(run, took, failures, tried_again, interrupted, output, error, connection.awaiting_advance(run_id))


def output_or_why(connection: Connection, run: RunInfo) -> tuple[Any, str | None]:
    """(output, None), or (None, why it has no value). A run that failed need not have one."""
    if not run.finished:
        return None, None
    try:
        return connection.output(run.id), None
    except Refused as refused:
        return None, refused.message if run.state == "succeeded" else None


def output_text(output: Any) -> str:
    """On one line, cut short."""
    text = json.dumps(output, ensure_ascii=False)
    return printable(text if len(text) <= OUTPUT_SHOWN else f"{text[:OUTPUT_SHOWN]}… ({len(text):,} characters)")


def counts(run: RunInfo) -> list[tuple[str, int]]:
    """(state, how many) of the tasks that ended, most welcome first."""
    return [(state, getattr(run, state)) for state in _ENDS if getattr(run, state)]


def summary_lines(summary: Summary, terminal: Terminal) -> list[str]:
    run = summary.run
    ended = ", ".join(f"{count:,} {state_word(state)}" for state, count in counts(run)) or "nothing ended yet"
    again = f"; {counted(summary.tried_again, 'task')} tried more than once" if summary.tried_again else ""
    if summary.awaiting_advance:
        where = f"{'before' if run.level_open is None else 'within'} level {(run.level or 0) + 1}"
        lines = [f"{terminal.state('waiting')} {run.name} is paused {where}: {ended}{again}"]
        return [*lines, f"  to go on: weft advance {run.id}, or with --task by one task"]
    if not run.finished:
        left = run.total - sum(count for _, count in counts(run))
        lines = [f"{terminal.state('cancelled')} {run.name} stopped: {ended}, {counted(left, 'task')} left{again}"]
        return [*lines, f"  to go on: weft resume {run.id}"]
    word = terminal.state(run.state, run.state)
    lines = [f"{terminal.state(run.state)} {run.name} {word} in {duration(summary.took_ms)}: {ended}{again}"]
    if run.state != "succeeded":
        if not summary.failures and run.reason:
            lines.append(f"  {run.reason}")
        for failure in summary.failures:
            lines.append(
                f"  {titled(failure.task, failure.label)}: {printable(failure.reason or state_word(failure.state))}"
            )
            look = f"weft show {failure.child}" if failure.child else f"weft logs {run.id} {failure.task}"
            lines.append(terminal.paint(f"    {look}", "dim"))
        more = run.failed + run.dead_letter - len(summary.failures)
        if more > 0 and summary.failures:
            states = " ".join(f"--state {state}" for state in ("failed", "dead_letter") if getattr(run, state))
            lines.append(f"  {terminal.sign('more')} and {more:,} more: weft tasks {run.id} {states}")
        lines.append(terminal.paint(f"  to try again what did not succeed: weft resume {run.id}", "dim"))
    if summary.output is not None:
        lines.append(f"  output: {output_text(summary.output)}")
    elif summary.output_error is not None:
        lines.append(f"  it has no output: {printable(summary.output_error)}")
    return lines


def tail_lines(connection: Connection, run_id: str, task: str, attempt: int, most: int) -> list[str]:
    """The last lines that an attempt wrote: its errors, or else its output."""
    for known in reversed(connection.attempts(run_id, task)):
        if known.attempt == attempt and known.result is not None:
            text = str(known.result.get("stderr") or "").rstrip() or str(known.result.get("stdout") or "").rstrip()
            return [printable(line) for line in text[-8192:].split("\n")[-most:]] if text else []
    return []
