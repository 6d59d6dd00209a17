"""How a runner process is started: as an attempt of the shell executor that lasts."""

import os

from weft.executors.protocol import Launch
from weft.executors.python.messages import DEDICATED

_ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
# With -c and not as a script: then __main__ has no file, which a function's own child processes would run again.
# Weft's directory heads sys.path only while the runner is imported; then the definition's directory does.
_PROGRAM = (
    f"import sys; sys.path.insert(0, {_ROOT!r}); from weft.executors.python_runner.runner import main;"
    f" sys.path.remove({_ROOT!r}); {_ROOT!r} in sys.path or sys.path.append({_ROOT!r}); main()"
)
_OUTPUT_MAX = 1 << 16


class RunnerCommand:
    """The command line of runners: the interpreter and the limits that each runner observes itself."""

    def __init__(self, python: str, tasks_max: int, growth_max: int, value_max: int) -> None:
        self._argv = [python, "-P", "-c", _PROGRAM, str(tasks_max), str(growth_max), str(value_max)]

    def shared(self, number: int, root: str, output_dir: str, hidden: tuple[str, ...]) -> Launch:
        """A runner for many attempts."""
        spec = {"argv": self._argv}
        name = f"runner-{number}"
        launch = Launch(-number, 1, "", name, "shell", spec, {}, root, output_dir, _OUTPUT_MAX)
        launch.hidden = hidden
        return launch

    def dedicated(self, number: int, root: str, owner: Launch) -> Launch:
        """A runner for one attempt: its output is the attempt's, and is masked."""
        spec = {"argv": [*self._argv, DEDICATED]}
        launch = Launch(
            -number, owner.attempt, "", owner.task, "shell", spec, {}, root, owner.output_dir, owner.output_max
        )
        launch.secrets, launch.hidden = owner.secrets, owner.hidden
        return launch
