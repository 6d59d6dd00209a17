"""run, submit, resume, rerun and watch: a run is stored, then worked on here or left to workers, and watched."""

import contextlib
import json
import re
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.authoring.children import workflows_of
from weft.authoring.errors import DefinitionErrors
from weft.authoring.flow_files import names_a_flow
from weft.authoring.load import Loaded, load_file, with_defaults
from weft.cli.arguments import shown
from weft.cli.command_table import OF_A_NODE
from weft.cli.definition_input import given_inputs, load, load_named, read_inputs, source_directory
from weft.cli.exit_codes import BAD_INPUT, FAILED, NOT_FOUND, OK, GiveUp
from weft.cli.placement_checks import facts_here, refuse_unplaceable, waits, workers
from weft.cli.run_view.following import Options
from weft.cli.run_view.summary import summarise, summary_lines
from weft.cli.run_view.watching import watch_run
from weft.cli.run_view.working import work_on
from weft.cli.session import CommandSession
from weft.cli.standard_streams import waiting_input
from weft.cli.terminal.formats import counted
from weft.client.verbs import Connection
from weft.core.commands import Reply
from weft.core.definition.document import encode_document
from weft.core.definition.suggest import nearest
from weft.core.workflow import Workflow
from weft.operations.replies import RunInfo
from weft.operations.submission import KEY_MAX, LABEL_NAME_MAX, LABEL_VALUE_MAX, PRIORITY_MAX, submission

if TYPE_CHECKING:
    from weft.operations.resources.definitions import PlannedTask
    from weft.operations.resources.run_changes import Changed, RerunPlan

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")

SHOWN_MAX: Final = 50  # tasks that run again, or of a level
NEEDS_SHOWN: Final = 5


def run(args: Namespace, session: CommandSession) -> int:
    refuse_for_server(args, session)
    loaded, inputs = _load(args, session)
    if args.argv is not None and waiting_input():
        session.warn("CMD gets no standard input, which no second attempt could read: put it into a file")
    connection = session.connection(create=True)
    if args.dry_run:
        return _dry_run(args, session, connection, loaded, inputs)
    refuse_unplaceable(session, args, connection, workflows_of(loaded))
    reply = _store_run(args, session, connection, loaded, inputs)
    assert reply.run_id is not None
    if reply.existing:
        session.warn(f"run {reply.run_id} has this key already")
        if connection.run(reply.run_id).finished:
            code = _say_end(args, session, connection, reply.run_id)
            return code if args.argv is None else _command_code(connection, reply.run_id, code)
    if args.ui:
        code = _work_beside_page(args, session, connection, reply)
    else:
        code = work_here(args, session, connection, reply.run_id, 0, own=not reply.existing)
    return code if args.argv is None else _command_code(connection, reply.run_id, code)


def _work_beside_page(args: Namespace, session: CommandSession, connection: Connection, reply: Reply) -> int:
    from weft.cli.commands.ui import PageOfRun  # a server is heavy to import

    assert reply.run_id is not None
    page = PageOfRun(session, reply.run_id)
    try:
        code = work_here(args, session, connection, reply.run_id, 0, own=not reply.existing)
        page.stay(session)
    finally:
        page.close()
    return code


def _dry_run(args: Namespace, session: CommandSession, connection: Connection, loaded: Loaded, inputs: str) -> int:
    from weft.client.plan import plan_of

    here = None if session.server is not None else facts_here(session, list(workflows_of(loaded)))
    workflow = loaded.workflow
    plan = plan_of(connection, workflow, json.loads(inputs), limit=len(workflow.tasks) or 1, here=here)
    if args.json:
        session.print_json(plan)
        return OK
    for level in range(plan.levels):
        tasks = [task for task in plan.tasks if task.level == level]
        session.print(f"level {level}: {counted(len(tasks), 'task')}")
        for task in tasks[:SHOWN_MAX]:
            session.print(f"  {_planned_line(task)}")
        if len(tasks) > SHOWN_MAX:
            session.print(f"  … and {len(tasks) - SHOWN_MAX:,} more")
    for problem in plan.problems:
        session.warn(problem)
    return OK


def _planned_line(task: "PlannedTask") -> str:
    facts = ["mapped" if task.mapped else task.type]
    facts += [] if task.condition is None else [f"if {task.condition}"]
    facts += [] if not task.needs else [f"after {', '.join(task.needs[:NEEDS_SHOWN])}"]
    where = "" if task.nodes is None else f"  on {', '.join(task.nodes)}" if task.nodes else "  on no live node"
    return f"{task.name}  ({'; '.join(facts)}){where}"


def _command_code(connection: Connection, run_id: str, code: int) -> int:
    """The exit code of the one command that the run has, if the run failed with it."""
    if code != FAILED:
        return code
    tasks, _ = connection.tasks(run_id, limit=1)
    return tasks[0].exit_code or code if tasks and tasks[0].state != "cancelled" else code


def submit(args: Namespace, session: CommandSession) -> int:
    args.argv = None
    loaded, inputs = _load(args, session)
    connection = session.connection(create=True)
    reply = _store_run(args, session, connection, loaded, inputs)
    return _left_to_others(
        args, session, connection, reply.run_id, workflows_of(loaded), {"existing": reply.existing}
    )


def _left_to_others(
    args: Namespace,
    session: CommandSession,
    connection: Connection,
    run_id: str | None,
    workflows: Iterable[Workflow],
    more: dict[str, Any] | None = None,
) -> int:
    warnings = waits(session, connection, workflows)
    if args.json:
        value = {"run": run_id, **(more or {}), "workers": len(workers(connection)), "warnings": warnings}
        session.print_json(value)
        return OK
    session.print(run_id or "")
    for warning in warnings:
        session.warn(warning)
    return OK


def _load(args: Namespace, session: CommandSession) -> tuple[Loaded, str]:
    """(what to run, its inputs), checked before anything is made."""
    loaded = _load_applied(args, session) or with_defaults(load(args), session.config.definition_defaults)
    inputs = read_inputs(loaded.workflow, args.input)
    least = 1 if loaded.workflow.level_plan is None else 0
    if args.max_parallel is not None and args.max_parallel < least:
        raise GiveUp(BAD_INPUT, f"--max-parallel must be at least {least}")
    if args.manual_advance and loaded.workflow.level_plan is None:
        raise GiveUp(BAD_INPUT, f"{loaded.workflow.name} has no levels to rest after", "add mode: levels to it")
    if not 0 <= args.priority <= PRIORITY_MAX:
        raise GiveUp(BAD_INPUT, f"--priority must be from 0 to {PRIORITY_MAX}")
    if args.key is not None and not 0 < len(args.key) <= KEY_MAX:
        raise GiveUp(BAD_INPUT, f"--key must have 1 to {KEY_MAX} characters")
    run_labels(args.run_label)
    return loaded, inputs


def _load_applied(args: Namespace, session: CommandSession) -> Loaded | None:
    """The current version of an applied workflow, if FILE is no file but may be such a name."""
    name = args.file
    if name in (None, "-") or args.argv is not None or not _NAME.fullmatch(name) or Path(name).exists():
        return None
    if names_a_flow(name) or Path(name).suffix in (".yaml", ".yml", ".json"):
        return None
    try:
        connection = session.connection()
        applied = connection.applied_sources()
    except GiveUp:  # there is no store yet
        applied = {}
    if name not in applied:
        fix = "weft run FILE, or weft apply FILE and then weft run NAME; weft workflows lists names"
        meant = nearest(name, applied)
        raise GiveUp(
            NOT_FOUND, f"there is no file {name}, and no applied workflow of that name",
            f"did you mean {meant!r}?" if meant else fix,
        )  # fmt: skip
    hash, args.applied_source = applied[name]
    document = connection.document(hash)
    return Loaded(document, encode_document(document), hash)


def run_labels(given: list[str]) -> dict[str, str]:
    """`--run-label` values, with the bounds that the API has."""
    labels: dict[str, str] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not 0 < len(name) <= LABEL_NAME_MAX or len(value) > LABEL_VALUE_MAX or "\0" in word:
            what = f"--run-label: expected NAME=VALUE, found {shown(word)!r}"
            fix = f"names have 1 to {LABEL_NAME_MAX} characters, values at most {LABEL_VALUE_MAX}"
            raise GiveUp(BAD_INPUT, what, fix)
        labels[name] = value
    return labels


def _store_run(
    args: Namespace, session: CommandSession, connection: Connection, loaded: Loaded, inputs: str
) -> Reply:
    command = submission(
        loaded,
        inputs,
        source=getattr(args, "applied_source", None)
        or source_directory(loaded, session.config.workdir or session.directory),
        priority=args.priority,
        max_parallel=args.max_parallel,
        key=args.key,
        labels=run_labels(args.run_label),
        fresh=args.no_cache,
        manual_advance=args.manual_advance,
    )
    return connection.submit(command, loaded.workflow)


def resume(args: Namespace, session: CommandSession) -> int:
    refuse_for_server(args, session)
    connection = session.connection()
    _, run_id = connection.find(args.run)
    if args.definition_file is not None:
        return _resume_corrected(args, session, connection, run_id)
    if args.preview:
        raise GiveUp(BAD_INPUT, "--preview is about a corrected definition", "add --file FILE")
    _note_changed_file(session, connection, connection.run(run_id))
    refuse_unplaceable(session, args, connection, connection.workflows(run_id))
    after = connection.last_event(run_id)
    return go_on(args, session, connection, connection.resume(run_id), after)


def _resume_corrected(args: Namespace, session: CommandSession, connection: Connection, run_id: str) -> int:
    loaded = with_defaults(load_named(args.definition_file), session.config.definition_defaults)
    planned = connection.correct(run_id, loaded.document, preview=True)
    if args.preview and args.json:
        session.print_json(planned)
        return OK
    if not args.json:
        say = session.print if args.preview else session.warn
        marks = {**dict.fromkeys(planned.changed, "changed"), **dict.fromkeys(planned.new, "new")}
        for name in planned.again[:SHOWN_MAX]:
            say(f"  {name}{f'  ({marks[name]})' if name in marks else ''}")
        if len(planned.again) > SHOWN_MAX:
            say(f"  … and {len(planned.again) - SHOWN_MAX:,} more")
        would = "would run" if args.preview else "run"
        say(f"{counted(len(planned.again), 'task')} {would} again, {planned.kept:,} keep their results")
    if args.preview:
        return OK
    refuse_unplaceable(session, args, connection, [loaded.workflow])
    after = connection.last_event(run_id)
    done = connection.correct(run_id, loaded.document)
    from weft.operations.resources.run_changes import Changed

    reply = Changed(run=done.run, state=done.state, existing=False, changed=len(done.again))
    return go_on(args, session, connection, reply, after)


def _note_changed_file(session: CommandSession, connection: Connection, run: RunInfo) -> None:
    """A definition is mostly in a file of its name: has that another content now?"""
    for suffix in (".yaml", ".yml", ".json") if run.source is not None and "/" not in run.name else ():
        path = Path(run.source or "") / f"{run.name}{suffix}"
        if not path.is_file():
            continue
        with contextlib.suppress(DefinitionErrors, OSError):
            loaded = with_defaults(load_file(path), session.config.definition_defaults)
            if loaded.document != connection.document(run.workflow):
                session.warn(
                    f"{path.name} has changed since: weft resume {run.id} --file {path.name} goes on with it"
                )
        return


def advance(args: Namespace, session: CommandSession) -> int:
    refuse_for_server(args, session)
    connection = session.connection()
    _, run_id = connection.find(args.run)
    after = connection.last_event(run_id)
    return go_on(args, session, connection, connection.advance(run_id, by_task=args.task), after)


def go_on(args: Namespace, session: CommandSession, connection: Connection, reply: "Changed", after: int) -> int:
    """After a resume: work on it here, or say that somebody else has to."""
    assert reply.run is not None
    now = connection.run(reply.run)
    # Nodes elsewhere may have done all of it by now: then there is something to show.
    if now.finished and not (session.server and connection.events(reply.run, after=after, limit=1)):
        if not args.json:
            session.warn("there is nothing left to do")
        return _say_end(args, session, connection, reply.run)
    if args.detach:
        return _left_to_others(args, session, connection, reply.run, connection.workflows(reply.run))
    return work_here(args, session, connection, reply.run, after)


def _say_end(args: Namespace, session: CommandSession, connection: Connection, run_id: str) -> int:
    summary = summarise(connection, run_id, 0, False)
    if args.json:
        value = {"type": "summary", "run": run_id, "state": summary.run.state, "output": summary.output}
        session.print_json({**value, "output_error": summary.output_error}, line=True)
    else:
        for line in summary_lines(summary, session.err):
            session.warn(line)
    return summary.exit_code


def rerun(args: Namespace, session: CommandSession) -> int:
    refuse_for_server(args, session)
    connection = session.connection()
    old = connection.run(args.run)
    refuse_unplaceable(session, args, connection, connection.workflows(old.id))
    given = given_inputs(connection.workflow(old.id), args.input)
    if args.from_task:
        planned = connection.preview_rerun(old.id, args.from_task)
        _print_plan(args, session, planned)
    if args.preview and not args.from_task:
        raise GiveUp(BAD_INPUT, "--preview is about a rerun from a task", "add --from TASK")
    if args.preview:
        return OK
    reply = connection.rerun(old.id, fresh=args.no_cache, inputs=given, from_tasks=args.from_task)
    assert reply.run is not None
    if args.detach:
        return _left_to_others(args, session, connection, reply.run, connection.workflows(reply.run))
    return work_here(args, session, connection, reply.run, 0)


def _print_plan(args: Namespace, session: CommandSession, planned: "RerunPlan") -> None:
    if args.json:
        if args.preview:
            session.print_json(planned)
        return
    say = session.print if args.preview else session.warn
    for name in planned.again[:SHOWN_MAX] if args.preview else ():
        say(f"  {name}")
    if args.preview and len(planned.again) > SHOWN_MAX:
        say(f"  … and {len(planned.again) - SHOWN_MAX:,} more")
    would = "would run" if args.preview else "run"
    taken = f"{len(planned.taken_over):,} {'would be' if args.preview else 'are'} taken over from run {planned.run}"
    say(f"{counted(len(planned.again), 'task')} {would}, {taken}")


def work_here(
    args: Namespace, session: CommandSession, connection: Connection, run_id: str, after: int, own: bool = False
) -> int:
    """Here, or, if a server was asked, there: then it is only watched."""
    options = Options(logs=args.logs, json=args.json, own=own)
    if session.server is not None:
        if not args.json:
            for warning in waits(session, connection, connection.workflows(run_id)):
                session.warn(warning)
        return watch_run(session, connection, run_id, after, options)
    if connection.run(run_id).finished and after == 0:
        return _say_end(args, session, connection, run_id)
    return work_on(session, session.local(), run_id, after, options)


def watch(args: Namespace, session: CommandSession) -> int:
    """The view of `weft run` on a run that others work on."""
    connection = session.connection()
    _, run_id = connection.find(args.run)
    after = connection.last_event(run_id)  # before the state is read: the run's end comes after it, or has been
    if connection.run(run_id).finished:
        return _say_end(args, session, connection, run_id)
    if not args.json:
        for warning in waits(session, connection, connection.workflows(run_id)):
            session.warn(warning)
    return watch_run(session, connection, run_id, after, Options(logs=args.logs, json=args.json))


def refuse_for_server(args: Namespace, session: CommandSession) -> None:
    """What is said about the node of this process means nothing where there is none."""
    if session.server is None:
        return
    for option in OF_A_NODE:
        if getattr(args, option.names[0].lstrip("-").replace("-", "_"), None):
            raise GiveUp(
                BAD_INPUT, f"{option.names[0]} is about a node here, and {session.server} has its own",
                "leave it out, or use --store",
            )  # fmt: skip
