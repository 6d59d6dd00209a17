"""The spawner's entry point, run as a plain script: `python -I -S spawner/__main__.py FD`.

The spawner is a process of its own with one thread, no store and no settings. It starts attempts, watches them and
kills them; it exits when the node closes its end of the socket FD. See loop.py.
"""

import os
import sys


def main() -> None:
    # A script is compiled at each start, an imported module is not: so all other code is in modules.
    # The three packages are created here, because their real __init__ may import far more than the spawner needs.
    path = os.path.dirname(os.path.abspath(__file__))
    for name in ("weft.executors.spawner", "weft.executors", "weft"):
        package = type(sys)(name)
        package.__path__ = [path]
        sys.modules[name] = package
        path = os.path.dirname(path)
    from weft.executors.spawner.loop import serve

    serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
