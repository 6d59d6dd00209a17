"""`make coverage` puts this directory on PYTHONPATH: Python imports this module at the start of each process.

Coverage starts by itself where Python reads .pth files and an environment variable is set. The spawner has neither:
the node starts it with `-I -S` and hardly any environment. Here it gets both.
"""

import os
import subprocess
from typing import Any

VARIABLE = "COVERAGE_PROCESS_CONFIG"
SPAWNER = os.path.join("weft", "executors", "spawner", "__main__.py")
_start = subprocess.Popen.__init__


def _start_measured(self: Any, command: Any, *args: Any, **options: Any) -> None:
    if VARIABLE in os.environ and isinstance(command, list) and command[3:] and str(command[3]).endswith(SPAWNER):
        command = [word for word in command if word != "-S"]
        options["env"] = {**options["env"], VARIABLE: os.environ[VARIABLE]}
    _start(self, command, *args, **options)


subprocess.Popen.__init__ = _start_measured  # type: ignore[method-assign,assignment]
