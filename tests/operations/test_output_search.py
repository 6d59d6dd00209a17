"""Looking for a text in output: the same lines as a naive search, whatever the parts in which it is read."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.executors.output import output_path
from weft.operations.reading.output import search
from weft.operations.reading.output.attempts import FileOutput, Piece
from weft.operations.reading.output.search import SearchState, search_output


class Pieces:
    """An output that is read in parts of any sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data, self.sizes, self.read_so_far = data, sizes, 0

    def read(self, offset: int, limit: int = 0) -> Piece:
        size = self.sizes[self.read_so_far % len(self.sizes)]
        self.read_so_far += 1
        data = self.data[offset : offset + size]
        return Piece(offset, data, "more" if data else "whole")

    def over(self) -> None: ...
    def close(self) -> None: ...


def naive(data: bytes, text: str, ignore_case: bool) -> list[tuple[int, int, int]]:
    found, at = [], 0
    for number, line in enumerate(data.split(b"\n"), 1):
        hit = (line.lower() if ignore_case else line).find(text.lower().encode() if ignore_case else text.encode())
        if hit >= 0:
            found.append((at + hit, number, at))
        at += len(line) + 1
    return found


@settings(max_examples=300, deadline=None)
@given(
    data=st.text(alphabet="abA\n", max_size=80).map(str.encode),
    text=st.text(alphabet="abA", min_size=1, max_size=3),
    ignore_case=st.booleans(),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    limit=st.integers(1, 4),
)
def test_it_finds_what_a_naive_search_finds(
    data: bytes, text: str, ignore_case: bool, sizes: list[int], limit: int
) -> None:
    state, found, over = SearchState(), [], False
    for _ in range(200):
        matches, over = search_output(Pieces(data, sizes), text, ignore_case, state, limit)
        assert len(matches) <= limit
        found += [(one.offset, one.line, one.line_offset) for one in matches]
        if over:
            break
    assert over
    assert found == naive(data, text, ignore_case)


def test_a_request_looks_at_a_bounded_part_and_goes_on(tmp_path: Path) -> None:
    """A sparse file: 600 MiB of which a few lines were written."""
    path = Path(output_path(str(tmp_path), "a", 1, "stdout"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(b"first needle\n" + b"x" * 4096 + b"\n")
        file.seek(600 << 20)
        file.write(b"\nlast needle here\n")
    opened, state = FileOutput(str(path)), SearchState()
    matches, over = search_output(opened, "needle", False, state, 100)
    found = [*matches]
    while not over:
        matches, over = search_output(opened, "needle", False, state, 100)
        found += matches
    opened.close()
    assert [one.text for one in found] == ["first needle", "last needle here"]
    assert found[0].offset == 6
    assert found[1].line_offset == (600 << 20) + 1


def test_memory_is_that_of_a_part(tmp_path: Path) -> None:
    """One line of 64 MiB without an end."""
    import tracemalloc

    path = tmp_path / "long"
    with path.open("wb") as file:
        for _ in range(64):
            file.write(b"y" * (1 << 20))
        file.write(b"needle")
    opened, state = FileOutput(str(path)), SearchState()
    tracemalloc.start()
    try:
        matches, over = search_output(opened, "NEEDLE", True, state, 10)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        opened.close()
    assert over
    assert (matches[0].offset, matches[0].line, matches[0].line_offset) == (64 << 20, 1, 0)
    assert len(matches[0].text) <= search.BEFORE_MAX + 6 + search.AFTER_MAX
    assert peak < 8 * search.PART, peak
