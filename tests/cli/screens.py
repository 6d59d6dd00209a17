"""A real terminal for tests: `weft` on a pty, and what a person would see there."""

import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte

from .conftest import WEFT, environment

DEADLINE_S = 30.0


class Screen:
    def __init__(self, words: list[str], directory: Path, columns: int, lines: int = 24, **env: str) -> None:
        self.seen = pyte.HistoryScreen(columns, lines, history=2000)
        self._stream = pyte.ByteStream(self.seen)
        self.raw = b""
        self.process = pexpect.spawn(
            WEFT[0], [*WEFT[1:], *words], cwd=str(directory), env=environment(**env), dimensions=(lines, columns)
        )  # fmt: skip

    @property
    def lines(self) -> list[str]:
        """Everything, what scrolled away included."""
        width = range(self.seen.columns)
        above = ["".join(line[x].data for x in width).rstrip() for line in self.seen.history.top]
        return above + [line.rstrip() for line in self.seen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def until(self, condition: Callable[["Screen"], bool]) -> None:
        """Read on until the picture is as wanted."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition(self):
            assert self._read(), f"it ended before that was seen:\n{self.text}"
            assert time.monotonic() < deadline, f"not seen within {DEADLINE_S} s:\n{self.text}"

    def to_the_end(self) -> int:
        while self._read():
            pass
        self.process.close()
        return int(self.process.exitstatus if self.process.exitstatus is not None else -self.process.signalstatus)

    def resize(self, columns: int, lines: int = 24) -> None:
        self.seen.resize(lines, columns)
        self.process.setwinsize(lines, columns)

    def _read(self) -> bool:
        try:
            data = self.process.read_nonblocking(65_536, timeout=0.2)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True
