"""cancel, release and prune."""

import time
from argparse import Namespace

from weft.cli.arguments import duration_ms
from weft.cli.commands.ls import states_of
from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.placement_checks import alive
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import counted, state_word
from weft.cli.terminal.terminal import printable
from weft.client.verbs import Connection
from weft.core.states import RUN_TERMINAL
from weft.operations.resources.run_changes import Changed, KeptRun

LOOK_EVERY_S = 0.05
IDLE_LOOKS = 40
SHOWN_MAX = 20


def cancel(args: Namespace, session: CommandSession) -> int:
    if args.now and args.task:
        raise GiveUp(BAD_INPUT, "--now is for a whole run", f"weft cancel {args.run} {args.task}")
    connection = session.connection()
    _, run_id = connection.find(args.run)
    before = _running(connection, run_id, args.task)
    reply = connection.cancel(run_id, args.task, args.reason, now=args.now)
    # What a node that is gone was working on has nobody left to stop it: its session ends now, not with its lease.
    connection.expire_dead()
    waited = not args.no_wait and _wait(session, connection, run_id, args.task, args.json)
    state = connection.task(run_id, args.task).state if args.task else connection.run(run_id).state
    if args.json:
        session.print_json(
            {"run": run_id, "task": args.task, "state": state, "already": reply.existing,
             "cancelled": reply.changed, "stopped": before, "waited": waited}
        )  # fmt: skip
        return OK
    _print_outcome(args, session, connection, run_id, reply, before, state)
    return OK


def _running(connection: Connection, run_id: str, task: str | None) -> list[str]:
    found, _ = connection.tasks(run_id, states=["running"], limit=1000)
    names = [t.name for t in found if t.elements is None and t.held is None]
    return [name for name in names if task is None or name == task or name.rpartition(".")[0] == task]


def _wait(session: CommandSession, connection: Connection, run_id: str, task: str | None, quiet: bool) -> bool:
    """Until nothing of it is left running; False if there is no node that could tell us so."""
    said = False
    idle = 0
    while True:
        if task is None:
            over = connection.run(run_id).finished
        else:
            over = not _running(connection, run_id, task)
        if over:
            return True
        nodes = [node for node in connection.nodes() if alive(connection, node)]
        if not any(node.running for node in nodes):
            if idle == 0:
                connection.tidy(run_id)  # what ended last may have been a run that one of its tasks started
            elif not (nodes and idle < IDLE_LOOKS and connection.run(run_id).active):  # a node may take its handlers
                return False
            idle += 1
            time.sleep(LOOK_EVERY_S if idle > 1 else 0)
            continue
        idle = 0
        if not said and not quiet:
            session.warn("waiting until nothing of it is left running (^C stops waiting, not the cancelling)")
            said = True
        time.sleep(LOOK_EVERY_S)


def _print_outcome(
    args: Namespace,
    session: CommandSession,
    connection: Connection,
    run_id: str,
    reply: Changed,
    before: list[str],
    state: str,
) -> None:
    what = f"{args.task} of run {run_id}" if args.task else f"run {run_id}"
    if reply.existing:
        session.print(f"{what} is {state_word(state)} already")
        return
    session.print(f"{session.out.state(state)} {what} is {session.out.state(state, state_word(state))}")
    for name in before[:SHOWN_MAX]:
        now = connection.task(run_id, name)
        note = f" ({printable(now.reason)})" if now.reason else ""
        if now.state == "running":
            note = f" ({printable(connection.why(run_id, name)[0].summary)})"
        session.print(f"  {session.out.state(now.state)} {name}: {state_word(now.state)}{note}")
    if len(before) > SHOWN_MAX:
        session.print(f"  {session.out.sign('more')} {len(before) - SHOWN_MAX:,} more were running")
    if state != "running":
        return
    session.warn("told to stop; what runs has not ended yet")
    if not args.task and not args.now and any(task.when == "always" for task in connection.workflow(run_id).tasks):
        session.warn(f"its handlers (when: always) run before it ends; to skip them: weft cancel {run_id} --now")


def release(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    _, run_id = connection.find(args.run)
    reply = connection.release(run_id, args.task, args.reason)
    if args.json:
        session.print_json({"run": run_id, "task": args.task, "state": reply.state})
    else:
        session.print(f"{args.task} of run {run_id} is released: it is {state_word(reply.state or '?')}")
    return OK


def prune(args: Namespace, session: CommandSession) -> int:
    older_ms = duration_ms("--older", args.older)
    states = states_of(args.state, tuple(sorted(RUN_TERMINAL)))
    connection = session.connection()
    removed: list[str] = []
    kept: list[KeptRun] = []
    for done in connection.prune(connection.now() - older_ms, states, cache=args.cache):
        removed += done.runs
        kept = done.kept
    if args.json:
        session.print_json({"removed": removed, "kept": kept})
        return OK
    session.print(f"removed {counted(len(removed), 'run')}")
    for one in kept:
        session.print(f"kept run {one.run}: run {one.taken_over_by} took over its results")
    return OK
