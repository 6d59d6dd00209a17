"""Tokens: made, shown once, kept as a hash; what they may; how long they are believed; who is not listened to."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.api.conftest import CHAIN, Running
from weft.api.access.token_gate import (
    ADDRESSES_MAX,
    BELIEVED_S,
    FAILURE_EVERY_S,
    FAILURES_MAX,
    KNOWN_MAX,
    Failures,
    Tokens,
)
from weft.client.local import StoreConnection
from weft.client.remote import ServerConnection
from weft.core.commands import Refused
from weft.operations.access import StoreAccess
from weft.operations.errors import Ambiguous, NotFound
from weft.operations.errors import ApiError as Trouble
from weft.operations.replies import TokenInfo
from weft.store.protocol import StoreBusy
from weft.store.sqlite.driver import SqliteStore


@pytest.fixture
def connection(tmp_path: Path) -> StoreConnection:
    return StoreConnection(StoreAccess(SqliteStore(tmp_path / ".weft" / "weft.db")))


def events(connection: StoreConnection, *kinds: str) -> list[dict[str, Any]]:
    return [event.data for event in connection.events(None, kinds=list(kinds))]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Asking:
    """A gate asked without a server: who comes from which address."""

    def __init__(self, holder: Callable[[str], TokenInfo | None], one: str | None = None) -> None:
        self.clock = Clock()
        self.asked = 0

        def counted(token: str) -> TokenInfo | None:
            self.asked += 1
            return holder(token)

        self.gate = Tokens(counted, one, clock=self.clock)

    def __call__(self, token: str | None, address: str = "10.0.0.1") -> str | None:
        async def off_loop(work: Callable[[], Any]) -> Any:
            return work()

        state = SimpleNamespace(off_loop=off_loop)
        request: Any = SimpleNamespace(client=SimpleNamespace(host=address), app=SimpleNamespace(state=state))
        try:
            caller = asyncio.run(self.gate.caller(token, request))
        except Trouble as trouble:
            return f"wait {trouble.headers['Retry-After']}" if trouble.problem.status == 429 else str(trouble)
        return None if caller is None else f"{caller.role} {caller.name}"


def test_only_a_hash_is_kept_and_nothing_else_opens(connection: StoreConnection, tmp_path: Path) -> None:
    made = connection.create_token("of ann", "operator")
    secret = made.token.split("_")[2]
    assert len(bytes.fromhex(secret)) == 32
    found = connection.token_holder(made.token)
    assert found is not None
    assert (found.id, found.label, found.role) == (made.id, "of ann", "operator")
    for wrong in (made.token[:-1], made.token + "0", secret, f"weft_{made.id}_", "", "weft__", "ü_ü_ü", "w" * 10_000):
        assert connection.token_holder(wrong) is None
    connection.close()
    for file in (tmp_path / ".weft").iterdir():
        if file.is_file():
            assert secret.encode() not in file.read_bytes()


def test_revoked_and_expired_ones_open_nothing(connection: StoreConnection) -> None:
    good, short, gone = (connection.create_token(label, "viewer", ms) for label, ms in
                         (("good", 3_600_000), ("short", 1), ("gone", None)))  # fmt: skip
    assert not connection.revoke_token(gone.id[:6]).existing
    assert connection.revoke_token("gone").existing
    while connection.now() <= (short.expires_at or 0):
        pass
    assert [connection.token_holder(one.token) is not None for one in (good, short, gone)] == [True, False, False]
    assert {one.label: one.state for one in connection.tokens()} == {
        "good": "valid",
        "short": "expired",
        "gone": "revoked",
    }
    with pytest.raises(NotFound):
        connection.revoke_token("nobody")
    connection.create_token("good", "viewer")
    with pytest.raises(Ambiguous):
        connection.revoke_token("good")


def test_a_token_is_believed_for_a_moment_only(connection: StoreConnection) -> None:
    asking = Asking(connection.token_holder)
    made = connection.create_token("x", "viewer")
    assert [asking(made.token) for _ in range(3)] == [f"viewer {made.id} x"] * 3
    assert asking.asked == 1
    connection.revoke_token(made.id)
    assert asking(made.token) is not None
    asking.clock.now += BELIEVED_S
    assert asking(made.token) is None
    assert asking.asked == 2


def test_the_one_from_the_environment_is_an_admin_beside_the_others(connection: StoreConnection) -> None:
    asking = Asking(connection.token_holder, "0123456789abcdef")
    made = connection.create_token("x", "viewer")
    assert asking("0123456789abcdef") == "admin WEFT_TOKEN"
    assert asking(made.token) == f"viewer {made.id} x"
    assert asking(None) is None
    assert asking("0123456789abcdeF") is None


def test_whoever_keeps_guessing_is_not_listened_to(connection: StoreConnection) -> None:
    asking = Asking(connection.token_holder)
    good, late = connection.create_token("good", "viewer"), connection.create_token("late", "viewer")
    assert asking(good.token) is not None
    assert [asking(f"weft_{good.id}_{n}") for n in range(FAILURES_MAX)] == [None] * FAILURES_MAX
    asked = asking.asked
    assert asking("weft_x_y") == "wait 6"
    assert asking(late.token) == "wait 6"
    assert asking.asked == asked
    asking.clock.now += BELIEVED_S
    assert asking(good.token) is not None, "it was good lately: many may share an address"
    assert asking(late.token, "10.0.0.2") is not None
    assert asking(None) is None, "no token is no guess"
    asking.clock.now += FAILURE_EVERY_S
    assert asking("weft_x_y") is None
    assert str(asking("weft_x_y")).startswith("wait")
    asking.clock.now += FAILURE_EVERY_S * (FAILURES_MAX + 1)
    assert [asking("weft_x_y") for _ in range(FAILURES_MAX)] == [None] * FAILURES_MAX


def test_what_is_remembered_is_bounded(connection: StoreConnection) -> None:
    clock = Clock()
    failures = Failures(clock)
    for n in range(ADDRESSES_MAX + 100):
        failures.failed(f"10.0.{n >> 8}.{n & 255}")
    assert len(failures) == ADDRESSES_MAX
    info = TokenInfo(
        id="x", label="", role="viewer", state="valid", created_at=0, expires_at=None, revoked_at=None
    )  # fmt: skip
    asking = Asking(lambda token: info)
    for n in range(KNOWN_MAX + 10):
        asking(str(n))
    assert len(asking.gate._known) == KNOWN_MAX


def test_over_http_an_admin_makes_lists_and_revokes(
    serving: Callable[..., Running], connection: StoreConnection
) -> None:
    server = serving(node=False, connection=connection, gate=Tokens(connection.token_holder, "0123456789abcdef"))
    admin = server.client("0123456789abcdef")
    answer = admin.post("/v1/tokens", {"role": "operator", "label": "ci", "expires_ms": 3_600_000})
    assert answer.status == 201
    made = answer.json
    operator = server.client(made["token"])
    run = operator.post("/v1/runs", {"definition": CHAIN}).json["run"]
    assert operator.get("/v1/tokens").code == "forbidden"
    assert operator.post("/v1/tokens", {"role": "admin", "label": "x", "expires_ms": None}).code == "forbidden"
    assert operator.post(f"/v1/runs/{run}/cancel").status == 200
    (listed,) = admin.get("/v1/tokens").json["tokens"]
    assert listed["state"] == "valid"
    assert made["token"] not in str(listed)
    assert admin.post(f"/v1/tokens/{made['id']}/revoke").json["existing"] is False
    assert admin.post(f"/v1/tokens/{made['id']}/revoke").json["existing"] is True
    assert admin.post("/v1/tokens/0000/revoke").status == 404
    for body in ({"role": "root", "label": "x", "expires_ms": 1}, {"role": "viewer", "label": "", "expires_ms": 1},
                 {"role": "viewer", "label": "x"}, {"role": "viewer", "label": "x", "expires_ms": 0}):  # fmt: skip
        assert admin.post("/v1/tokens", body).status == 422
    who = f"{made['id']} ci"
    assert [data["actor"] for data in events(connection, "submitted", "stopped")] == [who, who]
    assert [data["actor"] for data in events(connection, "token_created", "token_revoked")] == ["WEFT_TOKEN"] * 2


def test_who_changed_what_leaves_no_event_is_told_too(
    serving: Callable[..., Running], connection: StoreConnection
) -> None:
    server = serving(node=False, connection=connection)
    assert server.call("PUT", "/v1/pools/p", {"size": 3}).status == 200
    assert server.post("/v1/runs:batch", {"runs": [{"definition": CHAIN}]}).status in (200, 201, 404)
    assert events(connection, "asked") == [
        {"actor": "local", "command": "set_pool", "name": "p", "size": 3, "renew": False}
    ]
    before = len(events(connection, "asked"))
    server.post("/v1/runs:prune", {"before": 1})
    assert len(events(connection, "asked")) == before, "nothing was changed"


def test_too_many_wrong_tokens_are_429_with_a_time(
    serving: Callable[..., Running], connection: StoreConnection
) -> None:
    server = serving(node=False, connection=connection, gate=Tokens(connection.token_holder))
    stranger = server.client("weft_0000_guess")
    answers = [stranger.get("/v1/runs").status for _ in range(FAILURES_MAX + 1)]
    assert answers == [401] * FAILURES_MAX + [429]
    answer = stranger.get("/v1/runs")
    assert answer.code == "too_many_failures"
    assert int(answer.headers["retry-after"]) >= 1
    assert server.get("/healthz").status == 200


@pytest.mark.parametrize("label", ["ci\n", "\x1b[31mred", "", "x" * 101])
def test_a_label_is_one_line_of_text(connection: StoreConnection, label: str) -> None:
    with pytest.raises(Refused, match="a label has 1 to 100 characters"):
        connection.create_token(label, "viewer")
    assert connection.tokens() == []


def test_who_has_shown_no_token_learns_nothing_of_the_store(
    serving: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*args: Any) -> Any:
        raise StoreBusy("postgresql://weft@db.internal/weft does not answer: connection refused")

    server = serving(node=False, gate=Tokens(silent))
    monkeypatch.setattr(server.connection, "last_event", silent)
    monkeypatch.setattr("weft.api.hooks.fire_webhook", silent)
    monkeypatch.setattr(server.connection, "for_request", lambda *args: server.connection)
    answers = [
        server.get("/readyz"), server.client("of-no-use").get("/v1/runs"), server.post("/v1/hooks/push", {}),
        server.get("/healthz"),
    ]  # fmt: skip
    assert [answer.status for answer in answers] == [503, 503, 503, 200]
    for answer in answers[:3]:
        assert (answer.code, answer.json["detail"]) == ("store_busy", "the store does not answer")
        assert int(answer.headers["retry-after"]) > 0
    assert answers[3].json.keys() == {"status", "version"}


def test_the_words_for_a_token_that_will_not_do(serving: Callable[..., Running], connection: StoreConnection) -> None:
    server = serving(node=False, connection=connection, gate=Tokens(connection.token_holder))
    made = connection.create_token("looks", "viewer")
    looks = server.client(made.token)
    refused = looks.post("/v1/tasks", {"run": "true"})
    assert (refused.status, refused.json["fix"]) == (403, "use a token with that role")
    assert server.get("/v1/runs").json["fix"] == "send the header Authorization: Bearer TOKEN"
    unknown = server.client("weft_00000000_nonsense").get("/v1/runs")
    assert (unknown.status, unknown.json["detail"]) == (
        401, "this token is not known here, has expired, or was revoked"
    )  # fmt: skip


def test_a_caller_learns_who_it_is_and_what_it_may(serving: Callable[..., Running], tmp_path: Path) -> None:
    store = StoreConnection(StoreAccess(SqliteStore(tmp_path / "s" / ".weft" / "weft.db")))
    made = store.create_token("of ann", "operator")
    server = serving(node=False, connection=store, gate=Tokens(store.token_holder, "0123456789abcdef"))
    url = f"http://127.0.0.1:{server.port}"
    for token, found in ((made.token, ("of ann", "operator")), ("0123456789abcdef", ("WEFT_TOKEN", "admin"))):
        remote = ServerConnection(url, token)
        caller = remote.caller()
        assert (caller.role, found[0] in caller.name) == (found[1], True)
        store.access.role = "observer"
        assert remote.caller().role == "viewer"
        assert store.caller().role == "viewer"
        store.access.role = "auto"
        remote.close()
    assert store.caller().role == "admin"
    assert server.get("/v1/caller").status == 401
