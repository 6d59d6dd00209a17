"""The few lines at the bottom of a terminal that are drawn again and again. Everything else scrolls by above them.

One write per change, no line longer than the window, and the cursor is back when it closes, however that comes.
"""

from collections.abc import Callable

from weft.cli.terminal.terminal import Terminal

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"


class LiveArea:
    """`write` gets what the terminal shall get. Lines must fit the window; LiveView sees to that."""

    def __init__(self, terminal: Terminal, write: Callable[[bytes], None]) -> None:
        self._terminal = terminal
        self._write = write
        self.lines: list[str] = []
        self.widths: list[int] = []
        self._columns = 0
        self._hidden = False

    def draw(self, lines: list[str], widths: list[int], above: bytes = b"") -> None:
        """`widths` are the columns that the lines take; `above` are lines that stay: the area moves down."""
        if not above and lines == self.lines and self._columns == self._terminal.size()[0]:
            return
        self._write(self.encoded(self._up()) + above + self.encoded(self._drawn(lines, widths)))

    def clear(self) -> None:
        """Take it away for a moment: something else writes to the terminal."""
        text = self._up()
        self.lines, self.widths = [], []
        if text:
            self._write(self.encoded(text))

    def close(self) -> None:
        """Take it away for good."""
        text = self._up()
        self.lines, self.widths = [], []
        if self._hidden:
            self._hidden = False
            text += _SHOW
        if text:
            self._write(self.encoded(text))

    def _drawn(self, lines: list[str], widths: list[int]) -> str:
        self.lines, self.widths = lines, widths
        self._columns = self._terminal.size()[0]
        hide = "" if self._hidden or not lines else _HIDE
        self._hidden = self._hidden or bool(lines)
        return hide + "".join(line + "\n" for line in lines)

    def _up(self) -> str:
        """To the area's first column, everything below erased. A window that became narrower has wrapped lines."""
        if not self.lines:
            return ""
        columns = max(1, self._terminal.size()[0])
        rows = sum(max(1, -(-width // columns)) for width in self.widths)
        return f"\x1b[{rows}A\r\x1b[J"

    def encoded(self, text: str) -> bytes:
        return self._terminal.encoded(text).encode(self._terminal.stream.encoding or "ascii", "replace")
