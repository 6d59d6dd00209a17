"""`weft show --at` and `weft why --at`: a run as it was after one of its events, in the store of `history`."""

from tests.cli.conftest import Weft


def test_a_run_as_it_was(call: Weft) -> None:
    first = str(call("events", "last", "--json").lines[0]["seq"])
    shown = call("show", "last", "--at", first)
    assert shown.code == 0, shown
    assert "as of" in shown.out
    assert "event 1 of" in shown.out
    assert "succeeded" not in shown.out
    assert "it waits for first" in call("show", "last", "good", "--at", first).out
    assert "it waits for first" in call("why", "last", "good", "--at", first).out
    assert call("show", "last", "--at", first, "--json").json["past"]["event"]["kind"] == "submitted"
    assert "no event up to 0" in call("show", "last", "--at", "0").err
    assert "--definition is of a whole run" in call("show", "last", "--definition", "--at", first).err
