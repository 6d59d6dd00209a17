"""What the token of an attempt opens: its own run to look at, and what its task is allowed beyond that.

What is not named here is refused: a new operation is closed to these tokens until it gets a line.
"""

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from weft.operations.errors import ApiError

if TYPE_CHECKING:
    from weft.operations.declare import Operation

Permission = Literal["signal", "submit", "read_all"]  # the values of a task's `allow`
ScopeNeed = Literal["run", "signal", "submit", "read_all"]  # `run`: to look at its own run
_OWN_RUN: Final = frozenset(
    (
        "get_run", "get_run_output", "get_run_budget", "get_run_context", "explain_run", "list_run_tasks", "get_task",
        "get_task_launch", "explain_task", "list_run_events", "stream_run_events", "get_task_output",
        "stream_task_output", "search_task_output", "get_task_artifact", "get_document", "get_clock",
        "get_run_at",
    )
)  # fmt: skip
_SUBMITTING: Final = frozenset(("submit_run", "submit_task", "submit_runs"))


def need_of(operation: "Operation[Any, Any]") -> ScopeNeed | None:
    """None: no attempt's token opens it, whatever its task is allowed."""
    if operation.name in _OWN_RUN:
        return "run"
    if operation.name == "signal_run":
        return "signal"
    if operation.name in _SUBMITTING:
        return "submit"
    return "read_all" if operation.role == "viewer" and not operation.writes else None


class RunScope(msgspec.Struct, frozen=True):
    """One attempt, and what its task is allowed (`allow` in its definition)."""

    run_no: int
    run_id: str
    workflow: str
    task: str
    allow: tuple[str, ...] = ()

    @property
    def actor(self) -> str:
        """For the history."""
        return f"task {self.run_id}/{self.task}"

    def may(self, need: ScopeNeed | None) -> bool:
        return need == "run" or (need is not None and need in self.allow)

    def check(self, need: ScopeNeed | None) -> None:
        if self.may(need):
            return
        detail = f"the token of task {self.task} opens its own run, and not this"
        raise ApiError(
            "forbidden", detail, None if need is None else f"the task's definition may say allow: [{need}]"
        )

    def is_own(self, ref: str) -> bool:
        """`last` is its own run: the only one that it is sure to see."""
        return ref in ("last", self.run_id)

    def sees(self, ref: str) -> bool:
        return self.is_own(ref) or "read_all" in self.allow

    def sees_definition(self, hash: str) -> bool:
        return hash == self.workflow or "read_all" in self.allow
