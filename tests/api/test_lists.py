"""Lists that are read whole are told in pages all the same; a client that wants all of it gets all of it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.conftest import CHAIN, Running
from weft.client import verbs as protocol
from weft.client.remote import ServerConnection

NAMES = ["one", "three", "two"]


def filled(server: Running) -> None:
    for name in reversed(NAMES):
        server.connection.set_pool(name, 1)
        server.connection.create_token(name, "viewer")
        triggers = [{"name": "often", "every": "1h"}]
        answer = server.call(
            "PUT", f"/v1/workflows/{name}", {"definition": {**CHAIN, "name": name, "triggers": triggers}}
        )
        assert answer.status == 200, answer


#: (path, field, a line's name), each of three lines; and what a client gets
LISTS: list[tuple[str, str, Callable[[Any], str], Callable[[ServerConnection], Any]]] = [
    ("/v1/pools", "pools", lambda one: one["name"], lambda connection: [one.name for one in connection.pools()]),
    ("/v1/tokens", "tokens", lambda one: one["label"], lambda connection: [one.label for one in connection.tokens()]),
    ("/v1/triggers", "triggers", lambda one: one["workflow"],
     lambda connection: [one.workflow for one in connection.triggers()]),
    ("/v1/applied", "current", str, lambda connection: list(connection.applied())),
]  # fmt: skip


@pytest.mark.parametrize(("path", "field", "name", "whole"), LISTS, ids=[path for path, *_ in LISTS])
def test_pages_of_a_list(
    quiet: Running,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    field: str,
    name: Callable[[Any], str],
    whole: Callable[[ServerConnection], Any],
) -> None:
    assert quiet.get(path).json["next"] is None
    assert quiet.get(f"{path}?cursor=W10").status == 422
    filled(quiet)
    first = quiet.get(f"{path}?limit=2").json
    rest = quiet.get(f"{path}?limit=2&cursor={first['next']}").json
    assert (len(first[field]), len(rest[field]), rest["next"]) == (2, 1, None)
    assert sorted(name(one) for one in [*first[field], *rest[field]]) == NAMES
    assert quiet.get(f"{path}?limit=3").json["next"] is None
    monkeypatch.setattr(protocol, "PAGE", 2)
    connection = ServerConnection(f"http://127.0.0.1:{quiet.port}", None)
    quiet.close_with_me(connection)
    assert sorted(whole(connection)) == NAMES
