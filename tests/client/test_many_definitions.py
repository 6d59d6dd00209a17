"""A process that is given ever new definitions keeps only some of them at hand, and loses none."""

import pytest

from tests.client.conftest import Place
from weft.node import committer


@pytest.mark.parametrize("limit", ["KNOWN_MAX", "KNOWN_TASKS_MAX"])
def test_what_is_kept_is_bounded_and_the_rest_is_read_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(committer, limit, 5)
    runs = [place.submit({"name": f"w{n}", "tasks": {"a": {"run": f"echo {n}"}}}) for n in range(30)]
    known = place.store.link.committer.workflows
    assert len(known) <= 6
    assert known.tasks == len(known)
    place.work()
    assert {place.ended(run) for run in runs} == {"succeeded"}
    assert place.connection.read_output(runs[0], "a", 1, "stdout").data == b"0\n"
    assert len(known) <= 5 + len(runs)  # one exchange may need them all
    place.submit({"name": "last", "tasks": {"a": {"run": "true"}}})
    assert all(place.connection.verify(run).ok for run in runs)
