"""Output of tasks made safe for the terminal: colours stay, everything else that would steer it is left out.

Only SGR sequences (`ESC [ … m`) are understood. Those that move the cursor, set titles, ask the terminal something or
open links are dropped whole; other control characters, and those that turn the direction of text, become a sign.
"""

import re
from functools import lru_cache
from typing import Final

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

_SGR: Final = re.compile(r"\x1b\[([0-9;:]*)m")
_ESCAPE: Final = re.compile(
    r"\x1b\[(?![0-9;:]*m)[0-?]*[ -/]*[@-~]?"  # CSI but SGR
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS and other strings, to their end or the line's
    r"|\x1b(?:[^\[\]PX^_]|$)|\x9b[0-?]*[ -/]*[@-~]?"
)
LINE_MAX: Final = 4096  # characters of one line that are shown
TAB: Final = 8
_ON: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF: Final = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}


@lru_cache(4096)
def segments_of(line: str) -> tuple[Segment, ...]:
    """One line without its newline, as it is drawn. What a carriage return overwrote is not shown."""
    line = line.rstrip("\r").rpartition("\r")[2]
    more = len(line) > LINE_MAX
    line = _ESCAPE.sub("", line[: LINE_MAX * 2])
    parts = _SGR.split(line)
    out, style, length = [], _Sgr(), 0
    for at, part in enumerate(parts):
        if at % 2:
            style.apply(part)
            continue
        text = _safe(part[: LINE_MAX - length], length)
        length += len(text)
        if text:
            out.append(Segment(text, style.style()))
    if more:
        out.append(Segment("…", Style(dim=True)))
    return tuple(out)


def _safe(text: str, column: int) -> str:
    if text.isprintable():
        return text
    out: list[str] = []
    for char in text:
        if char == "\t":
            out.append(" " * (TAB - (column + len(out)) % TAB))
        elif char.isprintable():
            out.append(char)
        else:
            out.append("\ufffd")
    return "".join(out)


class _Sgr:
    def __init__(self) -> None:
        self._flags: dict[str, bool] = {}
        self._color: str | Color | None = None
        self._background: str | Color | None = None

    def style(self) -> Style | None:
        if not self._flags and self._color is None and self._background is None:
            return None
        return Style(color=self._color, bgcolor=self._background, **self._flags)  # type: ignore[arg-type]

    def apply(self, parameters: str) -> None:
        codes = [int(code) if code.isdecimal() and len(code) < 4 else 0 for code in re.split("[;:]", parameters)]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.__init__()  # type: ignore[misc]
            elif code in _ON:
                self._flags[_ON[code]] = True
            elif code in _OFF:
                for name in _OFF[code]:
                    self._flags.pop(name, None)
            elif code in (38, 48):
                self._extended(code, codes)
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self._color = Color.from_ansi(code - 30 if code < 90 else code - 82)
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self._background = Color.from_ansi(code - 40 if code < 100 else code - 92)
            elif code == 39:
                self._color = None
            elif code == 49:
                self._background = None

    def _extended(self, code: int, codes: list[int]) -> None:
        found: Color | None = None
        if codes[:1] == [5] and len(codes) > 1:
            found = Color.from_ansi(min(255, codes[1]))
            del codes[:2]
        elif codes[:1] == [2] and len(codes) > 3:
            found = Color.from_rgb(*(min(255, value) for value in codes[1:4]))
            del codes[:4]
        if code == 38:
            self._color = found
        else:
            self._background = found
