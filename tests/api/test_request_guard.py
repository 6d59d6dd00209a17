"""What stands before every route: names, origins, sizes, roles; and errors that are always problem+json."""

import http.client
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.conftest import CHAIN, Running, until
from weft.api.access.auth import Caller, OneToken
from weft.client.owner_token import is_loopback
from weft.operations.declare import RANK, Operation
from weft.operations.table import OPERATIONS

TOKEN = "0123456789abcdef-secret"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8700", "localhost.evil.example", "", "a b", "[::1", "127.0.0.1.evil.example"],
)
def test_a_name_that_is_not_ours_is_refused(quiet: Running, host: str) -> None:
    """DNS rebinding: somebody's name that points at this machine."""
    answer = quiet.get("/v1/runs", Host=host)
    assert answer.status == 403 or (host in ("", "[::1") and answer.status == 400), answer
    assert quiet.get("/healthz", Host=host).status != 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:8700", "[::1]:8700", "192.168.1.7", socket.gethostname()]
)
def test_addresses_and_our_own_names_are_fine(quiet: Running, host: str) -> None:
    assert quiet.get("/v1/runs", Host=host).status == 200


def test_a_name_can_be_allowed(serving: Callable[..., Running]) -> None:
    server = serving(node=False, hosts=["Weft.Example"])
    assert server.get("/v1/runs", Host="weft.example:8700").status == 200
    assert server.get("/v1/runs", Host="other.example").code == "host"


def test_pages_of_other_origins_are_refused(quiet: Running) -> None:
    host = f"127.0.0.1:{quiet.port}"
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{quiet.port + 1}", "http://localhost"):
        assert quiet.post("/v1/tasks", {"run": "true"}, Origin=origin).code == "origin"
    assert quiet.post("/v1/tasks", {"run": "true"}, Origin=f"http://{host}").status == 201
    assert len(quiet.connection.runs()) == 1


def test_a_form_is_no_json(quiet: Running) -> None:
    """What a page may send without asking first starts nothing."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert quiet.post("/v1/tasks", {"run": "true"}, Content_Type=kind).code == "media_type"
    assert quiet.post("/v1/tasks", {"run": "true"}, Content_Type="application/json; charset=utf-8").status == 201


def test_large_bodies_are_refused_with_and_without_a_length(serving: Callable[..., Running]) -> None:
    server = serving(node=False, body_max=10_000)
    answer = server.client().post("/v1/runs", b" " * 10_001)
    assert answer.code == "too_large"
    assert answer.status == 413
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    chunks = (b"x" * 1000 for _ in range(20))
    connection.request("POST", "/v1/runs", chunks, {"Content-Type": "application/json"}, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()
    assert server.get("/v1/runs").status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422), (b"{", 400), (b"\xff\xfe", 400), (b"nul", 400), (b'{"definition":' + b"[" * 5000, 400),
        (b"null", 422), (b'{"definition": "\\ud800"}', 400), (b'{"definition": {"tasks": {"a": "\\u0000"}}}', 422),
        (b"[" * 100_000, 422), (b'{"definition": 1e999}', 422), (b'{"priority": 99999999999999999999999}', 422),
        (b'{"inputs": {"a": NaN}}', 400),
    ],
)  # fmt: skip
def test_what_is_no_json_or_not_ours_is_told(quiet: Running, body: bytes, status: int) -> None:
    answer = quiet.post("/v1/runs", body)
    assert answer.status == status, answer
    assert answer.code


def test_unknown_routes_and_methods_are_problems_too(quiet: Running) -> None:
    assert quiet.get("/v1/nothing").code == "no_route"
    answer = quiet.call("DELETE", "/v1/runs")
    assert answer.code == "method"
    assert answer.status == 405
    assert answer.headers["allow"]
    assert quiet.get("/doc").status == 404


def test_a_connection_that_breaks_off_hurts_nobody(quiet: Running) -> None:
    for text in (
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
        b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01 nonsense\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", quiet.port)) as connection:
            connection.sendall(text)
    assert quiet.get("/v1/runs").json == {"runs": [], "next": None}


def test_health_needs_no_token_and_says_little(serving: Callable[..., Running]) -> None:
    state: list[str | None] = ["not yet"]
    server = serving(node=False, gate=OneToken(TOKEN), ready=lambda: state[0])
    assert server.get("/healthz").json["status"] == "ok"
    assert server.get("/readyz").code == "not_ready"
    state[0] = None
    assert server.get("/readyz").status == 200


class Everybody:
    """The token is the role."""

    async def caller(self, token: str | None, request: object) -> Caller | None:
        return Caller(token, token) if token in ("viewer", "operator", "admin") else None  # type: ignore[arg-type]


ROUTES = OPERATIONS


@pytest.mark.parametrize("route", ROUTES, ids=[f"{route.method} {route.path}" for route in ROUTES])
def test_every_route_asks_for_its_role(serving: Callable[..., Running], route: Operation[Any, Any]) -> None:
    server = serving(node=False, gate=Everybody())
    names = {"run": "abc", "task": "a", "node": "n", "name": "w", "hash": "abcd", "stream": "stdout", "trigger": "t"}
    names["id"] = "abcd"
    names["code"] = "0" * 32
    names["other"] = names["backfill"] = "abd"
    names["event"], names["call"] = "1", "look"
    path = route.path.format(**names)
    if route.media == "text/event-stream":
        server.stop_streams()  # what is told from now on has no end otherwise
    for token in (None, "garbage", "viewer", "operator", "admin"):
        answer = server.client(token)(route.method, path, {} if route.body_type is not None else None)
        rank = RANK.get(token or "", 0)
        if route.role != "anyone" and rank == 0:
            assert answer.code == "unauthorized", (token, answer)
            assert answer.headers["www-authenticate"] == "Bearer"
        elif rank < RANK[route.role] or route.role == "worker":
            assert answer.code == "forbidden", (token, answer)
        else:
            hook = route.path.startswith("/v1/hooks/")  # it asks for a secret of its own
            assert answer.status not in ((403,) if hook else (401, 403)), (token, answer)


def test_reading_needs_a_viewer_and_changing_an_operator() -> None:
    for route in ROUTES:
        admins = route.path.startswith("/v1/tokens") or route.path in ("/v1/notifications/default", "/v1/audit")
        if admins:
            assert route.role == "admin"
        elif route.path in ("/v1/definitions:check", "/v1/runs:plan"):
            assert route.role == "viewer", "they change nothing; a definition is too long for an address"
        elif route.path == "/v1/sign-ins":
            assert route.role == "viewer", "a code stands for the token that asks for it, and for no more"
        elif route.path.startswith("/v1/workers/"):
            assert route.role == "worker"
        elif route.role != "anyone":
            assert (route.role == "viewer") == (route.method == "GET"), route
    assert {route.path for route in ROUTES if route.role == "anyone"} == {
        "/healthz", "/readyz", "/v1/hooks/{name}", "/v1/sign-ins/{code}",
    }  # fmt: skip


def test_one_token_opens_everything_and_no_other_does(serving: Callable[..., Running]) -> None:
    server = serving(node=False, gate=OneToken(TOKEN))
    assert server.client(TOKEN).post("/v1/runs", {"definition": CHAIN}).status == 201
    for token in (None, "", TOKEN[:-1], TOKEN + "x", "ü"):
        assert server.client(token).get("/v1/runs").status == 401
    answer = server.get("/v1/runs", Authorization=f"Basic {TOKEN}")
    assert answer.code == "unauthorized"


def test_which_addresses_are_this_machines_own() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "192.168.0.1", "weft.example", ""))


def test_an_observer_names_the_leader(serving: Callable[..., Running]) -> None:
    leading = serving()
    until(lambda: leading.connection.leader().session)
    from weft.client.local import StoreConnection
    from weft.operations.access import StoreAccess
    from weft.store.sqlite.driver import SqliteStore

    store = SqliteStore(leading.directory / ".weft" / "weft.db")
    server = serving(node=False, connection=StoreConnection(StoreAccess(store, role="observer")))
    answer = server.post("/v1/runs", {"definition": CHAIN})
    assert answer.status == 503
    assert answer.code == "observer"
    assert answer.headers["retry-after"]
    assert answer.json["leader"]["node"] == "here"
    assert server.get("/v1/runs").status == 200


def test_the_description_is_complete(quiet: Running) -> None:
    text = quiet.get("/openapi.json").json
    assert text["openapi"] == "3.1.0"
    assert {(m.upper(), p) for p, ms in text["paths"].items() for m in ms} == {(r.method, r.path) for r in ROUTES}
    names = set(text["components"]["schemas"])
    for reference in json.dumps(text).split('"#/components/schemas/')[1:]:
        assert reference.split('"')[0] in names
    for methods in text["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["x-weft-role"] in RANK
            for status, response in operation["responses"].items():
                kind = "application/problem+json" if int(status) >= 400 else None
                assert kind is None or kind in response["content"], operation
