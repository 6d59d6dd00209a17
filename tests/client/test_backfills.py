"""Backfills, the same on a store and through a server, with a node that leads."""

import pytest

from tests.api.conftest import until
from tests.client.conftest import Place
from weft.authoring.load import load_value
from weft.core.commands import Refused
from weft.operations.errors import NotFound

DAY_MS = 86_400_000
DAILY = {
    "name": "daily",
    "inputs": {"day": "string", "word": {"type": "string", "default": "none"}},
    "triggers": [
        {"name": "cron", "cron": "30 5 * * *", "timezone": "UTC", "inputs": {"day": "${{ trigger.time }}"}},
        {"name": "done", "after": {"run": "elsewhere"}, "inputs": {"day": "x"}},
    ],
    "tasks": {"note": {"run": "echo ${{ inputs.day }} ${{ inputs.word }} >> days"}},
}
HELD = {
    "name": "held",
    "triggers": [{"name": "tick", "every": "1h"}],
    "tasks": {"wait": {"wait": {"signal": "go"}}},
}


def lines(place: Place) -> list[str]:
    return (place.directory / "days").read_text().splitlines()


def test_each_day_of_a_range_has_one_run(place: Place) -> None:
    place.connection.apply(load_value(DAILY), str(place.directory))
    now = place.connection.now()
    first = now - 4 * DAY_MS
    planned = place.connection.start_backfill("daily", first, now, preview=True)
    assert (planned.trigger, planned.total, planned.existing, planned.backfill) == ("daily/cron", 4, 0, None)
    assert [one.has_run for one in planned.times] == [False] * 4
    assert place.connection.backfills() == [], "a preview changes nothing"
    place.work()
    done = place.connection.start_backfill("daily", first, now, reverse=True, inputs={"word": "again"})
    assert done.backfill is not None
    id = done.backfill.id
    until(lambda: place.connection.backfill(id).succeeded == 4)
    found = place.connection.backfill(id)
    assert (found.state, found.left, found.started, found.running) == ("complete", 0, 4, 0)
    times = [one.time for one in done.times]
    assert lines(place) == [f"{time} again" for time in times], "one after the other, the newest first"
    assert times == sorted(times, reverse=True)
    runs = place.connection.runs(backfill=id)
    assert {run.backfill for run in runs} == {id}
    assert {run.trigger for run in runs} == {"daily/cron"}
    again = place.connection.start_backfill("cron", first, now, parallel=2)
    assert again.backfill is None, "there is nothing to do"
    assert (again.existing, {one.run for one in again.times}) == (4, {run.id for run in runs})
    more = place.connection.start_backfill("cron", first - DAY_MS, now, parallel=2)
    assert more.backfill is not None
    until(lambda: place.connection.backfill(more.backfill.id).succeeded == 1)  # type: ignore[union-attr]
    assert place.connection.backfill(more.backfill.id).existing == 4
    assert len(place.connection.runs()) == 5
    assert [one.id for one in place.connection.backfills()] == [more.backfill.id, id]


def test_a_backfill_is_cancelled_as_one(place: Place) -> None:
    place.connection.apply(load_value(HELD), str(place.directory))
    place.work()
    now = place.connection.now()
    done = place.connection.start_backfill("held/tick", now - 10 * 3_600_000, now, parallel=2)
    assert done.backfill is not None
    id = done.backfill.id
    until(lambda: place.connection.backfill(id).running == 2)
    assert place.connection.backfill(id).left == done.total - 2
    assert place.connection.trigger("held/tick").last is not None
    found = place.connection.cancel_backfill(id, "wrong range")
    assert (found.state, found.reason, found.left) == ("cancelled", "wrong range", 0)
    until(lambda: place.connection.backfill(id).cancelled == 2)
    assert place.connection.cancel_backfill(id).started == 2
    assert [run.state for run in place.connection.runs(backfill=id)] == ["cancelled", "cancelled"]


def test_what_cannot_be_filled_is_refused(place: Place) -> None:
    place.connection.apply(load_value(DAILY), str(place.directory))
    now = place.connection.now()
    with pytest.raises(Refused, match="more than 10,000 fire times"):
        place.connection.start_backfill("daily", 0, now)
    with pytest.raises(NotFound, match="there is no trigger daily/done"):
        place.connection.start_backfill("daily/done", now - DAY_MS, now)
    with pytest.raises(Refused, match="nope"):
        place.connection.start_backfill("daily", now - 2 * DAY_MS, now, inputs={"nope": 1})
    assert place.connection.start_backfill("daily", now, now - DAY_MS).backfill is None, "an empty range"
    with pytest.raises(NotFound, match="there is no backfill none"):
        place.connection.backfill("none")
