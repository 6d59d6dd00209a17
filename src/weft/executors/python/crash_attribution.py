"""Decides which attempt caused the death of a runner.

Of the attempts that were assigned to a dead runner, those that had not started go to another runner. Of those that
had started, the ones at fault fail; the others go back to the queue. An attempt is at fault if it was the active call
when the runner died. If no call was active (the event loop of async functions was idle), one attempt alone is at
fault; several become suspects, and a task is at fault the second time that its runner dies like this.
"""

from typing import NamedTuple

from weft.executors.protocol import Outcome
from weft.executors.python.runner_link import PythonAttempt, RunnerLink

_SUSPECTS_MAX = 1_000


class Attribution(NamedTuple):
    started: list[PythonAttempt]
    not_started: list[PythonAttempt]
    at_fault: list[PythonAttempt]  # those of `started` that caused the death


class CrashAttribution:
    def __init__(self) -> None:
        self._suspects: dict[int, None] = {}  # tasks whose runner died while no call was active

    def attribute(self, runner: RunnerLink, death: Outcome) -> Attribution:
        assert runner.active is not None
        assigned = list(runner.assigned.values())
        if runner.retiring is not None and not runner.killed and death.exit_code == 0:
            # It exited after its last started call ended: these calls were sent while it was exiting.
            return Attribution([], assigned, [])
        active = runner.active.id
        if runner.is_async:
            started, not_started = assigned, []
        else:
            started = [attempt for attempt in assigned if attempt.id == active]
            not_started = [attempt for attempt in assigned if attempt.id != active]
        if runner.killed or not death.startable or death.stopped is not None:
            return Attribution(started, not_started, [])  # killed by the node, or lost with its spawner
        if active:
            at_fault = [attempt for attempt in started if attempt.id == active]
        else:
            at_fault = [attempt for attempt in started if self._is_second_death(attempt, len(started))]
        return Attribution(started, not_started, at_fault)

    def _is_second_death(self, attempt: PythonAttempt, started_count: int) -> bool:
        """True also for an attempt that was alone in the runner."""
        task = attempt.launch.task_id
        if started_count == 1 or task in self._suspects:
            self._suspects.pop(task, None)
            return True
        while len(self._suspects) >= _SUSPECTS_MAX:
            del self._suspects[next(iter(self._suspects))]
        self._suspects[task] = None
        return False
