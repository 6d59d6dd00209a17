"""What an attempt prints: the tail first, then as it comes; what stands before is read when it is scrolled to.

Memory is bounded: `KEPT_MAX` bytes of text are kept, of any amount of output.
"""

import codecs
from typing import Final

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from weft.cli.terminal.terminal import width_of
from weft.operations.replies import OutputPart
from weft.tui.ansi_text import LINE_MAX, segments_of
from weft.tui.looks import DIM, REVERSE

TAIL: Final = 64 * 1024
KEPT_MAX: Final = 4 * 1024 * 1024
SCROLL_COLUMNS: Final = 8


class OutputView(ScrollView, can_focus=True):
    DEFAULT_CSS = "OutputView { height: 1fr; min-height: 3; scrollbar-size: 1 1; overflow-x: hidden; }"

    def __init__(self) -> None:
        super().__init__(id="output")
        self.follow = True
        self.note = ""  # what stands there instead of output
        self.wanted = ""  # what is searched for
        self.clear()

    def clear(self) -> None:
        self.lines: list[str] = []
        self.first = 0  # where the text that is kept begins, in bytes
        self.next: int | None = None  # where to read on; None: nothing was read yet
        self.size_known = 0
        self.ended = False
        self.found: int | None = None  # the line of the match that is shown
        self.apart = False  # what is kept is not the end: more is read only where it is scrolled to
        self._open = ""  # the last line, which has no end yet
        self._bytes = 0
        self._left = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._measure()

    def feed(self, part: OutputPart) -> None:
        """The next bytes. The first piece of a tail begins within a line, which is left out."""
        text = self._decoder.decode(part.data)
        if self.next is None:
            self.first = part.offset
            if part.offset > 0:
                head, newline, rest = text.partition("\n")
                if newline:
                    self.first += len(head.encode()) + 1
                    text = rest
        elif part.offset > self.next:
            text = f"\n[{part.offset - self.next:,} bytes were not kept]\n{text}"
        self.next, self.size_known, self.ended = part.next, part.size, part.ended
        *whole, self._open = (self._open + text).split("\n")
        if len(self._open) > LINE_MAX * 4:
            whole.append(self._open)
            self._open = ""
        self.lines += whole
        self._bytes += len(text)
        self._drop()
        self._measure()

    def _drop(self) -> None:
        """The oldest, when too much is kept."""
        at = 0
        while self._bytes > KEPT_MAX and at < len(self.lines):
            self._bytes -= len(self.lines[at]) + 1
            self.first += len(self.lines[at].encode()) + 1
            at += 1
        del self.lines[:at]
        if self.found is not None:
            self.found = self.found - at if self.found >= at else None

    @property
    def earlier(self) -> tuple[int, int] | None:
        """(offset, length) of what stands before, if it is to be read: the view is at its top, and there is room."""
        if self.first <= 0 or self.follow or self.scroll_y > 0 or self._bytes >= KEPT_MAX // 2:
            return None
        begin = max(0, self.first - TAIL)
        return begin, self.first - begin

    def put_before(self, part: OutputPart) -> None:
        text = part.data.decode("utf-8", "replace").removesuffix("\n")
        lines = text.split("\n")
        self.first = part.offset
        if part.offset > 0 and len(lines) > 1:
            self.first += len(lines.pop(0).encode()) + 1
        self.lines[:0] = lines
        self.found = None if self.found is None else self.found + len(lines)
        self._bytes += len(text)
        self._measure()
        self.scroll_to(y=len(lines), animate=False, immediate=True)

    def show_around(self, part: OutputPart, line_offset: int) -> None:
        """A part from elsewhere instead of what is kept, with the line that begins there in the middle."""
        wanted = self.wanted
        self.clear()
        self.wanted, self.follow, self.apart = wanted, False, True
        self.feed(part)
        self.found = part.data[self.first - part.offset : line_offset - part.offset].count(b"\n")
        self.scroll_to(y=max(0, self.found - self.size.height // 2), animate=False, immediate=True)

    @property
    def wants_more(self) -> bool:
        """What follows is to be read."""
        return not self.apart or self.max_scroll_y - self.scroll_y <= self.size.height

    def look_for(self, text: str) -> bool:
        """The last line with it, in capitals or not; False: it is in none that is kept."""
        self.wanted, self.found = text.lower(), None
        self.refresh()
        return not text or self.go_to_match(-1)

    def go_to_match(self, by: int) -> bool:
        lines = [*self.lines, self._open]
        at = len(lines) if self.found is None else self.found
        at += by
        while 0 <= at < len(lines) and self.wanted not in lines[at].lower():
            at += by
        if not 0 <= at < len(lines):
            return False
        self.found, self.follow = at, False
        self.scroll_to(y=max(0, at - self.size.height // 2), animate=False, immediate=True)
        self.refresh()
        return True

    def _measure(self) -> None:
        self.virtual_size = Size(self.size.width, max(1, len(self.lines) + bool(self._open)))
        if self.follow:
            self.scroll_end(animate=False, immediate=True)
            self.call_after_refresh(self._stay_at_end)  # before it is laid out, the view does not know its height
        self.refresh()

    def _stay_at_end(self) -> None:
        if self.follow:
            self.scroll_end(animate=False, immediate=True)

    def on_resize(self) -> None:
        self._measure()

    def on_key(self, event: events.Key) -> None:
        page = max(1, self.size.height - 1)
        y = round(self.scroll_y)
        moves = {"up": y - 1, "down": y + 1, "pageup": y - page, "pagedown": y + page, "home": 0}
        if event.key in moves:
            self.scroll_to(y=moves[event.key], animate=False, immediate=True)
            self.follow = event.key in ("down", "pagedown") and moves[event.key] >= self.max_scroll_y
        elif event.key == "end":
            self.follow = True
            self.scroll_end(animate=False, immediate=True)
        elif event.key in ("left", "right"):
            self._left = max(0, self._left + (SCROLL_COLUMNS if event.key == "right" else -SCROLL_COLUMNS))
            self.refresh()
        else:
            return
        event.stop()
        event.prevent_default()

    def on_mouse_scroll_up(self) -> None:
        self.follow = False

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        at = round(self.scroll_y) + y
        if not self.lines and not self._open:
            text = self.note if y == 0 else ""
            return Strip([Segment(text, DIM)]).adjust_cell_length(width)
        if at < len(self.lines):
            line = self.lines[at]
        elif at == len(self.lines):
            line = self._open
        else:
            return Strip.blank(width)
        strip = Strip(segments_of(line))
        if at == self.found:
            strip = strip.apply_style(REVERSE)
        if self._left:
            strip = strip.crop(self._left, max(self._left, width_of(line) * 2 + width))
        return strip.adjust_cell_length(width)
