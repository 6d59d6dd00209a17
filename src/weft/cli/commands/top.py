"""top: runs, tasks, nodes and output in the terminal, live."""

from argparse import Namespace

from weft.cli.exit_codes import BAD_INPUT, GiveUp
from weft.cli.session import CommandSession


def top(args: Namespace, session: CommandSession) -> int:
    if not session.out.can_move or not session.err.tty:  # it draws on standard error
        raise GiveUp(BAD_INPUT, "weft top needs a terminal", "weft ls and weft show print the same once")
    try:
        import textual  # noqa: F401
    except ImportError as error:
        raise GiveUp(BAD_INPUT, f"weft top needs Textual ({error})", "pip install 'weft[tui]'") from None
    from weft.tui.app import run_top

    connection = session.connection()
    run = None if args.run is None else connection.find(args.run)[1]
    return run_top(connection, session.place(), run)
