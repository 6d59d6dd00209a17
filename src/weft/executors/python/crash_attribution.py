"""When a runner died: whose doing was it, who had not begun, and who merely stood beside?"""

from weft.executors.protocol import Outcome
from weft.executors.python.runner_link import Attempt, RunnerLink

_SUSPECTS_MAX = 1_000


class Inquest:
    def __init__(self) -> None:
        self._suspects: dict[int, None] = {}  # tasks whose runner died, and nobody knows through whom

    def held(self, runner: RunnerLink, death: Outcome) -> tuple[list[Attempt], list[Attempt], list[Attempt]]:
        """What it had begun, what it had not, and those of the begun that are to blame."""
        assert runner.mark is not None
        given = list(runner.given.values())
        if runner.leaving is not None and not runner.killed and death.exit_code == 0:
            return [], given, []  # it ends when all that it had begun has: these met it on its way out
        if runner.is_async:
            begun, unbegun = given, []
        else:
            begun = [a for a in given if a.id == runner.mark.id]
            unbegun = [a for a in given if a.id != runner.mark.id]
        if runner.killed or not death.startable or death.stopped is not None:
            return begun, unbegun, []  # ended by us, or lost with its spawner
        if runner.mark.id:
            return begun, unbegun, [a for a in begun if a.id == runner.mark.id]
        return begun, unbegun, [a for a in begun if self._is_blamed(a, len(begun))]

    def _is_blamed(self, attempt: Attempt, count: int) -> bool:
        """Nobody had the processor when the runner died. The second time, it can be no accident."""
        task = attempt.launch.task_id
        if count == 1 or task in self._suspects:
            self._suspects.pop(task, None)
            return True
        while len(self._suspects) >= _SUSPECTS_MAX:
            del self._suspects[next(iter(self._suspects))]
        self._suspects[task] = None
        return False
