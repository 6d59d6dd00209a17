"""signal: the outside answer that a wait task waits for; and how to say that one is wanted."""

import json
from argparse import Namespace
from typing import Any

from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.session import CommandSession
from weft.client.verbs import Connection
from weft.core.workflow import Workflow
from weft.operations.replies import TaskInfo

DATA_MAX = 1 << 20
WAITING_SHOWN = 20


def signal(args: Namespace, session: CommandSession) -> int:
    data = _data(args)
    connection = session.connection()
    _, run_id = connection.find(args.run)
    reply = connection.signal(run_id, args.name, data, args.reject)
    run = connection.run(run_id)
    if args.json:
        answer = {"run": run_id, "signal": args.name, "already": reply.existing, "ended": reply.changed}
        session.print_json({**answer, "state": run.state})
        return OK
    said = "rejected" if args.reject is not None else "sent"
    if reply.existing:
        session.print(f"signal {args.name} of run {run_id} was {said} already")
    elif reply.changed or run.finished:
        session.print(f"signal {args.name} of run {run_id} {said}")
    else:
        session.print(f"signal {args.name} of run {run_id} {said}; it is kept until its wait is reached")
    return OK


def _data(args: Namespace) -> Any:
    if args.data is None:
        return None
    if args.reject is not None:
        raise GiveUp(BAD_INPUT, "--data and --reject exclude each other", "give one of them")
    return json_value("--data", args.data)


def json_value(option: str, text: str) -> Any:
    """What an option says in JSON."""
    if len(text) > DATA_MAX:
        raise GiveUp(BAD_INPUT, f"{option} is longer than {DATA_MAX:,} characters")
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        fix = f"a text needs quotes of its own: {option} '{json.dumps(text)}'" if len(text) < 60 else None
        raise GiveUp(BAD_INPUT, f"{option} is not JSON", fix) from None


def _not_json(word: str) -> Any:
    raise ValueError(word)


def how_to_signal(run_id: str, name: str) -> str:
    return f"weft signal {run_id} {name} [--data JSON | --reject REASON]"


def signals_below(connection: Connection, run_id: str) -> list[tuple[str, str, str]]:
    """(run, task, signal) of what runs that this one started wait for; the task is called by the way to it."""
    out = []
    for one in connection.waiting_below(run_id, WAITING_SHOWN):
        out.append((one.run, f"{connection.path_within(one.run, run_id)}/{one.task}", one.signal))
    return out


def signals_wanted(workflow: Workflow, tasks: list[TaskInfo]) -> list[str]:
    """The names of the signals that these waiting tasks wait for."""
    specs = [workflow.tasks[task.pos].spec for task in tasks if task.state == "waiting"]
    return [spec["signal"] for spec in specs if "signal" in spec]
