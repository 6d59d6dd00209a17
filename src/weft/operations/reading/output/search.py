"""Looks for a text in what an attempt printed: a part at a time, whatever the size of the output.

A line counts once, however often the text is in it. Where the search stopped is a state of four numbers, so that the
next request goes on there without looking at anything twice.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from weft.operations.reading.output.attempts import AttemptOutput

if TYPE_CHECKING:
    from collections.abc import Callable

PART: Final = 1 << 20
SCANNED_MAX: Final = 256 << 20  # bytes of one request: about half a second
BEFORE_MAX, AFTER_MAX = 100, 200  # bytes of its line that a match shows


class OutputMatch(msgspec.Struct, kw_only=True):
    """Where the text is: `offset` is its first byte, `line_offset` that of its line, `line` counts from 1."""

    offset: int
    line: int
    line_offset: int
    text: str  # of the line, around the match


class SearchState(msgspec.Struct):
    """The next byte, its line and where that begins, and whether that line was found already."""

    offset: int = 0
    line: int = 1
    line_offset: int = 0
    found: bool = False


def search_output(
    opened: AttemptOutput, text: str, ignore_case: bool, state: SearchState, limit: int
) -> tuple[list[OutputMatch], bool]:
    """(matches, whether all that there is was looked at); `state` goes on."""
    fold: Callable[[bytes], bytes] = bytes.lower if ignore_case else bytes
    wanted = fold(text.encode())
    overlap = len(wanted) - 1  # bytes that may begin a match which the next part ends
    matches: list[OutputMatch] = []
    end = state.offset + SCANNED_MAX
    rest = b""
    while len(matches) < limit and state.offset < end:
        piece = opened.read(state.offset + len(rest), PART)
        if piece.at != state.offset + len(rest):  # the middle was cut out
            rest = b""
            state.offset = piece.at
        part = rest + piece.data
        settled = len(part) if not piece.data else max(0, len(part) - overlap)
        _scan(part, fold(part), wanted, settled, state, matches, limit)
        if not piece.data:
            return matches, len(matches) < limit
        rest = part[state.offset - (piece.next - len(part)) :]
    return matches, False


def _scan(
    part: bytes,
    folded: bytes,
    wanted: bytes,
    settled: int,
    state: SearchState,
    matches: list[OutputMatch],
    limit: int,
) -> None:
    """Matches that begin before `settled`. The part begins at the state's offset."""
    begin, at = state.offset, 0
    while at < settled:
        if state.found:
            line_end = part.find(b"\n", at, settled)
            if line_end < 0:
                break
            at = line_end + 1
            state.line, state.line_offset, state.found = state.line + 1, begin + at, False
        hit = folded.find(wanted, at, settled + len(wanted) - 1)
        until = settled if hit < 0 else hit
        lines = part.count(b"\n", at, until)
        if lines:
            state.line += lines
            state.line_offset = begin + part.rindex(b"\n", at, until) + 1
        if hit < 0:
            break
        matches.append(
            OutputMatch(
                offset=begin + hit, line=state.line, line_offset=state.line_offset,
                text=_around(part, hit, len(wanted), state.line_offset - begin),
            )
        )  # fmt: skip
        state.found, at = True, hit + 1
        if len(matches) == limit:
            state.offset = begin + at
            return
    state.offset = begin + settled


def _around(part: bytes, hit: int, length: int, line_begin: int) -> str:
    first = max(line_begin, hit - BEFORE_MAX, 0)
    line_end = part.find(b"\n", hit, hit + length + AFTER_MAX)
    last = line_end if line_end >= 0 else hit + length + AFTER_MAX
    return part[first:last].decode(errors="replace").rstrip("\r")
