"""show: a run level by level with states, durations, tries, critical path and slack; one task with its attempts."""

from argparse import Namespace
from collections import Counter
from typing import Any

import msgspec

from weft.cli.commands.ls import task_took
from weft.cli.commands.signals import how_to_signal, signals_wanted
from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.run_view.summary import counts, output_or_why, output_text
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import budget_text, counted, duration, moment, size, spent_text, state_word
from weft.cli.terminal.tables import table
from weft.cli.terminal.terminal import printable
from weft.client.critical_path import measured_path, task_ms
from weft.client.verbs import Connection
from weft.core.graph import CriticalPath
from weft.core.states import TERMINAL
from weft.core.workflow import Workflow
from weft.operations.reading.definition_diff import yaml_lines
from weft.operations.replies import AttemptInfo, RunInfo, TaskInfo, TaskLaunch

LEVEL_ROWS = 12  # tasks shown of a level
LEVELS = 40
PATH_SHOWN = 12
TAIL_LINES = 10
SIGNALS_SHOWN = 5
SPENDERS_SHOWN = 5
PART_SHOWN = 300
_STATE_ORDER = {"failed": 0, "dead_letter": 0, "running": 1, "scheduled": 2, "waiting": 2, "queued": 3, "pending": 4}


def show(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    if args.definition and (args.task is not None or args.at is not None):
        raise GiveUp(BAD_INPUT, "--definition is of a whole run, as it is now", f"weft show {args.run} --definition")
    if args.at is not None:
        return _show_past(args, session, connection)
    if args.task is not None:
        return _show_task(args, session, connection)
    run = connection.run(args.run)
    if args.definition:
        return _show_definition(args, session, connection, run)
    workflow = connection.workflow(run.id)
    now = connection.now()
    found = list(connection.all_tasks(run.id))
    critical, _ = measured_path(workflow, run, found, now)
    if args.json:
        output, error = output_or_why(connection, run)
        values = {"context": connection.context(run.id), "output": output, "output_error": error}
        values["budget"] = connection.budget(run.id)
        session.print_json({**_as_json(run, workflow, found, critical, now), **values})
    else:
        facts = [
            *_starter(connection, run),
            *_without_nodes(connection, run),
            *_waits(run, workflow, found),
            *_values(connection, run, workflow),
        ]
        _print_run(session, run, found, now, facts)
        _print_levels(session, workflow, found, critical, now, everything=args.all)
        _print_path(session, workflow, critical)
    return OK


def _show_past(args: Namespace, session: CommandSession, connection: Connection) -> int:
    """As it was after an event, rebuilt from the run's history."""
    then = connection.run_at(args.run, args.at, args.task)
    event, now = then.past.event, then.past.event.at
    if args.json:
        session.print_json(then)
        return OK
    what = f"{event.kind} {event.task}" if event.task else event.kind
    place = f"event {event.number:,} of {then.past.total:,} ({event.seq}): {what}, {moment(now)}"
    if args.task is None:
        workflow = connection.workflow(then.run.id)
        critical, _ = measured_path(workflow, then.run, then.tasks, now)
        _print_run(session, then.run, then.tasks, now, [("as of", printable(place))])
        _print_levels(session, workflow, then.tasks, critical, now, everything=args.all)
        return OK
    (task,), out = then.tasks, session.out
    looks = "held" if task.held else task.state
    session.print(f"{out.state(looks)} {out.paint(task.name, 'bold')}  {state_word(looks)}  {task_took(task, now)}")
    for name, value in (("run", task.run_id), ("as of", place), ("node", task.node or "")):
        if value:
            session.print(f"  {out.paint(f'{name:<8}', 'dim')} {printable(value)}")
    for one in connection.why(task.run_id, task.name, args.at):
        session.print(f"  {out.paint('why     ', 'dim')} {printable(one.summary)}")
        for line in one.details:
            session.print(f"           {printable(line)}")
    return OK


def _show_definition(args: Namespace, session: CommandSession, connection: Connection, run: RunInfo) -> int:
    document = connection.document(run.workflow)
    if args.json:
        session.print_json({"run": run.id, "workflow": run.workflow, "definition": document})
        return OK
    for line in yaml_lines(document):
        session.print(line)
    return OK


def _as_json(
    run: RunInfo, workflow: Workflow, found: list[TaskInfo], critical: CriticalPath, now: int
) -> dict[str, Any]:
    on_path = set(critical.path)
    return {
        "run": run,
        "tasks": [
            {
                **msgspec.to_builtins(task),
                "took_ms": task_ms(task, now),
                "slack_ms": critical.slack[task.pos] if task.idx < 0 else None,
                "critical": task.idx < 0 and task.pos in on_path,
            }
            for task in found
        ],
        "critical_path": {"tasks": [workflow.tasks[pos].name for pos in critical.path], "took_ms": critical.length},
    }


def _starter(connection: Connection, run: RunInfo) -> list[tuple[str, str]]:
    task = connection.starter(run.id)
    return [] if task is None else [("started", f"by {task.name} of run {task.run_id}")]


def _without_nodes(connection: Connection, run: RunInfo) -> list[tuple[str, str]]:
    if run.finished or any(node.slots != 0 for node in connection.nodes()):
        return []
    return [("waits", f"no node works: start one with weft worker, or go on here with weft resume {run.id}")]


def _waits(run: RunInfo, workflow: Workflow, found: list[TaskInfo]) -> list[tuple[str, str]]:
    names = signals_wanted(workflow, found)[:SIGNALS_SHOWN]
    return [("waits", f"for {name}: {how_to_signal(run.id, name)}") for name in names]


def _spent(connection: Connection, run: RunInfo, workflow: Workflow) -> str:
    if not any(task.spends for task in workflow.tasks):
        return ""
    found = connection.budget(run.id)
    most = sorted(found.tasks, key=lambda one: (-one.usd, -one.tokens))[:SPENDERS_SHOWN]
    tasks = ", ".join(f"{one.task} {spent_text(one.usd, one.tokens)}" for one in most)
    return budget_text(found.budget) + (f" ({tasks})" if tasks else "")


def _values(connection: Connection, run: RunInfo, workflow: Workflow) -> list[tuple[str, str]]:
    output, error = output_or_why(connection, run)
    return [
        ("spent", _spent(connection, run, workflow)),
        ("context", _inputs(connection.context(run.id))),
        ("output", "" if output is None else output_text(output)),
        ("output", "" if error is None else f"none: {printable(error)}"),
    ]


def _print_run(
    session: CommandSession, run: RunInfo, found: list[TaskInfo], now: int, more: list[tuple[str, str]]
) -> None:
    out = session.out
    took = "" if run.started_at is None else f"  {duration((run.finished_at or now) - run.started_at)}"
    paused = ("  paused" if run.paused else "") + ("  late" if run.late else "")
    state = f"{out.state(run.state, run.state)}{paused}"
    session.print(f"{out.state(run.state)} {out.paint(run.name, 'bold')}  {state}{took}")
    open_now = Counter(task.state for task in found if task.state not in TERMINAL and task.elements is None)
    states = [*counts(run), *sorted(open_now.items(), key=lambda one: _STATE_ORDER.get(one[0], 5))]
    total = max(run.total, sum(count for _, count in states))  # which has no mapped task that is not opened yet
    facts = [
        ("run", run.id + (f" (generation {run.generation})" if run.generation > 1 else "")),
        ("started", moment(run.started_at or run.created_at)),
        ("results", "" if run.taken_from is None else f"of earlier tasks were taken over from run {run.taken_from}"),
        ("tasks", f"{total:,}: " + ", ".join(f"{count:,} {state_word(state)}" for state, count in states)),
        ("reason", printable(run.reason or "")),
        ("inputs", _inputs(run.inputs)),
        *more,
    ]
    for name, value in facts:
        if value:
            session.print(f"  {out.paint(f'{name:<8}', 'dim')} {value}")
    session.print()


def _inputs(inputs: dict[str, Any]) -> str:
    import json

    text = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in inputs.items())
    return printable(text[:200])


def _print_levels(
    session: CommandSession,
    workflow: Workflow,
    found: list[TaskInfo],
    critical: CriticalPath,
    now: int,
    *,
    everything: bool,
) -> None:
    by_level: dict[int, list[TaskInfo]] = {}
    for task in found:
        by_level.setdefault(task.level, []).append(task)
    on_path = set(critical.path)
    rows: list[list[str]] = []
    left_out = 0
    last = max(by_level, default=0)
    for level in sorted(by_level):
        here = sorted(by_level[level], key=lambda t: (t.pos, t.idx))
        if not everything and len(rows) > LEVELS * 2 and level < last:
            left_out += len(here)
            continue
        shown = here if everything or len(here) <= LEVEL_ROWS else _most_telling(here)
        for at, task in enumerate(shown):
            rows.append(_row(session, workflow, task, critical, now, first=at == 0, path=task.pos in on_path))
        if len(shown) < len(here):
            rows.append(["", f"  {session.out.sign('more')} {len(here) - len(shown):,} more", *[""] * 5])
    heads = ("level", "  task", "state", "took", "tries", "slack", "needs")
    for line in table(session.out, heads, rows, ("dim", None, "state", None, None, None, "dim")):
        session.print(line)
    if left_out:
        session.print(f"{session.out.sign('more')} {left_out:,} more tasks: weft show {found[0].run_id} --all")


def _most_telling(tasks: list[TaskInfo]) -> list[TaskInfo]:
    """Failures first, then what runs, then what is still to run; the order of the definition otherwise."""
    chosen = sorted(tasks, key=lambda t: _STATE_ORDER.get(t.state, 5))[: LEVEL_ROWS - 1]
    return sorted(chosen, key=lambda t: (t.pos, t.idx))


def _row(
    session: CommandSession,
    workflow: Workflow,
    task: TaskInfo,
    critical: CriticalPath,
    now: int,
    *,
    first: bool,
    path: bool,
) -> list[str]:
    sign = session.out.sign("ok" if task.state == "succeeded" else "wait")
    if task.state in ("failed", "dead_letter"):
        sign = session.out.sign("bad")
    elif task.held is not None:
        sign = session.out.sign("ok" if task.held == "succeeded" else "bad")
    elif task.state == "running":
        sign = session.out.sign("run")
    ms = task_ms(task, now)
    slack = ""
    if task.idx < 0 and ms is not None:
        slack = "critical" if path else duration(critical.slack[task.pos])
    elements = f" {session.out.sign('times')}{task.elements:,}" if task.elements is not None else ""
    if task.child is not None:
        elements = f" {session.out.sign('arrow')} {task.child}"
    needs = ", ".join(task.needs[:4]) + (f" +{len(task.needs) - 4}" if len(task.needs) > 4 else "")
    return [
        str(task.level + 1) if first else "", f"{sign} {task.title}{elements}",
        "held" if task.held else state_word(task.state), task_took(task, now),
        "" if task.by_hand or not task.attempt else str(task.attempt), slack, needs if task.idx < 0 else "",
    ]  # fmt: skip


def _print_path(session: CommandSession, workflow: Workflow, critical: CriticalPath) -> None:
    names = [workflow.tasks[pos].name for pos in critical.path]
    if not names or critical.length == 0:
        return
    arrow = f" {session.out.sign('arrow')} "
    if len(names) > PATH_SHOWN:
        names = [*names[: PATH_SHOWN // 2], f"({len(names) - PATH_SHOWN:,} more)", *names[-PATH_SHOWN // 2 :]]
    session.print(f"\ncritical path, {duration(critical.length)}: {arrow.join(names)}")


def _show_task(args: Namespace, session: CommandSession, connection: Connection) -> int:
    _, run_id = connection.find(args.run)
    task = connection.task(run_id, args.task)
    attempts = connection.attempts(run_id, args.task)
    launch = connection.launch(run_id, args.task)
    if args.json:
        session.print_json({"task": task, "attempts": attempts, "launch": launch})
        return OK
    out = session.out
    now = connection.now()
    looks = "held" if task.held else task.state
    state = out.state(looks, f"held ({state_word(task.held)})" if task.held else state_word(task.state))
    session.print(f"{out.state(looks)} {out.paint(task.title, 'bold')}  {state}  {task_took(task, now)}")
    facts = [
        ("run", run_id),
        ("needs", ", ".join(task.needs)),
        (
            "by hand" if task.by_hand else "reason",
            printable(task.reason or "") if task.state != "succeeded" or task.by_hand else "",
        ),
        ("as run", task.child or ""),
        ("elements", "" if task.elements is None else f"{task.elements:,}: weft tasks {run_id}"),
        ("lost", counted(task.lost, "time") if task.lost else ""),
        ("claimed", _claim(task, now)),
        *_launch(launch),
    ]
    for name, value in facts:
        if value:
            session.print(f"  {out.paint(f'{name:<8}', 'dim')} {value}")
    for attempt in attempts:
        _print_attempt(session, attempt, now)
    return OK


def _launch(launch: TaskLaunch) -> list[tuple[str, str]]:
    """What it runs, a line for each part."""
    parts = {"item": launch.item, **launch.spec, "env": launch.env or None, "cwd": launch.cwd}
    lines = [(name, _part(value)) for name, value in parts.items() if value is not None]
    return [
        *lines, ("secrets", ", ".join(launch.secrets)),
        ("problem", "" if launch.error is None else printable(launch.error)),
    ]  # fmt: skip


def _part(value: Any) -> str:
    import json

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(text if len(text) <= PART_SHOWN else f"{text[:PART_SHOWN]}…")


def _claim(task: TaskInfo, now: int) -> str:
    if task.claimed_by is None:
        return ""
    left = "" if task.claim_expires_at is None else f"; its lease has {duration(task.claim_expires_at - now)} left"
    return f"by {task.claimed_by} ({task.session}), attempt {task.claim_attempt}{left}"


def _print_attempt(session: CommandSession, attempt: AttemptInfo, now: int) -> None:
    out = session.out
    began = attempt.started_at or attempt.claimed_at
    took = "" if began is None else f"  {duration((attempt.finished_at or now) - began)}"
    code = "" if attempt.exit_code is None else f"  exit code {attempt.exit_code}"
    where = f"  on {attempt.node}" if attempt.node else "" if attempt.session else "  by hand: nothing ran"
    at = moment(began)
    session.print(
        f"\n{out.paint(f'attempt {attempt.attempt}', 'bold')}  {out.state(attempt.outcome, attempt.outcome)}"
        f"{took}{code}{where}  {out.paint(at, 'dim')}"
    )
    if attempt.cached:
        source = attempt.cached
        how = "taken over" if source.get("taken_over") else "cached"
        session.print(
            f"  {how}: nothing ran; the result is that of {source['task']}, attempt {source['attempt']},"
            f" in run {source['run']}"
        )
    if attempt.error and attempt.error != f"exit code {attempt.exit_code}":
        session.print(f"  {printable(attempt.error)}")
    for stream in ("stdout", "stderr"):
        text = str((attempt.result or {}).get(stream) or "").rstrip("\n")
        if not text:
            continue
        lines = text.split("\n")
        cut = (attempt.result or {}).get(f"{stream}Truncated") or len(lines) > TAIL_LINES
        session.print(out.paint(f"  {stream}{' (its end)' if cut else ''}", "dim"))
        for line in lines[-TAIL_LINES:]:
            session.print(f"  {out.paint(out.sign('bar'), 'dim')} {printable(line)}")
    if attempt.result is not None and "output" in attempt.result:
        import json

        session.print(f"  {out.paint('output', 'dim')} {printable(json.dumps(attempt.result['output'])[:500])}")
    if attempt.result is not None and "artifact" in attempt.result:
        artifact = attempt.result["artifact"]
        where = f"in the artifact {artifact['path']} ({artifact['bytes']:,} bytes)"
        session.print(f"  {out.paint('output', 'dim')} {printable(where)}")
    kept = (attempt.result or {}).get("files")
    if isinstance(kept, dict) and kept.get("place") in ("directory", "store"):
        total = sum(file["bytes"] for file in kept["list"])
        text = f"{len(kept['list']):,} ({size(total)}): weft artifacts {attempt.run_id} {attempt.task}"
        session.print(f"  {out.paint('files', 'dim')} {printable(text)}")
