"""Workflows that are applied, and their triggers: the same on a store and through a server."""

import pytest

from tests.client.conftest import Place
from weft.authoring.load import load_value
from weft.operations.errors import NotFound

TIMED = {
    "name": "timed",
    "tasks": {"a": {"run": "true"}},
    "triggers": [{"name": "nightly", "cron": "0 2 * * *"}, {"name": "often", "every": "1h"}],
}


def test_apply_list_pause_and_fire(place: Place) -> None:
    connection, source = place.connection, str(place.directory)
    reply = connection.apply(load_value(TIMED), source, "a test")
    assert (reply.existing, reply.triggers) == (False, 2)
    assert reply.added == ["nightly", "often"]
    assert connection.apply(load_value(TIMED), source).existing
    assert connection.applied() == place.store.applied() == {"timed": reply.hash}
    assert connection.triggers() == place.store.triggers()
    assert connection.triggers("other") == []
    assert [one.what for one in connection.triggers()] == ["0 2 * * * UTC", "every 1h"]
    assert connection.trigger("often").id == connection.trigger("timed/often").id == "timed/often"
    with pytest.raises(NotFound, match="could be any of"):
        connection.trigger("timed")
    with pytest.raises(NotFound, match="did you mean timed/nightly"):
        connection.trigger("timed/nightl")
    assert not connection.pause_trigger("nightly").existing
    assert connection.pause_trigger("nightly").existing
    assert connection.trigger("nightly").paused
    assert not connection.pause_trigger("nightly", paused=False).existing
    fired = connection.fire("nightly")
    assert fired.run is not None
    assert fired.outcome == "started"
    assert fired.trigger == "timed/nightly"
    assert fired.reason is None
    assert [fire.run for fire in connection.fires("nightly")] == [fired.run]
    assert [at["trigger"] for at in connection.next_times("nightly", 3)] == ["timed/nightly"] * 3


def test_a_request_to_fire_said_twice_fires_once(place: Place) -> None:
    place.connection.apply(load_value(TIMED), str(place.directory))
    fired = [place.connection.for_request("request-1").fire("nightly") for _ in range(2)]
    assert [reply.existing for reply in fired] == [False, True]
    assert [run.id for run in place.store.runs()] == [fired[0].run] == [fired[1].run]
