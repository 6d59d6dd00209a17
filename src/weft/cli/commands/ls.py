"""ls, tasks, nodes, store info: tables for people, records for machines. All of them page; none lists everything."""

from argparse import Namespace
from typing import Any

from weft.cli.arguments import moment_given, shown
from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.run_view.summary import counts
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import ago, duration, moment, size, state_word
from weft.cli.terminal.tables import table
from weft.cli.terminal.terminal import printable
from weft.client.critical_path import task_ms
from weft.client.verbs import Connection
from weft.core.definition.suggest import nearest
from weft.core.states import RUN_STATES, TASK_STATES
from weft.operations.parameters import PAIR_MAX, PAIRS_MAX
from weft.operations.replies import RunInfo, TaskInfo
from weft.operations.submission import LABEL_NAME_MAX

RUNS_LIMIT = 20
TASKS_LIMIT = 100
LIMIT_MAX = 100_000


def limit_of(args: Namespace, default: int) -> int:
    given = args.limit
    if given is None:
        return default
    if not 1 <= given <= LIMIT_MAX:
        raise GiveUp(BAD_INPUT, f"--limit must be from 1 to {LIMIT_MAX:,}")
    return int(given)


def states_of(given: list[str] | None, known: tuple[str, ...]) -> list[str] | None:
    """`--state` values, also as a,b and with hyphens."""
    if not given:
        return None
    states = [word.strip().replace("-", "_") for value in given for word in value.split(",")]
    for state in states:
        if state not in known:
            meant = nearest(state, known)
            fix = f"did you mean {meant}?" if meant else f"known states: {', '.join(known)}"
            raise GiveUp(BAD_INPUT, f"there is no state {state!r}", fix)
    return states


def ls(args: Namespace, session: CommandSession) -> int:
    limit = limit_of(args, RUNS_LIMIT)
    connection = session.connection()
    now = connection.now()
    filters = filters_of(args, connection, now)
    runs = connection.runs(**filters, before=args.before, limit=limit, children=args.all)
    more = runs[-1].no if len(runs) == limit else None
    if args.json:
        session.print_json({"runs": runs, "before": more})
        return OK
    if not runs:
        session.warn("no runs" + (" like that" if any(filters.values()) or args.before else " yet: weft run FILE"))
        return OK
    rows = [[r.id, _name(session, r), _state(r), _progress(r), _took(r, now), ago(now - r.created_at)] for r in runs]
    for line in table(session.out, ("run", "workflow", "state", "tasks", "took", "started"), rows, _RUN_STYLES):
        session.print(line)
    if more is not None and connection.runs(**filters, before=more, limit=1, children=args.all):
        session.warn(f"more: weft ls {'--all ' if args.all else ''}--before {more}")
    return OK


def filters_of(args: Namespace, connection: Connection, now: int) -> dict[str, Any]:
    """Which runs are meant, as arguments of `Connection.runs`."""
    for option, words in (("--run-label", args.run_label), ("--input", args.input)):
        _check_pairs(option, words)
    if args.text == "":
        raise GiveUp(BAD_INPUT, "--text: expected some text, found nothing")
    return {
        "states": states_of(args.state, RUN_STATES), "name": args.name,
        "labels": args.run_label, "inputs": args.input, "text": args.text, "late": args.late,
        "trigger": None if args.trigger is None else connection.trigger(args.trigger).id, "backfill": args.backfill,
        "since": None if args.since is None else moment_given("--since", args.since, now),
        "until": None if args.until is None else moment_given("--until", args.until, now),
    }  # fmt: skip


def _check_pairs(option: str, words: list[str]) -> None:
    for word in words:
        name, equals, _ = word.partition("=")
        if not equals or not 0 < len(name) <= LABEL_NAME_MAX or len(word) > PAIR_MAX or "\0" in word:
            raise GiveUp(BAD_INPUT, f"{option}: expected NAME=VALUE, found {shown(word)!r}")
    if len(words) > PAIRS_MAX:
        raise GiveUp(BAD_INPUT, f"{option} can be given {PAIRS_MAX} times, not {len(words)}")


_RUN_STYLES = ("bold", None, "state", None, None, "dim")


def _name(session: CommandSession, run: RunInfo) -> str:
    return run.name if run.parent is None else f"{run.name} {session.out.sign('more')} of {run.parent}"


def _state(run: RunInfo) -> str:
    words = [word for word, there in (("paused", run.paused), ("late", run.late)) if there]
    return f"{run.state} ({', '.join(words)})" if words else run.state


def _progress(run: RunInfo) -> str:
    done = sum(count for _, count in counts(run))
    bad = run.failed + run.dead_letter
    return f"{done:,}/{run.total:,}" + (f", {bad:,} failed" if bad else "")


def _took(run: RunInfo, now: int) -> str:
    return "" if run.started_at is None else duration((run.finished_at or now) - run.started_at)


def tasks(args: Namespace, session: CommandSession) -> int:
    limit = limit_of(args, TASKS_LIMIT)
    states = states_of(args.state, TASK_STATES)
    connection = session.connection()
    found, after = connection.tasks(args.run, states=states, after=args.after, limit=limit)
    if args.json:
        session.print_json({"tasks": found, "after": after})
        return OK
    print_tasks(session, connection, found, with_run=args.run is None)
    if after is not None:
        words = [args.run or "", *(f"--state {state}" for state in states or []), f"--after {after}"]
        session.warn(f"more: weft tasks {' '.join(word for word in words if word)}")
    return OK


def print_tasks(session: CommandSession, connection: Connection, found: list[TaskInfo], *, with_run: bool) -> None:
    if not found:
        session.warn("no tasks like that")
        return
    now = connection.now()
    heads = ["task", "state", "took", "attempt", "node", "reason"]
    styles: list[str | None] = [None, "state", None, None, None, "dim"]
    rows = []
    for task in found:
        row = [
            task.title, state_word(task.state), task_took(task, now),
            "" if task.by_hand else str(task.attempt or ""), task.node or "",
            printable(task.reason or "") if task.state != "succeeded" or task.by_hand else "",
        ]  # fmt: skip
        rows.append([task.run_id, *row] if with_run else row)
    if with_run:
        heads, styles = ["run", *heads], ["dim", *styles]
    for line in table(session.out, heads, rows, styles):
        session.print(line)


def task_took(task: TaskInfo, now: int) -> str:
    if task.by_hand:
        return "by hand"
    if task.cached:
        return "taken over" if task.cached.get("taken_over") else "cached"
    return duration(task_ms(task, now))


def store_info(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    info = connection.info()
    if args.json:
        session.print_json(info)
        return OK
    lines = [
        ("location", info.location),
        ("kind", f"{info.kind} ({info.library}, schema {info.schema})"),
        ("size", size(info.size_bytes)),
        ("runs", _by_state(info.runs)),
        ("tasks", _by_state(info.tasks)),
        ("events", f"{info.events:,}"),
        ("nodes", f"{info.sessions_live:,} live"),
        ("late reports", f"{info.stale_reports:,}, refused"),
        ("now", moment(connection.now())),
    ]
    for name, value in lines:
        session.print(f"{session.out.paint(f'{name:<13}', 'dim')} {value}")
    return OK


def _by_state(found: dict[str, int]) -> str:
    text = ", ".join(f"{count:,} {state_word(state)}" for state, count in sorted(found.items()))
    return f"{sum(found.values()):,}" + (f" ({text})" if text else "")
