"""Many runs are changed at once, the same on a store and through a server."""

import pytest

from tests.client.conftest import Place
from weft.core.commands import Refused
from weft.operations.resources.bulk import ChangedRuns, ChangeRunsRequest, ChosenRunsRequest


def change(place: Place, action: str, **more: object) -> ChangedRuns:
    return place.connection.change_runs(ChangeRunsRequest(action=action, **more))  # type: ignore[arg-type]


def test_a_filter_is_previewed_and_carried_out(place: Place) -> None:
    first, second = (place.submit({"name": "slow", "tasks": {"a": "sleep 60"}}) for _ in range(2))
    other = place.submit({"name": "other", "tasks": {"a": "sleep 60"}})
    plan = change(place, "cancel", name="slow", preview=True)
    assert [one.run for one in plan.changed] == [second, first]
    assert (plan.preview, plan.refused, plan.next) == (True, [], None)
    assert place.connection.run(first).state == "running"
    page = change(place, "cancel", name="slow", limit=1, reason="not needed")
    assert [(one.run, one.state) for one in page.changed] == [(second, "cancelled")]
    rest = change(place, "cancel", name="slow", limit=1, reason="not needed", cursor=page.next)
    assert [one.run for one in rest.changed] == [first]
    assert place.connection.run(first).reason == "not needed"
    assert place.connection.run(other).state == "running"
    again = change(place, "cancel", name="slow")
    assert [one.refused for one in again.refused] == ["it is cancelled already"] * 2


def test_what_means_nothing_is_refused_one_by_one(place: Place) -> None:
    open_run = place.submit({"name": "open", "tasks": {"a": "sleep 60"}})
    ended = place.submit({"name": "ended", "tasks": {"a": "sleep 60"}})
    place.connection.cancel(ended)
    both = [open_run, ended, open_run]
    assert [one.run for one in change(place, "pause", runs=both).changed] == [open_run]
    assert place.connection.run(open_run).paused
    paused = change(place, "pause", runs=both)
    assert [one.refused for one in paused.refused] == ["it is paused already", "it is cancelled already"]
    assert [one.run for one in change(place, "unpause", runs=both).changed] == [open_run]
    resumed = change(place, "resume", runs=both)
    assert [(one.run, one.state) for one in resumed.changed] == [(ended, "running")]
    assert [one.refused for one in resumed.refused] == ["it has not ended"]
    assert [one.refused for one in change(place, "retry_dead", runs=[ended]).refused] == ["it has not ended"]


def test_ended_runs_are_removed_by_selection_and_by_filter(place: Place) -> None:
    open_run = place.submit({"name": "old", "tasks": {"a": "sleep 60"}})
    ended = [place.submit({"name": "old", "tasks": {"a": "sleep 60"}}) for _ in range(3)]
    for run in ended:
        place.connection.cancel(run)
    plan = place.connection.change_runs(ChosenRunsRequest(name="old", preview=True))
    assert [one.run for one in plan.changed] == ended[::-1]
    assert [(one.run, one.refused) for one in plan.refused] == [(open_run, "it has not ended")]
    chosen = place.connection.change_runs(ChosenRunsRequest(runs=ended[:1]))
    assert [one.run for one in chosen.changed] == ended[:1]
    left = {run.id for run in place.connection.runs(name="old", limit=100)}
    assert left == {open_run, *ended[1:]}, "nothing but what was named"
    rest = place.connection.change_runs(ChosenRunsRequest(name="old"))
    assert [one.run for one in rest.changed] == ended[:0:-1]
    assert [run.id for run in place.connection.runs(name="old", limit=100)] == [open_run]


def test_each_run_is_started_again_once(place: Place) -> None:
    old = [place.submit({"name": "old", "tasks": {"a": "sleep 60"}}) for _ in range(3)]
    request = ChangeRunsRequest(action="rerun", runs=old)
    asking = place.connection.for_request("a-request-1")
    first, again = asking.change_runs(request), place.connection.for_request("a-request-1").change_runs(request)
    new = [one.new for one in first.changed]
    assert len(set(new)) == 3
    assert [one.new for one in again.changed] == new
    assert len(place.connection.runs(name="old", limit=100)) == 6


def test_everything_is_never_meant(place: Place) -> None:
    run = place.submit({"name": "one", "tasks": {"a": "sleep 60"}})
    for wrong in ({}, {"children": True}, {"runs": [run], "name": "one"}):
        with pytest.raises(Refused) as error:
            change(place, "cancel", **wrong)
        assert error.value.code == "invalid"
    assert place.connection.run(run).state == "running"
