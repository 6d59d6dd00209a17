"""The spawner's entry: run as a plain script, `python -I -S spawner.py FD`.

It is a process of its own, with one thread, no store and no settings. It starts shell attempts, watches them
and ends them; its life hangs on the socket FD, whose other end the node holds. See spawner_loop.
"""

import os
import sys


def main() -> None:
    # A script is compiled anew at each start, an imported module is not: so everything else sits in modules.
    # The two packages are entered by hand, because their real __init__ may import far more than this needs.
    here = os.path.dirname(os.path.abspath(__file__))
    for name, path in (("weft", os.path.dirname(here)), ("weft.executors", here)):
        package = type(sys)(name)
        package.__path__ = [path]
        sys.modules[name] = package
    from weft.executors.spawner_loop import serve

    serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
