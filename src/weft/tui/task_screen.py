"""One task: why it is where it is, its attempts, and what the selected attempt prints."""

import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from textual.widget import Widget

from weft.cli.terminal.formats import clock, duration, size, state_word
from weft.cli.terminal.terminal import printable
from weft.client.verbs import Connection
from weft.core.states import TERMINAL
from weft.executors.output import StreamName
from weft.operations.replies import AttemptInfo, Explanation, OutputPart, RunInfo, TaskInfo
from weft.operations.resources.streams import SearchTaskOutputRequest, search_task_output
from weft.operations.resources.tasks import OneTaskRequest, get_task
from weft.tui.graph_lines import line_of
from weft.tui.line_table import Column
from weft.tui.link import TopLink
from weft.tui.live_screen import ERRORS, LiveScreen
from weft.tui.looks import LOOKS, PLAIN, Cell, state_cell
from weft.tui.output_view import TAIL, OutputView
from weft.tui.verbs import RunTask

LIVE_S: Final = 0.3
LOOK_S: Final = 1.0
PIECE: Final = 256 * 1024
ATTEMPT_LINES: Final = 5
MATCHES: Final = 1000  # in a page of a search
PAGES: Final = 100  # of a search: each looks through 256 MiB at the most


class TaskScreen(LiveScreen):
    columns = (
        Column("try", 4, right=True), Column("outcome", 12), Column("node", 0), Column("began", 8, 3),
        Column("took", 7, 2, right=True), Column("exit", 4, 4, right=True), Column("error", 30, 5),
    )  # fmt: skip

    filter_word = "search"

    def __init__(self, link: TopLink, run_id: str, task: str) -> None:
        super().__init__(link)
        self.run_id = run_id
        self.task_name = task
        self.output = self.first_focus = OutputView()
        self.stream: StreamName = "stdout"
        self.title_text = f"{run_id} {task}"
        self._chosen = False  # a person chose the stream
        self._info: TaskInfo | None = None
        self._run_info: RunInfo | None = None
        self._signal: str | None = None
        self._why: Explanation | None = None
        self._looked_at = 0.0
        self._ahead_ms = 0.0
        self._showing: tuple[int, StreamName] | None = None

    def body(self) -> list[Widget]:
        self.table.styles.height = 2
        self.table.empty = " no attempt yet"
        return [self.table, self.output]

    def every_s(self) -> float:
        ended = self._info is not None and self._info.state in TERMINAL and self.output.ended
        return LOOK_S if ended else LIVE_S

    # Staying true

    async def update(self) -> None:
        if time.monotonic() - self._looked_at >= LOOK_S or self._info is None:
            await self._look()
        attempt = self.table.row
        if attempt is None:
            self.output.note = " it has not begun"
            return
        if self._showing != (attempt.attempt, self.stream):
            self._showing = (attempt.attempt, self.stream)
            self.output.clear()
            self.output.follow = True
        await self._read(attempt)

    async def _look(self) -> None:
        def look(connection: Connection) -> tuple[Any, RunInfo, list[Explanation], int, str | None]:
            detail = connection.call(get_task, OneTaskRequest(run=self.run_id, task=self.task_name))
            run = connection.run(self.run_id)
            signal = connection.workflow_of_hash(run.workflow).tasks[detail.task.pos].spec.get("signal")
            return detail, run, connection.why(self.run_id, self.task_name), connection.now(), signal

        detail, self._run_info, why, now, self._signal = await self.link.ask(look)
        self._info = detail.task
        self._ahead_ms = now - time.time() * 1000
        self._why = why[0] if why else None
        last = not self.table.rows or self.table.cursor == len(self.table.rows) - 1
        self.table.styles.height = 1 + max(1, min(ATTEMPT_LINES, len(detail.attempts)))
        self.table.put(detail.attempts)
        if last and detail.attempts:
            self.table.select(self.key_of(detail.attempts[-1]))
        self._looked_at = time.monotonic()

    async def _read(self, attempt: AttemptInfo) -> None:
        view, of = self.output, (self.run_id, self.task_name, attempt.attempt, self.stream)
        before = view.earlier
        if before is not None:
            begin, length = before
            view.put_before(await self.link.ask(lambda c: c.read_output(*of, offset=begin, limit=length)))
            return
        if view.apart and view.follow:
            view.clear()  # to the end again
        if not view.wants_more:
            return
        if view.next is None:
            part = await self.link.ask(lambda c: c.read_output(*of, offset=-TAIL, limit=TAIL))
            if not part.size and not self._chosen and self.stream == "stdout":
                await self._try_stderr(attempt)
        else:
            at = view.next
            part = await self.link.ask(lambda c: c.read_output(*of, offset=at, limit=PIECE))
        if self._showing != (attempt.attempt, of[3]):
            return
        self._take(part)

    def _take(self, part: OutputPart) -> None:
        if part.data or self.output.next is None or part.ended != self.output.ended:
            self.output.feed(part)
        self.output.note = f" nothing on {self.stream}" + ("" if part.ended else " yet")
        if len(part.data) == PIECE:
            self.soon()

    async def _try_stderr(self, attempt: AttemptInfo) -> None:
        """What printed nothing on stdout is shown by what it printed on stderr."""
        of: tuple[str, str, int, StreamName] = (self.run_id, self.task_name, attempt.attempt, "stderr")
        if (await self.link.ask(lambda c: c.read_output(*of, offset=0, limit=1))).size:
            self.stream = "stderr"
            self.soon()

    # What is shown

    def details(self) -> str:
        task = self._info
        if task is None:
            return ""
        shown = f"{self.stream} {size(self.output.size_known)}"
        follows = "" if self.output.ended else " · follows" if self.output.follow else " · stands still"
        why = "" if self._why is None else f" · {self._why.summary}"
        on = f" on {task.node}" if task.node else ""
        return f"{LOOKS[task.state][0]} {state_word(task.state)}{on} · {shown}{follows}{why}"

    def key_of(self, row: AttemptInfo) -> tuple[int, int]:
        return row.generation, row.attempt

    def cells(self, row: AttemptInfo) -> Sequence[Cell]:
        began = row.started_at or row.claimed_at
        end = row.finished_at or int(time.time() * 1000 + self._ahead_ms)
        return (
            (str(row.attempt), PLAIN), state_cell(row.outcome), (printable(row.node or ""), PLAIN),
            ("" if began is None else clock(began), PLAIN),
            ("" if began is None else duration(max(0, end - began)), PLAIN),
            ("" if row.exit_code is None else str(row.exit_code), PLAIN), (printable(row.error or ""), PLAIN),
        )  # fmt: skip

    # Keys

    def subject(self) -> Any:
        if self._info is None or self._run_info is None:
            return None
        return RunTask(self._run_info, line_of(self._info), self._signal)

    def more_keys(self) -> list[tuple[str, str]]:
        other = "stderr" if self.stream == "stdout" else "stdout"
        keys = [("o", other), ("w", "why"), ("home/end", "begin/follow")]
        keys += [("n/N", "earlier/later match")] if self.filter else []
        return [*keys, ("tab", "attempts")] if len(self.table.rows) > 1 else keys

    async def filtered(self) -> None:
        if not self.output.look_for(self.filter):
            self.say("not in the output that is kept here; n looks through all of it")

    async def pressed(self, key: str) -> bool:
        if key in ("n", "N") and self.filter:
            by = -1 if key == "n" else 1
            if not self.output.go_to_match(by):
                self.run_worker(self._find_elsewhere(by), group="find", exclusive=True)
        elif key == "o":
            self.stream = "stderr" if self.stream == "stdout" else "stdout"
            self._chosen = True
            self.soon()
        elif key == "w":
            self.top.explain(self.run_id, self.task_name)
        else:
            return False
        self.draw_frame()
        return True

    async def _find_elsewhere(self, by: int) -> None:
        """The match before or after what is kept, found by the store or the server."""
        attempt, view = self.table.row, self.output
        if attempt is None or view.next is None:
            return
        of, edge = (self.run_id, self.task_name, attempt.attempt, self.stream), view.first if by < 0 else view.next
        request = SearchTaskOutputRequest(
            run=of[0], task=of[1], attempt=of[2], stream=of[3], text=self.filter, ignore_case=True, limit=MATCHES
        )
        self.say("looking through all of it")
        try:
            at = await self.link.ask(lambda connection: match_beyond(connection, request, edge, by))
            if at is None:
                self.say(f"no {'earlier' if by < 0 else 'later'} match in all of it")
                return
            begin = max(0, at - TAIL // 4)
            part = await self.link.ask(lambda connection: connection.read_output(*of, offset=begin, limit=TAIL))
        except ERRORS as problem:
            self.say(str(problem), error=True)
            return
        if self._showing == (of[2], of[3]):
            view.show_around(part, at)
            self.say(f"line at byte {at:,} of {view.size_known:,}")

    def on_line_table_moved(self) -> None:
        self.soon()


def match_beyond(connection: Connection, request: SearchTaskOutputRequest, edge: int, by: int) -> int | None:
    """Where the line of the last match before this byte begins, or of the first from it on; None: there is none."""
    found = None
    for _ in range(PAGES):
        page = connection.call(search_task_output, request)
        for match in page.matches:
            if match.line_offset >= edge:
                return match.line_offset if by > 0 else found
            found = match.line_offset if by < 0 else None
        if page.next is None:
            return found
        request = msgspec.structs.replace(request, cursor=page.next)
    return found
