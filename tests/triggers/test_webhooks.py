"""Webhooks as the server calls them: who may, what is followed, how often; one run for one delivery."""

import hashlib
import hmac
import json
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from weft.authoring.load import load_text
from weft.client.local import StoreConnection
from weft.node.attempts.secrets import Secrets
from weft.operations.access import StoreAccess
from weft.operations.webhooks import HookRefused, fire_webhook
from weft.store.sqlite.driver import SqliteStore

SECRET = "a secret that nobody knows"
HOOKS = """\
name: deploy
inputs: {ref: string}
triggers:
  - webhook: {name: push, secret: PUSH, if: "trigger.body.ref !== 'draft'", rate: 20/m}
    inputs: {ref: "${{ trigger.body.ref }}"}
  - webhook: {name: manual, token: TOKEN}
    inputs: {ref: "${{ trigger.body }}"}
tasks: {a: "true"}
"""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[StoreConnection]:
    made = StoreConnection(StoreAccess(SqliteStore(tmp_path / "weft.db")))
    made.apply(load_text(HOOKS))
    yield made
    made.close()


SECRETS = Secrets({"PUSH": SECRET, "TOKEN": "token-token"})


def signature(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def push(connection: StoreConnection, body: Any, **headers: str) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"X-Hub-Signature-256": signature(data), "X-GitHub-Delivery": uuid.uuid4().hex}
    given |= {k.replace("_", "-"): v for k, v in headers.items()}
    return fire_webhook(connection.access, "push", data, given, SECRETS)


def test_a_signed_call_makes_a_run(connection: StoreConnection) -> None:
    reply = push(connection, {"ref": "main"})
    assert reply.state == "started"
    run = connection.run(reply.run_id)
    assert (run.inputs, run.name) == ({"ref": "main"}, "deploy")
    assert connection.fires("deploy/webhook")[0].run == run.id


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"X-Hub-Signature-256": ""}, {"X-Hub-Signature-256": "sha256="}, {"X-Hub-Signature-256": "sha256=00"},
        {"X-Hub-Signature-256": signature(b"{}", "another")}, {"X-Hub-Signature-256": "sha1=" + "0" * 40},
        {"X-Hub-Signature-256": "\udcff"}, {"Authorization": f"Bearer {SECRET}"},
    ],
)  # fmt: skip
def test_a_call_without_the_right_signature_is_refused(connection: StoreConnection, headers: dict[str, str]) -> None:
    with pytest.raises(HookRefused) as caught:
        fire_webhook(connection.access, "push", b'{"ref": "main"}', headers, SECRETS)
    assert caught.value.status == 401
    with pytest.raises(HookRefused) as unknown:
        fire_webhook(connection.access, "nobody", b"{}", headers, SECRETS)
    assert (unknown.value.status, str(unknown.value)) == (401, str(caught.value)), "it tells nothing"
    assert connection.runs() == []


def test_a_signature_is_of_this_body(connection: StoreConnection) -> None:
    with pytest.raises(HookRefused):
        push(connection, b'{"ref": "main"}', X_Hub_Signature_256=signature(b'{"ref": "evil"}'))
    assert push(connection, b'{"ref": "x"}', X_Weft_Signature=signature(b'{"ref": "x"}')[7:]).state == "started"


def test_a_token(connection: StoreConnection) -> None:
    def call(given: str) -> Any:
        return fire_webhook(connection.access, "manual", b"plain text", {"authorization": given}, SECRETS)

    for wrong in ("", "Bearer", "Bearer ", "Bearer token-toke", "token-token", "Basic token-token", "Bearer \u2603"):
        with pytest.raises(HookRefused, match="no such webhook"):
            call(wrong)
    assert connection.run(call("bearer token-token").run_id).inputs == {"ref": "plain text"}


def test_a_condition_that_is_false_runs_nothing_and_one_that_fails_says_so(connection: StoreConnection) -> None:
    assert push(connection, {"ref": "draft"}).state == "ignored"
    with pytest.raises(HookRefused, match="if: ") as caught:
        push(connection, b"null")
    assert caught.value.status == 422
    assert connection.runs() == []


def test_inputs_that_do_not_fit_fail_the_fire(connection: StoreConnection) -> None:
    reply = push(connection, {"ref": 5})
    assert (reply.state, reply.run_id) == ("failed", None)
    assert "takes text" in reply.data["reason"]


def test_one_run_for_one_delivery(connection: StoreConnection) -> None:
    replies: list[Any] = []

    def call() -> None:
        replies.append(push(connection, {"ref": "main"}, X_GitHub_Delivery="d-1"))

    threads = [threading.Thread(target=call) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 10
    assert len({reply.run_id for reply in replies}) == 1
    assert len(connection.runs()) == 1
    with pytest.raises(HookRefused) as caught:
        push(connection, {"ref": "main"}, X_GitHub_Delivery="x" * 201)
    assert caught.value.status == 400


def timed(connection: StoreConnection, body: bytes, at: int, delivery: str = "", **changed: str) -> Any:
    """Signed with a time, as our own callers do it."""
    given = {"X-Weft-Timestamp": str(at), "X-Weft-Signature": signature(f"{at}.{delivery}.".encode() + body)}
    if delivery:
        given["X-Weft-Delivery"] = delivery
    given |= {name.replace("_", "-"): value for name, value in changed.items()}
    return fire_webhook(connection.access, "push", body, given, SECRETS)


def test_a_delivery_that_is_signed_needs_an_id_or_a_time(connection: StoreConnection) -> None:
    body = b'{"ref": "main"}'
    with pytest.raises(HookRefused, match="needs an id") as caught:
        fire_webhook(connection.access, "push", body, {"X-Hub-Signature-256": signature(body)}, SECRETS)
    assert caught.value.status == 400
    assert connection.runs() == []


def test_a_replay_of_a_signed_time_starts_no_second_run(connection: StoreConnection, tmp_path: Path) -> None:
    body, now = b'{"ref": "main"}', int(time.time())
    first = timed(connection, body, now)
    # Another server, or this one after a restart.
    other = StoreConnection(StoreAccess(SqliteStore(tmp_path / "weft.db")))
    again = timed(other, body, now)
    assert (first.existing, again.existing, again.run_id) == (False, True, first.run_id)
    for changed in (
        {"X_Weft_Timestamp": str(now + 1)},
        {"X_Weft_Delivery": "another"},
        {"Idempotency_Key": "another"},
    ):
        with pytest.raises(HookRefused) as caught:
            timed(other, body, now, **changed)
        assert caught.value.status == 401, "its time and its id are signed with it"
    assert timed(other, body, now + 1).run_id != first.run_id
    named = [timed(one, body, now + late, "d-7").run_id for one, late in ((connection, 0), (other, 2))]
    assert len(set(named)) == 1, "tried again by its sender, at another time"
    assert len(connection.runs()) == 3
    other.close()


@pytest.mark.parametrize("late_s", [-3600, -400, 400, 10**15])
def test_a_time_that_is_not_now_is_refused(connection: StoreConnection, late_s: int) -> None:
    with pytest.raises(HookRefused, match="X-Weft-Timestamp") as caught:
        timed(connection, b'{"ref": "main"}', int(time.time()) + late_s, "d-1")
    assert caught.value.status == 400
    assert connection.runs() == []


def test_a_rate(connection: StoreConnection) -> None:
    for number in range(20):
        push(connection, {"ref": str(number)})
    with pytest.raises(HookRefused) as caught:
        push(connection, {"ref": "one more"})
    assert caught.value.status == 429


def test_what_else_is_refused(connection: StoreConnection) -> None:
    with pytest.raises(HookRefused) as large:
        push(connection, b"x" * (2**20 + 1))
    assert large.value.status == 413
    with pytest.raises(HookRefused) as unset:
        fire_webhook(connection.access, "push", b"{}", {}, Secrets({}))
    assert unset.value.status == 503
    assert "PUSH" not in str(unset.value)
    assert "PUSH" in unset.value.detail
    connection.pause_trigger("deploy/webhook")
    with pytest.raises(HookRefused) as paused:
        push(connection, {"ref": "main"})
    assert paused.value.status == 409
    connection.apply(load_text("name: deploy\ntasks: {a: 'true'}\n"))
    with pytest.raises(HookRefused, match="no such webhook"):
        push(connection, {"ref": "main"})


def test_by_hand(connection: StoreConnection) -> None:
    connection.pause_trigger("deploy/webhook")
    reply = connection.fire("deploy/webhook", {"ref": "by hand"})
    assert connection.run(str(reply.run)).inputs == {"ref": "by hand"}
