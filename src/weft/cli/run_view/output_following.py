"""The output of attempts while it grows: read a piece at a time, bounded, handed on in order."""

import time
from collections.abc import Callable

from weft.executors.output import StreamName
from weft.operations.reading.output.attempts import AttemptOutput, Then
from weft.store.shipment import CHUNK_MAX as CHUNK

BYTES_AT_A_TIME = 4 * 1024 * 1024
LOOK_AGAIN_S = 0.5  # at output that comes by way of a store: its nodes send twice a second
STREAMS: tuple[StreamName, ...] = ("stdout", "stderr")

#: (task, stream, bytes)
Take = Callable[[str, StreamName, bytes], None]
#: The output of (task, attempt, stream), and the session that ran it, where that is known.
Open = Callable[[str, int, StreamName, str | None], AttemptOutput]


class Following:
    """One stream: read from where the last read ended. What was cut out of its middle is left out here, too, and
    counted."""

    def __init__(self, output: AttemptOutput) -> None:
        self._output = output
        self._at = 0
        self._look_at = 0.0
        self._pushed = False
        self.missing = 0
        self.then: Then = "more"
        self.node: str | None = None

    def read(self) -> bytes:
        if self.then in ("running", "sending") and not self._pushed and time.monotonic() < self._look_at:
            return b""
        piece = self._output.read(self._at)
        self.missing += piece.at - self._at
        self._at = piece.next
        self.then, self.node, self._pushed = piece.then, piece.node, piece.pushed
        self._look_at = time.monotonic() + LOOK_AGAIN_S
        return piece.data

    def over(self) -> None:
        """Its attempt has ended: look now."""
        self._look_at = 0.0
        self._output.over()

    def close(self) -> None:
        self._output.close()


class Streams:
    """Follows attempts of one run. An attempt that ended is read to its end, then closed."""

    def __init__(self, open: Open, take: Take, only: StreamName | None = None) -> None:
        self._opener = open
        self._take = take
        self._names = STREAMS if only is None else (only,)
        self._open: dict[tuple[str, int], list[tuple[StreamName, Following]]] = {}
        self._ending: dict[tuple[str, int], None] = {}
        self.ended: Callable[[str], None] = lambda task: None  # called when all of an attempt's output was handed on

    def begin(self, task: str, attempt: int, session: str | None = None) -> None:
        if (task, attempt) not in self._open:
            self._open[task, attempt] = [
                (name, Following(self._opener(task, attempt, name, session))) for name in self._names
            ]

    def end(self, task: str, attempt: int, session: str | None = None) -> None:
        self.begin(task, attempt, session)
        self._ending[task, attempt] = None
        for _, following in self._open[task, attempt]:
            following.over()

    @property
    def busy(self) -> bool:
        """Some attempt has ended and not all of its output was handed on."""
        return bool(self._ending)

    @property
    def waiting(self) -> bool:
        """All that is left to hand on is still being sent by nodes."""
        return bool(self._ending) and all(self._sending(key) for key in self._ending)

    def _sending(self, key: tuple[str, int]) -> bool:
        return any(following.then == "sending" for _, following in self._open[key])

    def poll(self) -> bool:
        """Hand on what is new; True if there may be more at once."""
        left = BYTES_AT_A_TIME
        for key in list(self._open):
            for name, following in self._open[key]:
                while left > 0 and (data := following.read()):
                    left -= len(data)
                    self._take(key[0], name, data)
            if left <= 0:
                return True
            if key in self._ending and not self._sending(key):
                self._finish(key)
        return False

    def give_up(self) -> None:
        """Wait no longer for what nodes are still sending."""
        for key in [key for key in self._ending if self._sending(key)]:
            self._finish(key)

    def _finish(self, key: tuple[str, int]) -> None:
        task = key[0]
        parts = [following for _, following in self._open.pop(key)]
        del self._ending[key]
        for following in parts:
            following.close()
        self.ended(task)
        missing = sum(following.missing for following in parts)
        if missing:
            self._note(task, f"{missing:,} bytes of {task} were not kept")
        node = next((f"its node ({f.node})" for f in parts if f.node), "its node")
        if any(following.then == "lost" for following in parts):
            self._note(task, f"if {task} wrote more than this, it was lost with {node}")
        elif any(following.then == "away" for following in parts):
            self._note(task, f"no node that answers has the rest of {task}: it is on {node}, or on one with a copy")
        elif any(following.then == "sending" for following in parts):
            self._note(task, f"more of {task} is on its way from {node}")

    def _note(self, task: str, text: str) -> None:
        self._take(task, "stderr", f"\n[weft: {text}]\n".encode())

    def close(self) -> None:
        for parts in self._open.values():
            for _, following in parts:
                following.close()
        self._open.clear()
        self._ending.clear()


class TailFilter:
    """Of what is there already, the last lines of each stream; everything that comes after `release`."""

    def __init__(self, take: Take, lines: int) -> None:
        self._take = take
        self._lines = lines
        self._kept: dict[tuple[str, StreamName], bytes] = {}
        self._cutting = True

    def take(self, task: str, stream: StreamName, data: bytes) -> None:
        if not self._cutting:
            self._take(task, stream, data)
            return
        kept = self._kept.get((task, stream), b"") + data
        self._kept[task, stream] = kept if len(kept) < 2 * CHUNK else self._cut(kept)

    def ended(self, task: str) -> None:
        for stream in STREAMS:
            self._hand_on(task, stream)

    def release(self) -> None:
        self._cutting = False
        for task, stream in list(self._kept):
            self._hand_on(task, stream)

    def _hand_on(self, task: str, stream: StreamName) -> None:
        kept = self._cut(self._kept.pop((task, stream), b""))
        if kept:
            self._take(task, stream, kept)

    def _cut(self, data: bytes) -> bytes:
        at = len(data) - 1 if data.endswith(b"\n") else len(data)
        for _ in range(self._lines):
            at = data.rfind(b"\n", 0, at)
            if at < 0:
                return data
        return data[at + 1 :] if self._lines else b""


class Prefixer:
    """Whole lines only, each headed by its task's name: for output of several tasks at once."""

    def __init__(self, write: Callable[[StreamName, bytes], None], prefix: Callable[[str], bytes]) -> None:
        self._write = write
        self._prefix = prefix
        self._partial: dict[tuple[str, StreamName], bytes] = {}

    def take(self, task: str, stream: StreamName, data: bytes) -> None:
        data = self._partial.pop((task, stream), b"") + data
        lines, newline, rest = data.rpartition(b"\n")
        if len(rest) > CHUNK:  # a line without end: memory is bounded
            lines, newline, rest = data, b"\n", b""
        if rest:
            self._partial[task, stream] = rest
        if newline:
            head = self._prefix(task)
            self._write(stream, b"".join(head + line + b"\n" for line in lines.split(b"\n")))

    def ended(self, task: str) -> None:
        for name in STREAMS:
            if (task, name) in self._partial:
                self.take(task, name, b"\n")
