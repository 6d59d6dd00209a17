"""What a rule made of a row is what the store has afterwards, column by column.

Stores take short cuts: the most frequent changes are written by statements that know only the columns that such a
change touches. Here every row that the stories of tests/core/scenarios write is read back and compared.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.core.scenarios.story import play
from weft.core.decision.draft import Draft
from weft.core.decision.needs import Runs, Tasks
from weft.store.sqlite.transaction import SqliteTransaction

STORIES = sorted((Path(__file__).parents[1] / "core" / "scenarios").glob("*.txt"))


def plain(row: Any) -> dict[str, Any]:
    """Its stored columns; flags as flags."""
    values = msgspec.structs.asdict(row)
    return {name: int(value) if isinstance(value, bool) else value for name, value in values.items()} | {
        name: None for name in ("guard", "dirty") if name in values
    }


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the rows that were compared; the comparison is made right after each write."""
    counts = [0]
    genuine = SqliteTransaction.write

    def write(self: SqliteTransaction, draft: Draft) -> None:
        genuine(self, draft)
        tasks = {
            task.id: task
            for task in [*draft.dirty_tasks, *draft.created.tasks]
            if task.run_no not in draft.pruned.runs
        }
        runs = {run.no: run for run in draft.dirty_runs if run.no not in draft.pruned.runs}
        stored_tasks, stored_runs = self.load([Tasks(sorted(tasks)), Runs(sorted(runs))])
        assert [plain(row) for row in stored_tasks] == [plain(tasks[id]) for id in sorted(tasks)]
        assert [plain(row) for row in stored_runs] == [plain(runs[no]) for no in sorted(runs)]
        counts[0] += len(tasks) + len(runs)

    monkeypatch.setattr(SqliteTransaction, "write", write)
    return counts


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_is_stored_as_it_was_decided(path: Path, compared: list[int]) -> None:
    play(path.read_text())
    assert compared[0] > 0
