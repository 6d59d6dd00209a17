"""The diagrams of docs/diagrams.md show the states and files that the code has."""

import re

import pytest

from tests.architecture.source import ROOT, SRC
from weft.core.states import RUN_TERMINAL, RUN_TRANSITIONS, TERMINAL, TRANSITIONS

PAGE = (ROOT / "docs/diagrams.md").read_text()
EDGE = re.compile(r"^ {4}(\S+) --> (\S+)(?: : (.+))?$", re.MULTILINE)
OUTSIDE = "[*]"


def edges(heading: str) -> list[tuple[str, str]]:
    """The arrows of the first diagram below a heading, in their order."""
    _, _, below = PAGE.partition(f"## {heading}\n")
    found = re.search(r"```mermaid\nstateDiagram-v2\n(.*?)```", below, re.DOTALL)
    assert found is not None, heading
    lines = [line for line in found[1].splitlines() if line.strip()]
    matches = EDGE.findall(found[1])
    assert len(matches) == len(lines), f"{heading}: a line that is no arrow"
    assert all(why or OUTSIDE in (start, end) for start, end, why in matches), f"{heading}: an arrow without a reason"
    return [(start, end) for start, end, _ in matches]


@pytest.mark.parametrize(
    ("heading", "transitions", "terminal"),
    [("A task", TRANSITIONS, TERMINAL), ("A run", RUN_TRANSITIONS, RUN_TERMINAL)],
)
def test_the_arrows_are_the_table(
    heading: str, transitions: dict[tuple[str, str], str], terminal: frozenset[str]
) -> None:
    drawn = edges(heading)
    assert len(drawn) == len(set(drawn)), "an arrow is drawn twice"
    assert {edge for edge in drawn if OUTSIDE not in edge} == set(transitions)
    assert [end for start, end in drawn if start == OUTSIDE] == ["pending"]
    assert {start for start, end in drawn if end == OUTSIDE} == terminal


def test_the_files_it_names_are_there() -> None:
    named = set(re.findall(r"\b(?:core|node|store|executors)/[\w/]*(?:\.py|/)", PAGE))
    assert len(named) > 5
    assert [name for name in sorted(named) if not (SRC / name).exists()] == []
