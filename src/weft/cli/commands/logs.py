"""logs: the output of attempts as it was written, byte for byte; with -f while it is being written."""

import base64
import sys
import time
from argparse import Namespace
from collections.abc import Iterator

from weft.cli.exit_codes import NOT_FOUND, OK, GiveUp
from weft.cli.run_view.output_following import Prefixer, Streams
from weft.cli.run_view.tracker import Tracker
from weft.cli.session import CommandSession, json_text
from weft.cli.terminal.terminal import padded, width_of
from weft.client.verbs import Connection
from weft.core.states import TERMINAL
from weft.executors.output import StreamName
from weft.operations.reading.attempt_output import AttemptOutput
from weft.operations.replies import TaskInfo

PREFIX_WIDTH_MAX = 24
SENDING_MAX_S = 5.0  # an attempt has ended, and its node is still sending
SENDING_LOOK_S = 0.05


def logs(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    _, run_id = connection.find(args.run)
    chosen = _chosen(args, connection, run_id)
    many = args.task is None or chosen[0].elements is not None
    follower = connection.follow(run_id)
    tracker = Tracker(connection, follower, run_id, connection.workflow(run_id))
    streams = _streams(args, session, tracker, many)
    sys.stdout.flush()
    try:
        if args.follow:
            _follow(args, connection, tracker, run_id, streams)
        else:
            tasks = connection.all_tasks(run_id) if args.task is None else iter(chosen)
            _print_what_is_there(args, session, run_id, tasks, streams, tracker.titles)
    finally:
        streams.close()
        follower.close()
        sys.stdout.flush()
    return OK


def _chosen(args: Namespace, connection: Connection, run_id: str) -> list[TaskInfo]:
    """The task that was named; of a mapped one, its elements too. Without a name, nothing is loaded yet."""
    if args.task is None:
        if args.attempt is not None:
            raise GiveUp(NOT_FOUND, "--attempt needs a task", f"weft logs {run_id} TASK --attempt {args.attempt}")
        return []
    task = connection.task(run_id, args.task)
    if args.attempt is not None and not 1 <= args.attempt <= task.attempt:
        raise GiveUp(NOT_FOUND, f"{task.name} has no attempt {args.attempt}; its last is {task.attempt}")
    if task.elements is None:
        return [task]
    return [task, *(t for t in connection.all_tasks(run_id) if t.pos == task.pos and t.idx >= 0)]


def _streams(args: Namespace, session: CommandSession, tracker: Tracker, many: bool) -> Streams:
    def opened(task: str, attempt: int, stream: StreamName, session: str | None) -> AttemptOutput:
        return tracker.follower.open_output(task, attempt, stream)

    if args.json:
        return Streams(opened, _write_json, args.stream)
    if not many:
        return Streams(opened, lambda task, stream, data: _write(stream, data), args.stream)
    longest = max((width_of(task.name) for task in tracker.workflow.tasks), default=0)
    width = min(longest, PREFIX_WIDTH_MAX)
    bar = session.out.sign("bar")
    encoding = session.out.stream.encoding or "utf-8"

    def prefix(task: str) -> bytes:
        return f"{padded(tracker.titles.get(task, task), width)} {bar} ".encode(encoding, "replace")

    prefixer = Prefixer(_write, prefix)
    streams = Streams(opened, prefixer.take, args.stream)
    streams.ended = prefixer.ended
    return streams


def _write(stream: StreamName, data: bytes) -> None:
    target = sys.stdout if stream == "stdout" else sys.stderr
    target.buffer.write(data)
    target.buffer.flush()


def _write_json(task: str, stream: StreamName, data: bytes) -> None:
    value = {"task": task, "stream": stream, "encoding": "utf-8"}
    try:
        value["data"] = data.decode()
    except UnicodeDecodeError:
        value.update(data=base64.b64encode(data).decode(), encoding="base64")
    sys.stdout.write(json_text(value) + "\n")
    sys.stdout.flush()


def _print_what_is_there(
    args: Namespace,
    session: CommandSession,
    run_id: str,
    tasks: Iterator[TaskInfo],
    streams: Streams,
    titles: dict[str, str],
) -> None:
    alone: TaskInfo | None = None
    for task in tasks:
        titles[task.name] = task.title
        alone = alone or task
        if task.cached and args.attempt in (None, task.attempt):
            source = task.cached
            session.warn(f"{task.name} was cached, its output: weft logs {source['run']} {source['task']}")
        elif task.attempt and task.elements is None and task.kind != "workflow":
            streams.end(task.name, args.attempt or task.attempt)
            _read_to_its_end(streams)
    if args.task is not None and alone is not None and alone.child is not None:
        session.warn(f"{alone.name} has run as run {alone.child}: weft logs {alone.child}")
    elif args.task is not None and alone is not None and alone.attempt == 0 and alone.elements is None:
        session.warn(f"{alone.name} is {alone.state} and has not run: weft why {run_id} {alone.name}")


def _read_to_its_end(streams: Streams) -> None:
    """Its node may still be sending the last of it."""
    until = time.monotonic() + SENDING_MAX_S
    while streams.poll() or (streams.busy and time.monotonic() < until):
        if streams.waiting:
            time.sleep(SENDING_LOOK_S)
    streams.give_up()


def _follow(args: Namespace, connection: Connection, tracker: Tracker, run_id: str, streams: Streams) -> None:
    """From the beginning of the last attempt on, until what was asked for has ended."""
    follower = tracker.follower
    looked = -1

    def ended() -> bool:
        nonlocal looked
        if streams.busy or looked == follower.seq:  # nothing ends without an event
            return False
        looked = follower.seq
        return _over(args, connection, run_id)

    for page in follower.pages(ended):
        tracker.take(page)
        for running in tracker.ended:
            if _wanted(args, running.task, running.attempt):
                streams.end(running.task, running.attempt, running.session)
        if not page:
            for running in tracker.running.values():
                if _wanted(args, running.task, running.attempt):
                    streams.begin(running.task, running.attempt, running.session)
            while streams.poll():
                pass


def _wanted(args: Namespace, task: str, attempt: int) -> bool:
    named = args.task is None or task == args.task or task.rpartition(".")[0] == args.task
    return named and args.attempt in (None, attempt)


def _over(args: Namespace, connection: Connection, run_id: str) -> bool:
    if connection.run(run_id).finished:
        return True
    if args.task is None:
        return False
    task = connection.task(run_id, args.task)
    return task.state in TERMINAL or (args.attempt is not None and task.attempt > args.attempt)
