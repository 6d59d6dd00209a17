"""Errors of runs that an application starts, and of stores and clients that it has closed."""

from dataclasses import dataclass, field


class Closed(RuntimeError):
    """A store or a client was used after it was closed."""

    __module__ = "weft"


class RunFailed(Exception):
    """A run did not succeed. The message names its failed tasks, with the traceback of the first."""

    __module__ = "weft"
    run_id: str  # for `weft resume`
    name: str  # of the workflow
    state: str  # of the run: failed or cancelled; another one if it has not ended
    reason: str | None  # why it has this state
    failures: "list[TaskFailure]"  # up to 20

    def __init__(self, run_id: str, name: str, state: str, reason: str | None, failures: "list[TaskFailure]") -> None:
        self.run_id = run_id
        self.name = name
        self.state = state
        self.reason = reason
        self.failures = failures
        lines = [f"{name} {state}" + (f": {reason}" if reason else "")]
        lines += [f"  {failure.task}: {failure.reason or failure.state}" for failure in failures]
        lines += [f"  {line}" for failure in failures[:1] for line in (failure.traceback or "").splitlines()]
        lines.append(f"  to retry what did not succeed: weft resume {run_id}")
        super().__init__("\n".join(lines))


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """One failed task of a run."""

    task: str  # its name; of a task of a child run "deploy/build"
    state: str  # failed or dead_letter
    reason: str | None  # why it failed
    traceback: str | None = field(repr=False)  # of a Python task
