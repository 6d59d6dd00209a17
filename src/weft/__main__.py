"""`python -m weft`, and the `weft` command itself."""

import sys


def script() -> int:
    """The command in a process of its own: what the whole process has to be prepared for is done here."""
    try:
        import gc
        import signal

        gc.set_threshold(200_000, 20, 50)  # modules and definitions are large, and no garbage: 40 ms less to start
        from weft.cli.main import main
        from weft.cli.standard_streams import prepare

        prepare()
        code = main()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python is about to end: a traceback of that helps nobody
        gc.freeze()  # nor does a last search of all objects for cycles, which took 40 ms beside other load
        return code
    except KeyboardInterrupt:  # so early, or so late, that nothing has to be stopped
        return 130


if __name__ == "__main__":
    sys.exit(script())
