"""Rows of history that hold many events: what is read is what was written, one by one."""

import random
from typing import Any

from weft.authoring.load import load_value
from weft.core.decision.draft import Draft
from weft.core.history.batches import expanded, stored
from weft.core.rows import EVENT_BLOCK, EventBatch, RunRow, TaskRow

NOW = 1_700_000_000_000
WORKFLOW = load_value({"name": "w", "tasks": {f"t{i}": "true" for i in range(EVENT_BLOCK * 2 + 1)}}, "w").workflow


def draft() -> Draft:
    made = Draft(NOW, {"h": WORKFLOW}, session="s1")
    made.add_loaded_runs([RunRow(no, f"r{no}", "w", "h", NOW) for no in (1, 2)])
    return made


def task(run_no: int, pos: int, idx: int = -1, attempt: int = 1, started_ago: int | None = 5) -> TaskRow:
    started_at = None if started_ago is None else NOW - started_ago
    return TaskRow(pos, run_no, pos, idx, "x", state="queued", attempt=attempt, started_at=started_at)


def read(made: Draft, run_no: int) -> list[tuple[str, int | None, int | None, dict[str, Any]]]:
    """The run's events as a reader gets them, with gapless numbers as on SQLite."""
    out, numbers, seq = [], [], 0
    for no, pos, idx, kind, _, many, text in stored(made.events, NOW):
        seq += many
        if no == run_no:
            for number, of_pos, of_idx, data in expanded((seq, NOW, pos, idx, kind, many, text)):
                numbers.append(number)
                out.append((kind, of_pos, of_idx, data))
    assert numbers == sorted(set(numbers))
    return out


def test_any_order_of_events_is_read_as_it_happened() -> None:
    chance = random.Random(7)
    for _ in range(200):
        made, want = draft(), {1: [], 2: []}  # type: ignore[var-annotated]
        for _ in range(chance.randrange(30)):
            run_no, pos, idx = chance.choice((1, 2)), chance.randrange(9), chance.choice((-1, -1, 3))
            attempt, ago = chance.choice((1, 1, 2)), chance.choice((5, 5, 0, None))
            row = task(run_no, pos, idx, attempt, ago)
            what = chance.choice(("claim", "success", "other"))
            if what == "claim":
                row.attempt -= 1
                made.claim([row], "s1", 1)
                want[run_no].append(("assigned", pos, idx, {"attempt": attempt}))
            elif what == "success":
                code, hash = chance.choice((0, None, 7)), chance.choice(("h", "k", None))
                row.state = "running"
                made.succeed([(row, code, hash)])
                data: dict[str, Any] = {"attempt": attempt, "state": "succeeded", "started_at": row.started_at}
                data |= {} if code is None else {"exitCode": code}
                want[run_no].append(("finished", pos, idx, data | ({} if hash is None else {"hash": hash})))
            else:
                made.event(run_no, "finished", {"state": "failed"}, row)
                want[run_no].append(("finished", pos, idx, {"state": "failed"}))
        for run_no, events in want.items():
            assert read(made, run_no) == events
            for (*_, have), (*_, expected) in zip(read(made, run_no), events, strict=True):
                assert list(have) == list(expected), "in the same order too"


def test_what_is_alike_stands_once_and_alone_is_a_plain_row() -> None:
    made = draft()
    for pos in range(500):
        made.claim([task(1, pos, attempt=0)], "s1", 1)
    ((_, _, _, kind, _, many, text),) = stored(made.events, NOW)
    assert (kind, many) == ("assigned", 500)
    assert '"idx":-1,"attempt":1' in text
    alone = draft()
    alone.claim([task(1, 4, attempt=0)], "s1", 1)
    assert stored(alone.events, NOW) == [(1, 4, -1, "assigned", "s1", 1, '{"attempt":1}')]


def test_a_row_holds_no_more_events_than_its_numbers() -> None:
    made = draft()
    rows = [task(1, pos) for pos in range(EVENT_BLOCK * 2 + 1)]
    for row in rows:
        row.state = "running"
    made.succeed([(row, 0, "h") for row in rows])
    assert [row[5] for row in stored(made.events, NOW)] == [EVENT_BLOCK, EVENT_BLOCK, 1]
    assert [pos for _, pos, _, _ in read(made, 1)] == list(range(EVENT_BLOCK * 2 + 1))
    assert sum(isinstance(event, EventBatch) for event in made.events) == 1
