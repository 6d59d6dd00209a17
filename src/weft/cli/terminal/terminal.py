"""What a stream can show: its width, colours, characters. And text made to fit it.

Nothing here draws by itself; live_area.py does, line lists go through `Terminal.print`.
"""

import os
import unicodedata
from collections.abc import Mapping
from typing import TextIO

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_SIGNS = {
    "ok": ("✓", "+"), "bad": ("✗", "x"), "run": ("▸", ">"), "skip": ("○", "-"), "stop": ("■", "#"),
    "again": ("↻", "~"), "wait": ("·", "."), "more": ("…", "..."), "full": ("━", "="), "empty": ("─", "-"),
    "arrow": ("→", "->"), "bar": ("│", "|"), "times": ("×", "x"), "dot": ("·", "-"),
}  # fmt: skip
_ASCII = str.maketrans(dict(_SIGNS.values()) | {"—": "-", "–": "-", "“": '"', "”": '"'})
STATE_LOOKS = {
    "succeeded": ("ok", "green"), "failed": ("bad", "red"), "dead_letter": ("bad", "red"),
    "held": ("ok", "cyan"), "committed": ("ok", "green"),
    "cancelled": ("stop", "yellow"), "skipped": ("skip", "dim"), "running": ("run", "cyan"),
    "scheduled": ("again", "yellow"), "queued": ("wait", "dim"), "pending": ("wait", "dim"),
    "waiting": ("wait", "yellow"), "lost": ("again", "yellow"), "returned": ("again", "yellow"),
}  # fmt: skip


class Terminal:
    def __init__(self, stream: TextIO, color: str, environ: Mapping[str, str]) -> None:
        self.stream = stream
        self.tty = _is_tty(stream)
        self.can_move = self.tty and environ.get("TERM", "") not in ("dumb", "")
        self.unicode = (getattr(stream, "encoding", "") or "").lower().replace("-", "").replace("_", "") == "utf8"
        self.color = _wants_color(color, environ, self.can_move)
        self._environ = environ

    def size(self) -> tuple[int, int]:
        """(columns, lines). A pipe has no width: a hundred columns then, unless COLUMNS says otherwise."""
        if self.tty:
            try:
                columns, lines = os.get_terminal_size(self.stream.fileno())
                if columns > 0 and lines > 0:
                    return columns, lines
            except (OSError, ValueError):
                pass
        asked = self._environ.get("COLUMNS", "")
        return (int(asked) if asked.isdecimal() and len(asked) < 5 and int(asked) > 0 else 100), 24

    def sign(self, name: str) -> str:
        return _SIGNS[name][0 if self.unicode else 1]

    def paint(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color and text else text

    def state(self, state: str, text: str | None = None) -> str:
        """A state's sign, or a text in its colour."""
        sign, style = STATE_LOOKS.get(state, ("wait", "dim"))
        return self.paint(self.sign(sign) if text is None else text, style)

    def encoded(self, text: str) -> str:
        """The text as this stream can take it: substitutes, never a traceback."""
        if self.unicode:
            return text.encode("utf-8", "replace").decode()
        encoding = getattr(self.stream, "encoding", None) or "ascii"
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)

    def print(self, text: str) -> None:
        self.stream.write(self.encoded(text) + "\n")


def _is_tty(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False  # closed


def _wants_color(color: str, environ: Mapping[str, str], terminal: bool) -> bool:
    if color != "auto":
        return color == "always"
    if environ.get("NO_COLOR"):
        return False
    return terminal or environ.get("FORCE_COLOR", "") not in ("", "0")


def char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def width_of(text: str) -> int:
    """Columns that a text without escape sequences takes."""
    return len(text) if text.isascii() else sum(map(char_width, text))


def cut(text: str, width: int, more: str = "…") -> str:
    """The text, or as much of it as fits with a mark that there was more."""
    if width_of(text) <= width:
        return text
    room = width - width_of(more)
    if room < 0:
        return more[: max(0, width)]
    out, used = [], 0
    for char in text:
        used += char_width(char)
        if used > room:
            break
        out.append(char)
    return "".join(out) + more


def padded(text: str, width: int) -> str:
    return text + " " * max(0, width - width_of(text))


def printable(text: str) -> str:
    """Output of a task, made harmless: what would move the cursor or change colours is left out."""
    return "".join(c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in _without_escapes(text))


def _without_escapes(text: str) -> str:
    if "\x1b" not in text:
        return text
    import re

    return re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", "", text)
