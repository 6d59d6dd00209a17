"""A list that draws only the lines that are seen: ten thousand rows cost what thirty do.

Textual's DataTable measures and keeps every cell: it took 4.3 s of processor time to be filled with as many, and
100 ms for a page down; this takes 13 ms and 23 ms (docs/adr/0048). Rows are any objects; `cells` says how one looks.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from weft.cli.terminal.terminal import cut, padded, width_of
from weft.tui.looks import BOLD, PLAIN, Cell

FLEXIBLE_MIN = 16
WIDE = 100
REVERSE = Style(reverse=True)


class Column(NamedTuple):
    title: str
    width: int  # 0: it gets what the others leave
    keep: int = 0  # where it is narrow, the columns with the highest go first
    right: bool = False
    wide: int = 0  # its width where there is room


class LineTable(ScrollView, can_focus=True):
    DEFAULT_CSS = "LineTable { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }"

    class Moved(Message):
        """Another row is selected, or none."""

    def __init__(
        self,
        columns: Sequence[Column],
        cells: Callable[[Any], Sequence[Cell]],
        key: Callable[[Any], Hashable],
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.columns = columns
        self.empty = ""  # what stands there when there is no row
        self._cells = cells
        self._key = key
        self._rows: Sequence[Any] = ()
        self._widths: list[tuple[int, int]] = []  # (column, width) of those that fit
        self.cursor = 0

    # Rows

    @property
    def rows(self) -> Sequence[Any]:
        return self._rows

    @property
    def row(self) -> Any:
        """The one that is selected; None if there is none."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def put(self, rows: Sequence[Any], *, searched: bool = False) -> None:
        """Other rows. The selection stays on what it was on, if that is still there; else where it was, or on the
        first row that was searched for."""
        before = None if self.row is None else self._key(self.row)
        self._rows = rows
        at = min(self.cursor, max(0, len(rows) - 1))
        gone = 0 if searched else at
        if before is not None and rows and self._key(rows[at]) != before:
            at = next((n for n, row in enumerate(rows) if self._key(row) == before), gone)
        self.virtual_size = Size(self.size.width, len(rows) + 1)
        self.cursor = at
        self._show_cursor()
        self.refresh()
        if (None if self.row is None else self._key(self.row)) != before:
            self.post_message(self.Moved())

    def select(self, key: Hashable) -> None:
        self._move(next((n for n, row in enumerate(self._rows) if self._key(row) == key), self.cursor))

    def _move(self, to: int) -> None:
        to = max(0, min(to, len(self._rows) - 1))
        if to == self.cursor:
            return
        top = round(self.scroll_y)
        lines = (self.cursor + 1 - top, to + 1 - top)
        self.cursor = to
        self._show_cursor()
        if round(self.scroll_y) == top:  # what scrolls is drawn anew by itself
            self.refresh(*(Region(0, line, self.size.width, 1) for line in lines))
        self.post_message(self.Moved())

    def _show_cursor(self) -> None:
        if self.size.height > 1:
            # The head stands on the first line whatever is scrolled: the row above has to be in the region, too.
            self.scroll_to_region(Region(0, self.cursor, 1, 2), animate=False, immediate=True)

    # Keys

    def on_key(self, event: events.Key) -> None:
        page = max(1, self.size.height - 2)
        moves = {
            "up": self.cursor - 1, "down": self.cursor + 1, "pageup": self.cursor - page,
            "pagedown": self.cursor + page, "home": 0, "end": len(self._rows) - 1,
        }  # fmt: skip
        if event.key in moves:
            event.stop()
            event.prevent_default()
            self._move(moves[event.key])

    def on_click(self, event: events.Click) -> None:
        if event.y > 0:
            self._move(round(self.scroll_y) + event.y - 1)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_resize(self) -> None:
        self._widths = []
        self.virtual_size = Size(self.size.width, len(self._rows) + 1)
        self._show_cursor()
        self.refresh()

    # Drawing

    def _layout(self) -> list[tuple[int, int]]:
        """Which columns fit, and how wide they are."""
        if not self._widths:
            roomy = self.size.width >= WIDE
            widths = [column.wide if roomy and column.wide else column.width for column in self.columns]
            shown = list(range(len(widths)))
            while len(shown) > 1 and self._left(shown, widths) < FLEXIBLE_MIN:
                shown.remove(max(shown, key=lambda n: self.columns[n].keep))
            left = self._left(shown, widths)
            self._widths = [(n, widths[n] or max(1, left)) for n in shown]
        return self._widths

    def _left(self, shown: list[int], widths: list[int]) -> int:
        return self.size.width - len(shown) + 1 - sum(widths[n] for n in shown)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            heads = [(column.title, BOLD) for column in self.columns]
            return Strip(self._segments(heads, BOLD), width).adjust_cell_length(width)
        at = round(self.scroll_y) + y - 1
        if at >= len(self._rows):
            text = self.empty if not self._rows and y == 1 else ""
            return Strip([Segment(padded(cut(text, width), width))], width)
        selected = REVERSE if self.has_focus else BOLD
        style = selected if at == self.cursor else PLAIN
        return Strip(self._segments(self._cells(self._rows[at]), style), width).adjust_cell_length(width, style)

    def _segments(self, cells: Sequence[Cell], style: Style) -> list[Segment]:
        out: list[Segment] = []
        for column, width in self._layout():
            text, own = cells[column]
            text = cut(text, width)
            space = " " * (width - width_of(text))
            out.append(Segment(space + text if self.columns[column].right else text + space, own + style))
            out.append(Segment(" ", style))
        return out[:-1]
