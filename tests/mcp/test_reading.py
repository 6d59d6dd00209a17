"""Pages of a stream, whatever pieces a store gives them in: no byte is lost or comes twice, no character is cut."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.mcp.replies import TaskOutput
from weft.mcp.results import Reading, StreamTaskOutputArguments
from weft.operations.replies import OutputPart


class Chunks:
    """A store that has a stream in chunks, each at its place; what lies between two of them was not kept."""

    def __init__(self, chunks: list[tuple[int, bytes]], *, ended: bool = True) -> None:
        self.chunks = chunks
        self.ended = ended
        self.size = chunks[-1][0] + len(chunks[-1][1]) if chunks else 0

    def read_output(
        self, ref: str, task: str, attempt: int, stream: str, *, offset: int = 0, limit: int = 65536
    ) -> OutputPart:
        at = max(0, self.size + offset) if offset < 0 else offset
        for begin, data in self.chunks:
            if begin + len(data) > at:
                skip = max(0, at - begin)
                found = data[skip : skip + limit]
                start = begin + skip
                return OutputPart(data=found, offset=start, next=start + len(found), size=self.size, ended=self.ended)
        return OutputPart(data=b"", offset=at, next=at, size=self.size, ended=self.ended)


def page(store: Any, offset: int, limit: int) -> TaskOutput:
    """What one call without waiting gives."""
    reading = Reading(StreamTaskOutputArguments(run="r", offset=offset, limit=limit), "t", 1)
    shown = ""
    while True:
        shown += reading.take(reading.read(store))
        if reading.full or reading.over or not reading.moved:
            break
    found = reading.shown("r", "running")
    assert found.text.startswith(shown.removesuffix("�")) or shown.startswith(found.text)
    return found


def chunked(data: bytes, sizes: list[int]) -> list[tuple[int, bytes]]:
    out: list[tuple[int, bytes]] = []
    at = 0
    for size in [*sizes, len(data)]:
        if at < len(data):
            out.append((at, data[at : at + size]))
            at += len(out[-1][1])
    return out


def whole(store: Chunks, limit: int) -> tuple[str, list[TaskOutput]]:
    pages = [page(store, 0, limit)]
    while not pages[-1].ended:
        pages.append(page(store, pages[-1].next, limit))
        assert pages[-1].next > pages[-2].next, "it gets on"
    return "".join(one.text for one in pages), pages


SIZES = st.lists(st.integers(1, 9), max_size=30)


@settings(deadline=None)
@given(st.text("aé€😀\n", max_size=60), SIZES, st.integers(16, 40))
def test_text_arrives_whole(text: str, sizes: list[int], limit: int) -> None:
    got, pages = whole(Chunks(chunked(text.encode(), sizes)), limit)
    assert got == text
    assert not any(one.lossy for one in pages)
    assert all(len(one.text.encode()) <= limit for one in pages)
    assert all(after.offset == before.next for before, after in pairwise(pages))


@settings(deadline=None)
@given(st.binary(max_size=120), SIZES, st.integers(16, 40))
def test_any_bytes_arrive_each_once(data: bytes, sizes: list[int], limit: int) -> None:
    _, pages = whole(Chunks(chunked(data, sizes)), limit)
    assert b"".join(data[one.offset : one.next] for one in pages) == data
    assert all(one.lossy == (one.text.encode() != data[one.offset : one.next]) for one in pages)
    if all(not one.lossy for one in pages):
        assert "".join(one.text for one in pages).encode() == data


@settings(deadline=None)
@given(st.text("aé€😀", max_size=30), st.integers(1, 60))
def test_the_end_of_a_text_begins_with_a_whole_character(text: str, before: int) -> None:
    found = page(Chunks(chunked(text.encode(), [])), -before, 1000)
    assert text.endswith(found.text)
    assert not found.lossy
    assert len(text.encode()) - found.offset == len(found.text.encode())
    assert found.ended


def test_what_was_cut_out_is_skipped_and_counted() -> None:
    store = Chunks([(0, b"begin"), (1000, b"end")])
    first = page(store, 0, 100)
    assert (first.text, first.next, first.ended, first.skipped) == ("begin", 5, False, 0)
    second = page(store, first.next, 100)
    assert (second.text, second.offset, second.next, second.ended) == ("end", 1000, 1003, True)
    assert second.skipped == 995


def test_a_character_whose_end_was_cut_out_holds_nobody_up() -> None:
    got, pages = whole(Chunks([(0, b"a\xe2"), (1000, b"end")]), 100)
    assert got == "a�end"
    assert [one.lossy for one in pages] == [True, False]


@pytest.mark.parametrize("size", [15, 16, 17, 32, 33])
def test_a_page_that_is_just_full_leaves_nothing_out(size: int) -> None:
    got, pages = whole(Chunks([(0, b"x" * size)]), 16)
    assert len(got) == size
    assert len(pages) == -(-size // 16)


def test_while_it_runs_half_a_character_waits_for_its_other_half() -> None:
    found = page(Chunks([(0, "a€".encode()[:3])], ended=False), 0, 100)
    assert (found.text, found.next, found.ended) == ("a", 1, False)
    over = page(Chunks([(0, "a€".encode()[:3])]), 0, 100)
    assert (over.text, over.next, over.ended, over.lossy) == ("a�", 3, True, True)
