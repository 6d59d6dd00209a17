"""The live view of a run: a progress bar, the counts, what runs now and for how long; what ended scrolls by above."""

from collections.abc import Sequence

from weft.cli.run_view.live_area import LiveArea
from weft.cli.run_view.output_sink import Sink
from weft.cli.run_view.summary import Summary, summary_lines
from weft.cli.run_view.text_views import ERR, OUT, Tails, change_text
from weft.cli.run_view.tracker import Change, Running
from weft.cli.terminal.formats import duration
from weft.cli.terminal.terminal import STATE_LOOKS, Terminal, cut, padded, width_of
from weft.core.workflow import Workflow
from weft.executors.output import StreamName
from weft.operations.replies import EventInfo, RunInfo

SMALL_RUN = 200  # up to so many tasks, each success gets a line of its own
BAR_MIN, BAR_MAX = 6, 40
NAME_WIDTH_MAX = 24
PENDING_MAX = 8192  # bytes that a terminal may lag behind
ABOVE_MAX = 65_536  # bytes that wait for the next picture

#: A line in pieces: (text, style or None).
Pieces = Sequence[tuple[str, str | None]]


class LiveView:
    paced = True

    def __init__(
        self, terminal: Terminal, sink: Sink, tails: Tails, workflow: Workflow, *, output_here: bool
    ) -> None:
        """`output_here`: standard output is this terminal too, so tasks' output goes above the live area."""
        self._terminal = terminal
        self._sink = sink
        self._tails = tails
        self._small = len(workflow.tasks) <= SMALL_RUN
        self._name_width = min(NAME_WIDTH_MAX, max((width_of(task.name) for task in workflow.tasks), default=0))
        self._output_here = output_here
        self._area = LiveArea(terminal, lambda data: sink.put(ERR, data))
        self._partial: dict[StreamName, bytes] = {}
        self._above: list[tuple[int, bytes]] = []  # not yet written
        self._outdated = False  # the picture shows tasks as running whose ends are in `_above`

    def begin(self, run: RunInfo) -> None:
        terminal = self._terminal
        self._print(f"{terminal.sign('run')} {terminal.paint(run.name, 'bold')}  {terminal.paint(run.id, 'dim')}")

    def show(self, events: list[EventInfo], changes: list[Change]) -> None:
        """Changes wait for the next picture: above this one, a task would be seen both ended and running."""
        columns = self._terminal.size()[0]
        more = self._terminal.sign("more")
        for change in changes:
            if change.state == "running" or (change.state == "succeeded" and not self._small):
                continue
            lines = [self._change_line(change, columns - 1)]
            bar = self._terminal.paint(self._terminal.sign("bar"), "dim")
            lines += [f"  {bar} {cut(line, columns - 5, more)}" for line in self._tails.of(change)]
            self._outdated = bool(self._area.lines)
            self._print("\n".join(lines))

    def _change_line(self, change: Change, width: int) -> str:
        name = change.title if change.count == 1 else f"{change.count:,} tasks: {change.task}"
        style = STATE_LOOKS.get(change.state, ("wait", "dim"))[1]
        sign = self._terminal.state(change.state)
        name = cut(name, width - 2, self._terminal.sign("more"))
        if width > 2 * self._name_width:
            name = padded(name, self._name_width)
        text = cut(f"  {change_text(change)}", width - 2 - width_of(name), self._terminal.sign("more"))
        return f"{sign} {name}{self._terminal.paint(text, style)}"

    def tick(self, run: RunInfo, running: dict[str, Running], now: int) -> None:
        if self._sink.pending > PENDING_MAX and not self._above:
            return  # the terminal does not keep up: the next picture will be a newer one
        columns, rows = self._terminal.size()
        lines = [*self._running_lines(running, now, max(1, rows - 4)), self._bar(run, running, now, columns - 1)]
        fitted = [self._fit(line, columns - 1) for line in lines]
        self._draw([text for text, _ in fitted], [width for _, width in fitted])

    def note(self, text: str) -> None:
        self._print(text)
        if self._outdated:  # a note does not wait: the next picture may be far away
            self._draw([], [])

    def output(self, stream: StreamName, data: bytes) -> None:
        fd = OUT if stream == "stdout" else ERR
        if fd == OUT and not self._output_here:
            self._sink.put(OUT, data)
            return
        # Only whole lines can stand above the live area; the rest waits for its newline.
        data = self._partial.pop(stream, b"") + data
        lines, newline, rest = data.rpartition(b"\n")
        if len(rest) > 65_536:
            lines, newline, rest = data, b"\n", b""
        if rest:
            self._partial[stream] = rest
        if newline:
            self._put_above(fd, lines + b"\n")

    def output_ended(self) -> None:
        for stream in list(self._partial):
            self.output(stream, b"\n")

    def end(self, summary: Summary) -> None:
        self.output_ended()
        self.close()
        for line in summary_lines(summary, self._terminal):
            self._print(line)

    def close(self) -> None:
        self._draw([], [])
        self._area.close()

    def _print(self, text: str) -> None:
        self._put_above(ERR, self._area.encoded(text + "\n"))

    def _put_above(self, fd: int, data: bytes) -> None:
        self._above.append((fd, data))
        if not self._outdated:
            self._draw(self._area.lines, self._area.widths)
        elif sum(len(data) for _, data in self._above) > ABOVE_MAX:
            self._draw([], [])

    def _draw(self, lines: list[str], widths: list[int]) -> None:
        """What waits, and this picture below it: in one write, unless standard output gets some of it."""
        above, self._above, self._outdated = self._above, [], False
        if any(fd != ERR for fd, _ in above):
            self._area.clear()
            for fd, data in above:
                self._sink.put(fd, data)
            above = []
        self._area.draw(lines, widths, b"".join(data for _, data in above))

    # -- the picture -------------------------------------------------------------------------------------

    def _running_lines(self, running: dict[str, Running], now: int, most: int) -> list[Pieces]:
        """The longest running ones; as many as the window has room for."""
        oldest = sorted(running.values(), key=lambda r: r.since) if len(running) <= 2000 else list(running.values())
        most = min(most, 12)
        shown = oldest if len(oldest) <= most else oldest[: most - 1]
        columns = self._terminal.size()[0]
        name_width = min(max((width_of(r.title) for r in shown), default=0), max(8, columns - 16))
        lines: list[Pieces] = []
        for task in shown:
            name = padded(cut(task.title, name_width, self._terminal.sign("more")), name_width)
            again = f"  attempt {task.attempt}" if task.attempt > 1 else ""
            took = f"  {duration(now - task.since)}"
            sign = f"{self._terminal.sign('run')} "
            lines.append([(sign, "cyan"), (name, None), (took, "cyan"), (again, "yellow")])
        if len(shown) < len(oldest):
            lines.append([(f"  {self._terminal.sign('more')} {len(oldest) - len(shown):,} more running", "dim")])
        return lines

    def _bar(self, run: RunInfo, running: dict[str, Running], now: int, width: int) -> Pieces:
        failed = run.failed + run.dead_letter
        done = run.succeeded + failed + run.cancelled + run.skipped
        elapsed = duration((run.finished_at or now) - (run.started_at or run.created_at))
        must: list[tuple[str, str | None]] = [(f" {done:,}/{run.total:,}", "bold")]
        if failed:
            must.append((f" {failed:,} failed" if width >= 50 else f" {failed:,}{self._terminal.sign('bad')}", "red"))
        queued = max(0, run.active - len(running))
        wishes: list[tuple[int, str, str]] = [
            (len(running), "running", "cyan"), (queued, "queued", "dim"),
            (max(0, run.total - done - run.active), "waiting", "dim"),
            (run.skipped, "skipped", "dim"), (run.cancelled, "cancelled", "yellow"),
        ]  # fmt: skip
        tail = (f"  {elapsed}", None)
        used = sum(len(text) for text, _ in must) + len(tail[0]) + BAR_MIN
        for count, word, style in wishes:
            text = f"  {count:,} {word}"
            if count and used + len(text) + (BAR_MIN if width >= 60 else 0) <= width:
                must.append((text, style))
                used += len(text)
        room = min(BAR_MAX, width - used + BAR_MIN)
        full = int(room * done / run.total) if run.total else room
        color = "red" if failed else "green"
        bar = [(self._terminal.sign("full") * full, color), (self._terminal.sign("empty") * (room - full), "dim")]
        return [*bar, *must, tail]

    def _fit(self, pieces: Pieces, width: int) -> tuple[str, int]:
        out, used = [], 0
        for text, style in pieces:
            text = cut(text, width - used, "")
            used += width_of(text)
            out.append(self._terminal.paint(text, style) if style else text)
        return "".join(out), used
