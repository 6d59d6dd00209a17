"""skip, mark, pause and unpause."""

from argparse import Namespace

from weft.cli.commands.signals import json_value
from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import counted
from weft.operations.resources.run_changes import Changed


def skip(args: Namespace, session: CommandSession) -> int:
    reply = session.connection().skip(args.run, args.tasks, args.reason)
    return _said(args, session, reply, f"{', '.join(args.tasks)} skipped")


def mark(args: Namespace, session: CommandSession) -> int:
    if not args.succeeded:
        raise GiveUp(BAD_INPUT, "a task can only be marked as succeeded", "add --succeeded, or use weft skip")
    output = None if args.output is None else json_value("--output", args.output)
    reply = session.connection().mark(args.run, args.tasks, output, args.reason)
    return _said(args, session, reply, f"{', '.join(args.tasks)} marked as succeeded")


def _said(args: Namespace, session: CommandSession, reply: Changed, done: str) -> int:
    if args.json:
        session.print_json({"run": reply.run, "state": reply.state, "changed": reply.changed})
        return OK
    session.print(f"{done}; run {reply.run} is {reply.state}")
    if reply.state == "running":
        session.warn(f"who works on it goes on; if nobody does: weft resume {reply.run}")
    return OK


def pause(args: Namespace, session: CommandSession) -> int:
    reply = session.connection().pause(args.run, args.reason)
    return _paused(args, session, reply, "paused", f"{counted(reply.changed, 'queued task')} will wait")


def unpause(args: Namespace, session: CommandSession) -> int:
    reply = session.connection().unpause(args.run, args.reason)
    return _paused(args, session, reply, "unpaused", f"{counted(reply.changed, 'task')} may start")


def _paused(args: Namespace, session: CommandSession, reply: Changed, word: str, what: str) -> int:
    if args.json:
        session.print_json({"run": reply.run, "paused": word == "paused", "changed": reply.changed})
    elif reply.existing:
        session.print(f"run {reply.run} is {'paused' if word == 'paused' else 'not paused'} already")
    else:
        session.print(f"run {reply.run} is {word}; {what}")
    return OK
