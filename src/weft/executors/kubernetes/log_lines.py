"""The log of a container as its API gives it: lines that begin with a timestamp. Turns them back into the bytes that
the container printed, and finds the place again when the log is read another time.

A log can be asked for from a second on, not from a byte on. So the timestamp of the last line is kept, how many lines
had exactly that one, and how much of an unfinished line was taken: what comes again is dropped, and nothing else.
"""

import re
from datetime import datetime

_LINE_START = re.compile(rb"\n\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) ")
_STAMP_BYTES_MAX = 40
_SECOND_CHARS = 19  # 2026-01-02T03:04:05


class LogLines:
    __slots__ = (
        "_at", "_complete", "_drop", "_in_line", "_met", "_resumed_at", "_second", "_skip", "_stamp", "_taken",
        "_to_meet", "_to_skip", "gaps", "since",
    )  # fmt: skip

    def __init__(self) -> None:
        # Where the last line stands: its timestamp, the lines before it with the same one, the bytes taken of it.
        self._at = -1
        self._complete = 0
        self._taken = 0
        self.since: str | None = None  # from when on the log is asked for again
        self.gaps = 0  # how often lines between two readings were no longer there
        self._second: tuple[bytes, int] = (b"", 0)  # the last second that was parsed
        self.resume()

    def resume(self) -> None:
        """The log is read again, from `since` on."""
        self._resumed_at, self._to_meet, self._to_skip = self._at, self._complete, self._taken
        self._met = 0
        self._stamp = b""
        self._in_line = False
        self._drop = False
        self._skip = 0

    def feed(self, data: bytes) -> bytes:
        """What of it is new, without timestamps."""
        out: list[bytes] = []
        at = 0
        while at < len(data):
            if not self._in_line:
                if self._resumed_at < 0 and not self._stamp:
                    end = data.rfind(b"\n", at) + 1
                    block = self._take_block(data[at:end]) if end > at else None
                    if block is not None:
                        out.append(block)
                        at = end
                        continue
                at = self._read_stamp(data, at)
                continue
            end = data.find(b"\n", at)
            stop = len(data) if end < 0 else end + 1
            if not self._drop:
                if self._skip:
                    skipped = min(self._skip, stop - at)
                    self._skip -= skipped
                    at += skipped
                else:
                    self._taken += stop - at
                    out.append(data[at:stop])
                    at = stop
                    if end >= 0:
                        self._complete += 1
                        self._taken = 0
                if at < stop:
                    continue
            at = stop
            if end >= 0:
                self._in_line = False
        return b"".join(out)

    def _take_block(self, block: bytes) -> bytes | None:
        """Whole lines of which none was seen before, at once: 10 times as fast as line by line. None: one of them
        has no timestamp."""
        text, count = _LINE_START.subn(b"\n", b"\n" + block)
        if count != block.count(b"\n"):
            return None
        start = block.rfind(b"\n", 0, -1) + 1
        stamp = block[start : block.index(b" ", start)]
        when = self._parse(stamp)
        if when is None:
            return None
        same = 1
        while same < count:
            before = block.rfind(b"\n", 0, start - 1) + 1
            if not block.startswith(stamp + b" ", before):
                break
            start, same = before, same + 1
        if when != self._at:
            self._at, self._complete = when, 0
            self.since = stamp[:_SECOND_CHARS].decode() + _zone(stamp).decode()
        elif same < count:
            self._complete = 0
        self._complete += same
        self._taken = 0
        return text[1:]

    def _read_stamp(self, data: bytes, at: int) -> int:
        """Take the timestamp of a line that begins; where its text begins."""
        space = data.find(b" ", at, at + _STAMP_BYTES_MAX)
        line_end = data.find(b"\n", at, at + _STAMP_BYTES_MAX)
        if line_end >= 0 and (space < 0 or line_end < space):  # not a line of the container: no timestamp
            self._stamp = b""
            return line_end + 1
        if space < 0:
            if len(self._stamp) + len(data) - at > _STAMP_BYTES_MAX:  # then its line is not the container's
                self._stamp, self._in_line, self._drop = b"", True, True
                return at
            self._stamp += data[at:]
            return len(data)
        stamp, self._stamp = self._stamp + data[at:space], b""
        self._in_line = True
        self._begin(stamp)
        return space + 1

    def _begin(self, stamp: bytes) -> None:
        self._drop, self._skip = False, 0
        when = self._parse(stamp)
        if when is None or when < self._resumed_at:
            self._drop = True
        elif when == self._resumed_at:
            self._met += 1
            if self._met <= self._to_meet:
                self._drop = True
            elif self._met == self._to_meet + 1:
                self._skip = self._to_skip
        elif self._resumed_at >= 0:
            if self._met == 0:
                self.gaps += 1  # not even the last line is there any more: the log was rotated meanwhile
            self._resumed_at = -1
        if not self._drop and when is not None and when != self._at:
            self._at, self._complete, self._taken = when, 0, 0
            self.since = stamp[:_SECOND_CHARS].decode() + _zone(stamp).decode()

    def _parse(self, stamp: bytes) -> int | None:
        """Nanoseconds since 1970; None: this is no timestamp."""
        zone = _zone(stamp)
        second = stamp[:_SECOND_CHARS] + zone
        if second != self._second[0]:
            try:
                parsed = datetime.fromisoformat(second.decode().replace("Z", "+00:00"))
                self._second = (second, int(parsed.timestamp()))
            except (ValueError, UnicodeDecodeError):
                return None
        fraction = stamp[_SECOND_CHARS : len(stamp) - len(zone)]
        digits = fraction[1:].ljust(9, b"0")[:9]
        return self._second[1] * 10**9 + int(digits) if digits.isdigit() else None


def _zone(stamp: bytes) -> bytes:
    return b"Z" if stamp.endswith(b"Z") else stamp[-6:]
