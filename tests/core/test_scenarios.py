"""Stories as text files: commands, and the history that they must leave. WEFT_REWRITE=1 writes what happens now."""

import os
from pathlib import Path

import pytest

from tests.core.scenarios.story import play

STORIES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    shown = play(path.read_text())
    if os.environ.get("WEFT_REWRITE"):
        path.write_text(shown)
    assert shown.splitlines() == path.read_text().splitlines()


def test_there_are_enough_of_them() -> None:
    assert len(STORIES) >= 25


def test_every_story_says_what_it_shows_and_ends_with_the_states() -> None:
    for path in STORIES:
        lines = path.read_text().splitlines()
        commands = [line for line in lines[lines.index("---") + 1 :] if line and line[0] not in " #-"]
        assert lines[0].startswith("# "), f"{path.name} does not say what it shows"
        assert commands[-1] in ("states", "counts"), f"{path.name} does not end with the states"
