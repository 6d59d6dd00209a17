"""Errors of runs that an application starts, and of stores and clients that it has closed."""


class Closed(RuntimeError):
    """A store or a client was used after it was closed."""

    __module__ = "weft"


class RunFailed(Exception):
    """A run did not succeed. `failures` are its failed tasks, with their reasons."""

    __module__ = "weft"

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


class TaskFailure:
    """One failed task of a run; only Python tasks have a `traceback`."""

    def __init__(self, task: str, state: str, reason: str | None, traceback: str | None) -> None:
        self.task = task
        self.state = state
        self.reason = reason
        self.traceback = traceback

    def __repr__(self) -> str:
        return f"TaskFailure({self.task!r}, {self.state!r}, {self.reason!r})"
