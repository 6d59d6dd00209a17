"""How a runner process is started: as an attempt of the shell executor that lasts.

The interpreter of a task need not have Weft, nor what Weft itself needs: a runner imports the node's own `weft`, of
which it uses modules that need nothing but the standard library.
"""

import os

from weft.executors.protocol import Launch
from weft.executors.python.messages import DEDICATED
from weft.executors.python.runner_link import RunnerPlace

_PACKAGE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
_ROOT = os.path.dirname(_PACKAGE)
_MAIN = "from weft.executors.python_runner.runner import main"
# With -c and not as a script: then __main__ has no file, which a function's own child processes would run again.
# Weft's directory heads sys.path only while the runner is imported; then the definition's directory does.
_PROGRAM = (
    f"import sys; sys.path.insert(0, {_ROOT!r}); {_MAIN};"
    f" sys.path.remove({_ROOT!r}); {_ROOT!r} in sys.path or sys.path.append({_ROOT!r}); main()"
)
# Another interpreter gets the package alone: beside it there are packages for the node's interpreter. Without `-P`,
# which Python 3.10 does not know: the first entry of sys.path would be the working directory.
_VERSION_MIN = (3, 10)
_OTHER_PROGRAM = (
    f"import sys; sys.version_info >= {_VERSION_MIN} or sys.exit('it is Python ' + sys.version.split()[0] + ', and"
    f" runners need {'.'.join(map(str, _VERSION_MIN))} or newer'); del sys.path[0]; import importlib.util as util;"
    f" spec = util.spec_from_file_location('weft', {_PACKAGE + '/__init__.py'!r},"
    f" submodule_search_locations=[{_PACKAGE!r}]); sys.modules['weft'] = weft = util.module_from_spec(spec);"
    f" spec.loader.exec_module(weft); {_MAIN}; main()"
)
_OUTPUT_MAX = 1 << 16


class RunnerCommand:
    """The command line of runners: the interpreter and the limits that each runner observes itself."""

    def __init__(self, python: str, tasks_max: int, growth_max: int, value_max: int) -> None:
        self._python = python
        self._limits = [str(tasks_max), str(growth_max), str(value_max)]

    def _argv(self, place: RunnerPlace) -> list[str]:
        if place.python is None:
            return [self._python, "-P", "-c", _PROGRAM, *self._limits]
        return [place.python, "-c", _OTHER_PROGRAM, *self._limits]

    def shared(self, number: int, place: RunnerPlace, output_dir: str, hidden: tuple[str, ...]) -> Launch:
        """A runner for many attempts."""
        spec = {"argv": self._argv(place)}
        name = f"runner-{number}"
        launch = Launch(-number, 1, "", name, "shell", spec, {}, place.root, output_dir, _OUTPUT_MAX)
        launch.hidden = hidden
        return launch

    def dedicated(self, number: int, place: RunnerPlace, owner: Launch) -> Launch:
        """A runner for one attempt: its output is the attempt's, and is masked."""
        spec = {"argv": [*self._argv(place), DEDICATED]}
        launch = Launch(
            -number, owner.attempt, "", owner.task, "shell", spec, {}, place.root, owner.output_dir, owner.output_max
        )
        launch.secrets, launch.hidden = owner.secrets, owner.hidden
        return launch


def missing_interpreter(path: str) -> str | None:
    """Why there is no such interpreter on this machine."""
    if os.path.isfile(path) and os.access(path, os.X_OK):
        return None
    why = "is no program" if os.path.exists(path) else "does not exist"
    return f"its interpreter {path} {why} on this node: create it, or require nodes that have it (`requires`)"
