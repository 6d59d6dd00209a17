"""Pieces of text: widths, cutting, durations, prefixes, files with holes."""

import io
import os
from pathlib import Path

import pytest

from weft.cli.run_view.output_following import Prefixer
from weft.cli.terminal.formats import duration
from weft.cli.terminal.tables import table
from weft.cli.terminal.terminal import Terminal, cut, printable, width_of
from weft.operations.reading.output.attempts import FileOutput


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (99, "99 ms"), (100, "0.1 s"), (59_900, "59.9 s"), (60_000, "1m 00s"), (3_599_400, "59m 59s"),
     (3_600_000, "1h 00m"), (90_000_000, "1d 01h"), (-5, "0 ms"), (None, "")],
)  # fmt: skip
def test_durations(ms: int | None, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [("build", 5, "build"), ("build", 4, "bui…"), ("日本語", 6, "日本語"), ("日本語", 5, "日本…"),
     ("日本語", 4, "日…"),     ("e\u0301clair", 6, "e\u0301clair"), ("abc", 0, ""), ("abc", 1, "…")],
)  # fmt: skip
def test_cut_counts_columns_not_characters(text: str, width: int, expected: str) -> None:
    assert cut(text, width) == expected
    assert width_of(cut(text, width)) <= width


def test_printable_takes_away_what_moves_a_cursor() -> None:
    assert printable("a\x1b[2Jb\x1b]0;title\x07c\rd\te") == "abc\ufffdd e"


def _terminal(encoding: str, **environ: str) -> Terminal:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    return Terminal(stream, environ.pop("color", "auto"), environ)


def test_ascii_streams_get_substitutes_and_never_an_error() -> None:
    terminal = _terminal("ascii")
    terminal.print(f"{terminal.sign('ok')} 日本 → done…")
    terminal.stream.flush()
    assert isinstance(terminal.stream, io.TextIOWrapper)
    assert isinstance(terminal.stream.buffer, io.BytesIO)
    assert terminal.stream.buffer.getvalue() == b"+ ?? -> done...\n"


@pytest.mark.parametrize(
    ("environ", "colored"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
     ({"color": "always", "NO_COLOR": "1"}, True), ({"FORCE_COLOR": "0"}, False),
     ({"NO_COLOR": "", "FORCE_COLOR": "1"}, True)],
)  # fmt: skip
def test_color_in_a_pipe(environ: dict[str, str], colored: bool) -> None:
    assert _terminal("utf-8", **environ).color is colored


def test_a_table_in_a_pipe_is_never_cut() -> None:
    long = "x" * 500
    lines = table(_terminal("utf-8"), ("a", "b"), [[long, "1"], ["y", "2"]])
    assert lines[1] == f"{long}  1"
    assert lines[2].split() == ["y", "2"]


def test_prefixed_lines_stay_whole_and_the_rest_comes_at_the_end() -> None:
    got: list[tuple[str, bytes]] = []
    prefixer = Prefixer(lambda stream, data: got.append((stream, data)), lambda task: f"{task}|".encode())
    prefixer.take("a", "stdout", b"one\ntw")
    prefixer.take("b", "stdout", b"other\n")
    prefixer.take("a", "stdout", b"o\n\xff\xfe")
    prefixer.ended("a")
    assert b"".join(data for _, data in got) == b"a|one\nb|other\na|two\na|\xff\xfe\n"


def test_what_was_cut_out_of_a_file_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.1.out"
    with path.open("wb") as file:
        file.write(b"h" * 65_536)
        file.seek(65_536 * 16)
        file.write(b"t" * 65_536)
    opened = FileOutput(str(path))
    data, at, missing = b"", 0, 0
    while (piece := opened.read(at)).data:
        data, missing, at = data + piece.data, missing + piece.at - at, piece.next
    opened.close()
    if os.stat(path).st_blocks * 512 > 65_536 * 10:
        pytest.skip("this filesystem stores holes as zeros")
    assert data == b"h" * 65_536 + b"t" * 65_536
    assert missing == 65_536 * 15


def test_a_file_that_comes_later_is_read_from_its_start(tmp_path: Path) -> None:
    opened = FileOutput(str(tmp_path / "later"))
    assert opened.read(0).data == b""
    (tmp_path / "later").write_bytes(b"now")
    assert opened.read(0).data == b"now"
    assert opened.read(3).data == b""
    opened.close()
