"""How a run came out, in a few lines: the state, the counts, the reasons, and what to type next."""

import msgspec

from weft.cli.exits import FAILED, OK
from weft.cli.terminal import Terminal, printable
from weft.cli.words import counted, duration, state_word
from weft.control.local import LocalControl
from weft.control.records import RunInfo

REASONS_MAX = 5
_ENDS = ("succeeded", "failed", "dead_letter", "cancelled", "skipped")


class Failure(msgspec.Struct):
    task: str
    state: str
    reason: str | None


class Summary(msgspec.Struct):
    """`interrupted`: the run is not over, but this process no longer works on it."""

    run: RunInfo
    took_ms: int
    failures: list[Failure]
    tried_again: int
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        return OK if self.run.state == "succeeded" else FAILED


def summarise(control: LocalControl, run_id: str, tried_again: int, interrupted: bool) -> Summary:
    run = control.run(run_id)
    failures: list[Failure] = []
    if run.failed or run.dead_letter:
        tasks, _ = control.tasks(run_id, states=["failed", "dead_letter"], limit=REASONS_MAX)
        failures = [Failure(t.name, t.state, t.reason) for t in tasks if t.elements is None] or [
            Failure(t.name, t.state, t.reason) for t in tasks
        ]
    began = run.started_at or run.created_at
    took = (run.finished_at or control.now()) - began
    return Summary(run, took, failures, tried_again, interrupted)


def counts(run: RunInfo) -> list[tuple[str, int]]:
    """(state, how many) of the tasks that ended, most welcome first."""
    return [(state, getattr(run, state)) for state in _ENDS if getattr(run, state)]


def summary_lines(summary: Summary, terminal: Terminal) -> list[str]:
    run = summary.run
    ended = ", ".join(f"{count:,} {state_word(state)}" for state, count in counts(run)) or "nothing ended yet"
    again = f"; {counted(summary.tried_again, 'task')} tried more than once" if summary.tried_again else ""
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
            lines.append(f"  {failure.task}: {printable(failure.reason or state_word(failure.state))}")
            lines.append(terminal.paint(f"    weft logs {run.id} {failure.task}", "dim"))
        more = run.failed + run.dead_letter - len(summary.failures)
        if more > 0 and summary.failures:
            lines.append(f"  {terminal.sign('more')} and {more:,} more: weft tasks {run.id} --state failed")
        lines.append(terminal.paint(f"  to try again what did not succeed: weft resume {run.id}", "dim"))
    return lines


def tail_lines(control: LocalControl, run_id: str, task: str, attempt: int, most: int) -> list[str]:
    """The last lines that an attempt wrote: its errors, or else its output."""
    for known in reversed(control.attempts(run_id, task)):
        if known.attempt == attempt and known.result is not None:
            text = str(known.result.get("stderr") or "").rstrip() or str(known.result.get("stdout") or "").rstrip()
            return [printable(line) for line in text[-8192:].split("\n")[-most:]] if text else []
    return []
