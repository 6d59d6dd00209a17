"""The spawner's entry: run as a plain script, `python -I -S spawner/__main__.py FD`.

It is a process of its own, with one thread, no store and no settings. It starts shell attempts, watches them
and ends them; its life hangs on the socket FD, whose other end the node holds. See loop.
"""

import os
import sys


def main() -> None:
    # A script is compiled anew at each start, an imported module is not: so everything else sits in modules.
    # The three packages are entered by hand, because their real __init__ may import far more than this needs.
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
