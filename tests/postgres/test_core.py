"""The core's stories on PostgreSQL: the same commands leave the same history, row by row and word by word."""

from pathlib import Path

import pytest

from tests.core.driver import Engine
from tests.core.scenarios.story import play
from weft.store.postgres.driver import PostgresStore

STORIES = sorted((Path(__file__).parents[1] / "core" / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path, core_store: PostgresStore) -> None:
    assert play(path.read_text(), Engine(core_store)).splitlines() == path.read_text().splitlines()
