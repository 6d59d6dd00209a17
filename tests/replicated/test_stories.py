"""The core's stories on a replicated log: the same commands, as entries, leave the same history on every replica."""

from pathlib import Path

import pytest

from tests.core.driver import Engine
from tests.core.scenarios.story import play
from tests.replicated.in_process import InProcessLog, log_committer

STORIES = sorted((Path(__file__).parents[1] / "core" / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path, tmp_path: Path) -> None:
    log = InProcessLog(tmp_path)
    store = log.open()
    reader = store.reader()
    store.reader = lambda: reader  # type: ignore[method-assign]  # to open one for each look took 0.4 s a story
    try:
        found = play(path.read_text(), Engine(store, log_committer)).splitlines()
    finally:
        store.close()
    assert found == path.read_text().splitlines()
    log.check_equal()
