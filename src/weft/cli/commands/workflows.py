"""workflows: those that the store knows, the versions of one, and how two versions differ."""

from argparse import Namespace

from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import moment
from weft.cli.terminal.tables import table

SHORT = 12


def workflows(args: Namespace, session: CommandSession) -> int:
    if args.limit is not None and not 1 <= args.limit <= 1000:
        raise GiveUp(BAD_INPUT, "--limit must be 1 to 1,000")
    if args.name is None:
        if args.diff is not None:
            raise GiveUp(BAD_INPUT, "--diff needs a workflow", "weft workflows NAME --diff")
        return _list(args, session)
    return _versions(args, session) if args.diff is None else _diff(args, session)


def _list(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    found, current = connection.workflow_names(limit=args.limit or 1000), connection.applied()
    if args.json:
        session.print_json({"workflows": found, "current": current})
        return OK
    if not found:
        session.warn("no workflows; `weft apply FILE` or `weft run FILE` brings one")
    rows = [
        [one.name, current.get(one.name, "")[:SHORT], one.hash[:SHORT], moment(one.created_at), f"{one.versions:,}"]
        for one in found
    ]
    for line in table(session.out, ("workflow", "current", "newest", "stored", "versions"), rows, ("bold",)):
        session.print(line)
    return OK


def _versions(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    found, current = connection.versions(args.name, limit=args.limit or 1000), connection.applied().get(args.name)
    if args.json:
        session.print_json({"workflow": args.name, "current": current, "versions": found})
        return OK
    rows = [[one.hash[:SHORT], moment(one.created_at), "current" if one.hash == current else ""] for one in found]
    for line in table(session.out, ("version", "stored", ""), rows, ("bold",)):
        session.print(line)
    return OK


def _diff(args: Namespace, session: CommandSession) -> int:
    """The two that are named; else the current (or newest) version and the one before it."""
    connection = session.connection()
    if len(args.diff) > 2:
        raise GiveUp(BAD_INPUT, "--diff takes two versions at most")
    found = connection.diff(args.name, *args.diff)
    if args.json:
        session.print_json(found)
        return OK
    for line in found.lines:
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else None
        session.print(line if style is None else session.out.paint(line, style))
    return OK
