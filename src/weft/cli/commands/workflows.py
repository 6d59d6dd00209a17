"""workflows: those that the store knows, the versions of one, how two versions differ; diff: how two runs do."""

import json
from argparse import Namespace
from typing import Any

from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import duration, moment, state_word
from weft.cli.terminal.tables import table
from weft.cli.terminal.terminal import printable
from weft.operations.replies import RunDiff, RunInfo

SHORT = 12
VALUE_SHOWN = 100


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
    _print_diff(session, found.lines)
    return OK


def _print_diff(session: CommandSession, lines: list[str]) -> None:
    for line in lines:
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else None
        session.print(line if style is None else session.out.paint(line, style))


def diff(args: Namespace, session: CommandSession) -> int:
    """Two runs. Durations of tasks that ended alike in both are shown with --all."""
    found = session.connection().diff_runs(args.run, args.other)
    if args.json:
        session.print_json(found)
        return OK
    rows = [
        [run.id, run.name, run.state, duration(None if run.finished_at is None else run.finished_at - _began(run))]
        for run in (found.old, found.new)
    ]
    for line in table(session.out, ("run", "workflow", "state", "took"), rows, ("bold", None, "state")):
        session.print(line)
    session.print("\nsame definition" if not found.definition else "\ndefinition:")
    _print_diff(session, found.definition)
    session.print("\nsame inputs" if not found.inputs else "\ninputs:")
    for name, (old, new) in found.inputs.items():
        session.print(f"  {name}: {_value(old)} {session.out.sign('arrow')} {_value(new)}")
    _print_task_diffs(args, session, found)
    return OK


def _began(run: RunInfo) -> int:
    return run.started_at or run.created_at


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return printable(text if len(text) <= VALUE_SHOWN else f"{text[:VALUE_SHOWN]}…")


def _print_task_diffs(args: Namespace, session: CommandSession, found: RunDiff) -> None:
    shown = [task for task in found.tasks if args.all or task.changed or task.old_state != task.new_state]
    session.print("\ntasks:" if shown else "\nall tasks ended alike: --all shows their durations")
    rows = [
        [task.task, state_word(task.old_state or "none"), state_word(task.new_state or "none"),
         duration(task.old_ms), "taken over" if task.taken_over else duration(task.new_ms),
         "changed" if task.changed else ""]
        for task in shown
    ]  # fmt: skip
    if rows:
        heads = ("task", found.old.id, found.new.id, "took", "took", "definition")
        for line in table(session.out, heads, rows, ("bold", "state", "state", None, None, "dim")):
            session.print(line)
    if found.left_out:
        session.warn(f"{found.left_out:,} more tasks were not compared")
