"""logs: the output of attempts as it was written, byte for byte; with -f while it is being written.

artifacts: the files that attempts have kept.
"""

import base64
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from weft.cli.arguments import shown
from weft.cli.exit_codes import BAD_INPUT, NOT_FOUND, OK, GiveUp
from weft.cli.run_view.output_following import Prefixer, Streams, TailFilter, Take
from weft.cli.run_view.tracker import Tracker
from weft.cli.session import CommandSession, json_text
from weft.cli.terminal.formats import moment, size
from weft.cli.terminal.tables import table
from weft.cli.terminal.terminal import padded, printable, width_of
from weft.client.following import EventFollower
from weft.client.verbs import Connection
from weft.core.states import TERMINAL
from weft.executors.output import StreamName
from weft.operations.reading.output.attempts import AttemptOutput
from weft.operations.replies import TaskInfo
from weft.operations.resources.streams import SearchTaskOutputRequest, search_task_output

PREFIX_WIDTH_MAX = 24
TAIL_MAX = 1_000_000
SORTED_MAX = 100_000
ARTIFACTS_MAX = 10_000
SENDING_MAX_S = 5.0  # an attempt has ended, and its node is still sending
SENDING_LOOK_S = 0.05


def logs(args: Namespace, session: CommandSession) -> int:
    if args.tail is not None and not 0 <= args.tail <= TAIL_MAX:
        raise GiveUp(BAD_INPUT, f"--tail must be from 0 to {TAIL_MAX:,}")
    connection = session.connection()
    _, run_id = connection.find(args.run)
    if args.grep is not None:
        return _grep(args, session, connection, run_id)
    chosen = _chosen(args, connection, run_id)
    many = args.task is None or chosen[0].elements is not None
    follower = connection.follow(run_id)
    output = LogOutput(args, session, connection, follower, run_id, many)
    sys.stdout.flush()
    try:
        if args.follow:
            _follow(args, connection, follower, run_id, output)
        else:
            tasks = _in_order(connection, run_id) if args.task is None else chosen
            _print_what_is_there(args, session, connection, run_id, tasks, output)
            output.caught_up()
    finally:
        output.streams.close()
        follower.close()
        sys.stdout.flush()
    return OK


def _grep(args: Namespace, session: CommandSession, connection: Connection, run_id: str) -> int:
    """The server looks, and sends the lines that it finds."""
    if args.task is None or args.follow or args.tail is not None:
        raise GiveUp(
            BAD_INPUT, "--grep looks through what one task has printed", "name the task; leave out -f, --tail"
        )
    streams: list[StreamName] = ["stdout", "stderr"] if args.stream is None else [args.stream]
    found = 0
    for stream in streams:
        cursor, more = None, True
        while more:
            request = SearchTaskOutputRequest(
                run=run_id, task=args.task, stream=stream, text=args.grep, ignore_case=args.ignore_case,
                attempt=args.attempt, cursor=cursor, limit=1000,
            )  # fmt: skip
            page = connection.call(search_task_output, request)
            cursor, more = page.next, page.next is not None
            found += len(page.matches)
            for one in page.matches:
                if args.json:
                    session.print_json({"stream": stream, **msgspec.to_builtins(one)}, line=True)
                else:
                    session.print(f"{one.line}: {one.text}")
    if not found and not args.json:
        session.warn(f"no line of {args.task} has {shown(args.grep)!r}")
    return OK


def _in_order(connection: Connection, run_id: str) -> Iterable[TaskInfo]:
    """As the definition has them, elements beside each other. Of a very large run in the order in which they were
    created, where elements come last: it is not held in memory."""
    if connection.run(run_id).total > SORTED_MAX:
        return connection.all_tasks(run_id)
    return sorted(connection.all_tasks(run_id), key=lambda task: (task.pos, task.idx))


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


class LineTimes:
    """The time that stands before a line: of output that was there already, when its attempt began."""

    def __init__(self, connection: Connection) -> None:
        self._ahead = connection.now() - _now_ms()
        self.began: dict[str, int | None] = {}
        self.live = False

    def at(self, task: str) -> int | None:
        return _now_ms() + self._ahead if self.live else self.began.get(task)


class LogOutput:
    """Where output goes to: `streams` reads it, and what it hands on is cut, headed and written."""

    def __init__(
        self,
        args: Namespace,
        session: CommandSession,
        connection: Connection,
        follower: EventFollower,
        run_id: str,
        many: bool,
    ) -> None:
        self.times = LineTimes(connection) if args.timestamps else None
        self.titles: dict[str, str] = {}  # of elements with labels, by name
        self._ended: list[Callable[[str], None]] = []
        write = self._writer(args, session, connection, run_id, many)
        self.is_empty = True

        def noted(task: str, stream: StreamName, data: bytes) -> None:
            self.is_empty = False
            write(task, stream, data)

        take: Take = noted
        self._tail = None if args.tail is None else TailFilter(take, args.tail)
        if self._tail is not None:
            take = self._tail.take
            self._ended.insert(0, self._tail.ended)

        def opened(task: str, attempt: int, stream: StreamName, session: str | None) -> AttemptOutput:
            return follower.open_output(task, attempt, stream)

        self.streams = Streams(opened, take, args.stream)
        self.streams.ended = self._end

    def _end(self, task: str) -> None:
        for ended in self._ended:
            ended(task)

    def _writer(
        self, args: Namespace, session: CommandSession, connection: Connection, run_id: str, many: bool
    ) -> Take:
        if args.json:
            return lambda task, stream, data: _write_json(task, stream, data, self.times)
        if not many and self.times is None:
            return lambda task, stream, data: _write(stream, data)
        longest = max((width_of(task.name) for task in connection.workflow(run_id).tasks), default=0)
        width = min(longest, PREFIX_WIDTH_MAX)
        bar = session.out.sign("bar")
        encoding = session.out.stream.encoding or "utf-8"

        def prefix(task: str) -> bytes:
            at = "" if self.times is None else f"{moment(self.times.at(task))} "
            name = padded(self.titles.get(task, task), width)
            return (at + (f"{name} {bar} " if many else "")).encode(encoding, "replace")

        prefixer = Prefixer(_write, prefix)
        self._ended.append(prefixer.ended)
        return prefixer.take

    def caught_up(self) -> None:
        """What comes from now on was written while it was followed."""
        if self._tail is not None:
            self._tail.release()
        if self.times is not None:
            self.times.live = True


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


def _write(stream: StreamName, data: bytes) -> None:
    target = sys.stdout if stream == "stdout" else sys.stderr
    target.buffer.write(data)
    target.buffer.flush()


def _write_json(task: str, stream: StreamName, data: bytes, times: LineTimes | None) -> None:
    value: dict[str, Any] = {"task": task, "stream": stream, "encoding": "utf-8"}
    if times is not None:
        value["at"] = times.at(task)
    try:
        value["data"] = data.decode()
    except UnicodeDecodeError:
        value.update(data=base64.b64encode(data).decode(), encoding="base64")
    sys.stdout.write(json_text(value) + "\n")
    sys.stdout.flush()


def _print_what_is_there(
    args: Namespace,
    session: CommandSession,
    connection: Connection,
    run_id: str,
    tasks: Iterable[TaskInfo],
    output: LogOutput,
) -> None:
    streams = output.streams
    alone: TaskInfo | None = None
    for task in tasks:
        alone = alone or task
        output.titles[task.name] = task.title
        if task.cached and args.attempt in (None, task.attempt):
            source = task.cached
            how = "taken over" if source.get("taken_over") else "cached"
            session.warn(f"{task.name} was {how}, its output: weft logs {source['run']} {source['task']}")
        elif task.attempt and task.elements is None and task.kind != "workflow":
            if output.times is not None:
                output.times.began[task.name] = _began(connection, run_id, task, args.attempt)
            streams.end(task.name, args.attempt or task.attempt)
            _read_to_its_end(streams)
    if args.task is not None and alone is not None and alone.child is not None:
        session.warn(f"{alone.name} has run as run {alone.child}: weft logs {alone.child}")
    elif args.task is not None and alone is not None and alone.attempt == 0 and alone.elements is None:
        session.warn(f"{alone.name} is {alone.state} and has not run: weft why {run_id} {alone.name}")
    elif (
        args.task is not None and alone is not None and alone.state in TERMINAL and output.is_empty and not args.tail
    ):
        session.warn(f"{alone.name} printed nothing{f': {printable(alone.reason)}' if alone.reason else ''}")


def _began(connection: Connection, run_id: str, task: TaskInfo, attempt: int | None) -> int | None:
    if attempt in (None, task.attempt):
        return task.started_at or task.claimed_at
    found = [one for one in connection.attempts(run_id, task.name) if one.attempt == attempt]
    return found[0].started_at or found[0].claimed_at if found else None


def _read_to_its_end(streams: Streams) -> None:
    """Its node may still be sending the last of it."""
    until = time.monotonic() + SENDING_MAX_S
    while streams.poll() or (streams.busy and time.monotonic() < until):
        if streams.waiting:
            time.sleep(SENDING_LOOK_S)
    streams.give_up()


def _follow(args: Namespace, connection: Connection, follower: EventFollower, run_id: str, output: LogOutput) -> None:
    """From the beginning of the last attempt on, until what was asked for has ended."""
    streams = output.streams
    tracker = Tracker(connection, follower, run_id, connection.workflow(run_id))
    output.titles = tracker.titles
    looked = -1

    def ended() -> bool:
        nonlocal looked
        if streams.busy or looked == follower.seq:  # nothing ends without an event
            return False
        looked = follower.seq
        return _over(args, connection, run_id)

    for page in follower.pages(ended):
        tracker.take(page)
        if output.times is not None:
            output.times.began |= {one.task: one.since for one in (*tracker.ended, *tracker.running.values())}
        for running in tracker.ended:
            if _wanted(args, running.task, running.attempt):
                streams.end(running.task, running.attempt, running.session)
        if not page:
            for running in tracker.running.values():
                if _wanted(args, running.task, running.attempt):
                    streams.begin(running.task, running.attempt, running.session)
            while streams.poll():
                pass
            output.caught_up()


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


def artifacts(args: Namespace, session: CommandSession) -> int:
    words = args.words
    if words[0] == "get":
        if len(words) != 4:
            raise GiveUp(BAD_INPUT, "write weft artifacts get RUN TASK PATH")
        return _get_artifact(args, session, *words[1:])
    if len(words) > 2 or args.output is not None:
        raise GiveUp(BAD_INPUT, "write weft artifacts RUN [TASK], or weft artifacts get RUN TASK PATH")
    found = session.connection().artifacts(words[0], words[1] if len(words) == 2 else None, limit=ARTIFACTS_MAX)
    if args.json:
        session.print_json(found)
        return OK
    rows = [[one.task, one.path, size(one.bytes), one.sha256[:16]] for one in found.artifacts]
    if not rows:
        session.warn("no files: tasks keep those that their `artifacts` name")
    for line in table(session.out, ("task", "path", "size", "sha256"), rows, ("bold",)):
        session.print(line)
    if found.more:
        session.warn(f"only the first {ARTIFACTS_MAX:,}: name a task")
    return OK


def _get_artifact(args: Namespace, session: CommandSession, run: str, task: str, path: str) -> int:
    reference, file = session.connection().open_file(run, task, path)
    with file:
        if args.output is None:
            sys.stdout.flush()
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return OK
        try:
            with open(args.output, "wb") as out:
                shutil.copyfileobj(file, out)
        except OSError as error:
            raise GiveUp(BAD_INPUT, f"{args.output}: {error.strerror}") from None
    session.warn(f"wrote {args.output}: {reference.bytes:,} bytes")
    return OK
