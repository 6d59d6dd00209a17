"""Tools for what a task leaves: its result, and what it prints while it runs."""

import asyncio
import codecs
from typing import Annotated, Any, Literal

from msgspec import Meta

from weft.client.critical_path import task_ms
from weft.client.verbs import Connection
from weft.core.states import TERMINAL
from weft.mcp import arguments as a
from weft.mcp import replies as r
from weft.mcp.tools import PAUSE_MAX_S, PAUSE_S, RequestContext, Tools
from weft.operations.errors import ApiError, NotFound
from weft.operations.parameters import RunRef
from weft.operations.replies import AttemptInfo, OutputPart, TaskInfo

tools = Tools()
TAIL_MAX = 16 * 1024
ERROR_MAX = 4096
TEXT_MAX = 64 * 1024
NAMES_SHOWN = 10
LOST_CHARACTER = 3  # a character of UTF-8 that is cut has at most so many bytes

Attempt = Annotated[int, Meta(ge=1, le=1_000_000, description="Of this attempt, not of the last")]


class GetTaskResultArguments(a.Arguments):
    run: RunRef
    task: a.OnlyTask = None
    attempt: Attempt | None = None
    tail: Annotated[int, Meta(ge=0, le=TAIL_MAX, description="So many characters of stdout and stderr")] = 4096
    wait_s: a.WaitS = 0


@tools(role="viewer", scope="run")
async def get_task_result(context: RequestContext, request: GetTaskResultArguments) -> r.TaskResult:
    """What a task left: state, exit code, output value, the end of stdout and stderr, the error. With wait_s it waits
    for the task's end. A run of one task needs no task's name."""
    task = await context.read(lambda: named(context.connection, request.run, request.task))
    await context.until(request.wait_s, lambda: context.connection.task(request.run, task), _ended)
    return await context.read(lambda: _result(context.connection, request, task))


def named(connection: Connection, ref: str, task: str | None) -> str:
    """The task that is meant: of a run of one, that."""
    if task is not None:
        return task
    names = [one.name for one in connection.workflow(ref).tasks]
    if len(names) == 1:
        return names[0]
    shown = ", ".join(names[:NAMES_SHOWN]) + (" …" if len(names) > NAMES_SHOWN else "")
    raise ApiError("task", f"the run has {len(names):,} tasks", f"say which in `task`: {shown}")


def _ended(task: TaskInfo) -> bool:
    return task.state in TERMINAL or task.held is not None


def _result(connection: Connection, request: GetTaskResultArguments, name: str) -> r.TaskResult:
    task = connection.task(request.run, name)
    attempts = connection.attempts(request.run, name)
    found = r.TaskResult(
        run=task.run_id, task=task.name, state=task.state, ended=_ended(task), attempts=len(attempts),
        error=_error(task, None), took_ms=task_ms(task, connection.now()), elements=task.elements, child=task.child,
        note=_note(task),
    )  # fmt: skip
    chosen = _chosen(attempts, request.attempt, name)
    if chosen is None:
        return found
    result: dict[str, Any] = chosen.result or {}
    found.attempt, found.outcome, found.exit_code = chosen.attempt, chosen.outcome, chosen.exit_code
    found.node, found.error = chosen.node, _error(task, chosen)
    found.output, found.output_cut = r.bounded(result.get("output"))
    found.stdout, more_out = _tail(result, "stdout", request.tail)
    found.stderr, more_err = _tail(result, "stderr", request.tail)
    found.cut = more_out or more_err
    return found


def _chosen(attempts: list[AttemptInfo], number: int | None, task: str) -> AttemptInfo | None:
    if number is None:
        return attempts[-1] if attempts else None
    found = next((one for one in attempts if one.attempt == number), None)
    if found is None:
        raise NotFound(f"{task} has no attempt {number}; it has had {len(attempts)}")
    return found


def _error(task: TaskInfo, attempt: AttemptInfo | None) -> str | None:
    text = None if attempt is None else attempt.error
    return r.shortened(text or (None if task.state == "succeeded" else task.reason), ERROR_MAX)


def _note(task: TaskInfo) -> str | None:
    if task.elements is not None:
        return f"a mapped task: its elements are {task.name}.0 to {task.name}.{task.elements - 1}"
    if task.child is not None:
        return f"it runs a workflow: get_workflow_status of {task.child} says more"
    return None if _ended(task) else "it has not ended; explain_task says what it waits for"


def _tail(result: dict[str, Any], stream: str, most: int) -> tuple[str, bool]:
    text = str(result.get(stream) or "")
    cut = bool(result.get(f"{stream}Truncated"))
    return (text, cut) if len(text) <= most else (text[len(text) - most :], True)


class StreamTaskOutputArguments(a.Arguments):
    run: RunRef
    task: a.OnlyTask = None
    attempt: Attempt | None = None
    stream: Literal["stdout", "stderr"] = "stdout"
    offset: Annotated[
        int, Meta(ge=-(2**53), le=2**53, description="From this byte: `next` of before; below 0: before the end")
    ] = 0
    limit: Annotated[int, Meta(ge=16, le=TEXT_MAX, description="At most so many bytes")] = 16 * 1024
    wait_s: Annotated[float, Meta(ge=0, le=a.WAIT_MAX_S, description="Go on for so many seconds while it runs")] = 0


@tools(role="viewer", scope="run")
async def stream_task_output(context: RequestContext, request: StreamTaskOutputArguments) -> r.TaskOutput:
    """What a task prints, from a byte on, also while it runs. With wait_s it follows the task until `limit`, its end
    or the time is reached, and tells each piece as progress when it comes. Go on with offset = next until `ended`."""
    loop = asyncio.get_running_loop()
    until = loop.time() + request.wait_s
    task = await context.read(lambda: named(context.connection, request.run, request.task))
    attempt = request.attempt or await _first_attempt(context, request, task)
    reading = Reading(request, task, attempt)
    pause = PAUSE_S
    while True:
        shown = reading.take(await context.read(lambda: reading.read(context.connection)))
        if shown:
            await context.progress(reading.at, shown)
            pause = PAUSE_S
        if reading.full or reading.over:
            break
        if not reading.moved:
            left = until - loop.time()
            if left <= 0 or not await context.pause(min(pause, left)):
                break
            pause = min(pause * 1.5, PAUSE_MAX_S)
    now = await context.read(lambda: context.connection.task(request.run, task))
    return reading.shown(now.run_id, now.state)


async def _first_attempt(context: RequestContext, request: StreamTaskOutputArguments, task: str) -> int:
    """The last one there is. A task that has not begun is waited for, too."""
    found = await context.until(
        request.wait_s, lambda: context.connection.task(request.run, task), lambda one: one.attempt > 0 or _ended(one)
    )
    if found.attempt == 0:
        fix = "wait with wait_s; explain_task says what it waits for"
        raise ApiError("not_started", f"{task} is {found.state}: it has printed nothing yet", fix)
    return found.attempt


class Reading:
    """One stretch of a stream: bytes as they come, and the text of those that are whole characters."""

    def __init__(self, request: StreamTaskOutputArguments, task: str, attempt: int) -> None:
        self._given = request
        self._task = task
        self._attempt = attempt
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._data = b""
        self._begin: int | None = None  # where the first byte stands
        self._size = 0
        self._gap = False
        self._asked = request.offset
        self.at = request.offset  # where to go on
        self.moved = False  # by the last part
        self.full = False
        self.over = False  # the attempt is, and all of it has been read

    def read(self, connection: Connection) -> OutputPart:
        room = self._given.limit - len(self._data)
        offset = self._asked if self._begin is None else self.at
        return connection.read_output(
            self._given.run, self._task, self._attempt, self._given.stream, offset=offset, limit=max(room, 1)
        )

    def take(self, part: OutputPart) -> str:
        """The text that has become known by this part; it may be none although some bytes of a character came."""
        if self._begin is None and (part.data or part.ended or self._asked >= 0):
            part = part if self._asked >= 0 else _whole(part)
            self._begin = self.at = part.offset
        self._size = part.size
        data = part.data[: self._given.limit - len(self._data)] if part.offset == self.at else b""
        self.moved = bool(data)
        self._data += data
        self.at += len(data)
        # What comes next was cut out of the middle: the next call begins behind the gap.
        self._gap = bool(part.data) and part.offset != self.at - len(data)
        self.full = self._gap or len(self._data) >= self._given.limit
        self.over = part.ended and (not part.data or self.at >= part.size)
        return self._decoder.decode(data)

    def shown(self, run: str, state: str) -> r.TaskOutput:
        # The beginning of a character waits for its end, if that may come.
        pending = b"" if self.over or self._gap else self._decoder.getstate()[0]
        data = self._data[: len(self._data) - len(pending)]
        text = data.decode(errors="replace")
        begin = self._begin or 0
        next_ = begin + len(data)
        return r.TaskOutput(
            run=run, task=self._task, attempt=self._attempt, stream=self._given.stream, state=state, text=text,
            offset=begin, next=next_, size=max(self._size, next_), ended=self.over and not pending,
            skipped=max(0, begin - self._asked) if self._asked >= 0 else 0,
            lossy=text.encode() != data,
        )  # fmt: skip


def _whole(part: OutputPart) -> OutputPart:
    """Without the end of a character whose beginning lies before it."""
    cut = 0
    while cut < min(LOST_CHARACTER, len(part.data)) and part.data[cut] & 0xC0 == 0x80:
        cut += 1
    return OutputPart(
        data=part.data[cut:], offset=part.offset + cut, next=part.next, size=part.size, ended=part.ended
    )
