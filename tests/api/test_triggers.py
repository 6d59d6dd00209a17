"""Triggers over HTTP, and webhooks: callers that have a secret of their own and no token."""

import hashlib
import hmac
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Running
from weft.node.attempts.secrets import Secrets

SECRET = "a secret that is long enough"
DEFINITION = {
    "name": "deploy",
    "inputs": {"ref": {"type": "string", "default": "none"}},
    "triggers": [
        {
            "name": "push",
            "webhook": {"name": "pushed", "secret": "HOOK", "if": "trigger.body.ref != 'skip'"},
            "inputs": {"ref": "${{ trigger.body.ref }}"},
        },
        {"name": "nightly", "cron": "0 3 * * *", "timezone": "Europe/Berlin"},
    ],
    "tasks": {"t": {"run": "echo $ref", "env": {"ref": "${{ inputs.ref }}"}}},
}  # fmt: skip


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "served", secrets=Secrets({"HOOK": SECRET}))
    try:
        answer = running.call("PUT", "/v1/workflows/deploy", {"definition": DEFINITION})
        assert answer.status == 200, answer
        assert sorted(answer.json["added"]) == ["nightly", "push"]
        yield running
    finally:
        running.close()


def hook(server: Running, body: Any, method: str = "POST", **headers: str) -> Any:
    data = json.dumps(body).encode()
    signed = "sha256=" + hmac.new(SECRET.encode(), data, hashlib.sha256).hexdigest()
    given = {"X_Weft_Signature": signed, "X_GitHub_Delivery": uuid.uuid4().hex, **headers}
    return server.call(method, "/v1/hooks/pushed", data, **given)


def test_a_signed_call_starts_a_run_with_its_body_as_input(server: Running) -> None:
    answer = hook(server, {"ref": "main"})
    assert answer.status == 202, answer
    assert server.ended(answer.json["run"])["state"] == "succeeded"
    assert server.connection.run(answer.json["run"]).inputs == {"ref": "main"}


def test_a_delivery_that_comes_again_starts_nothing(server: Running) -> None:
    first = hook(server, {"ref": "main"}, Idempotency_Key="d1")
    again = hook(server, {"ref": "main"}, Idempotency_Key="d1")
    assert (first.status, again.status) == (202, 200)
    assert again.json["existing"]
    assert first.json["run"] == again.json["run"]


def test_a_hook_takes_put_as_well(server: Running) -> None:
    answer = hook(server, {"ref": "main"}, "PUT")
    assert answer.status == 202, answer
    assert server.connection.run(answer.json["run"]).inputs == {"ref": "main"}
    assert hook(server, {"ref": "main"}, "PUT", X_GitHub_Delivery="").code == "delivery"


@pytest.mark.parametrize("signature", ["", "sha256=00", "nonsense"])
def test_a_call_that_is_not_signed_learns_nothing(server: Running, signature: str) -> None:
    wrong = hook(server, {"ref": "main"}, X_Weft_Signature=signature)
    unknown = server.post("/v1/hooks/unknown", {})
    assert (wrong.status, wrong.code) == (unknown.status, unknown.code) == (401, "unauthorized")
    assert wrong.json["detail"] == unknown.json["detail"]
    assert server.connection.runs() == []


def test_a_condition_that_does_not_hold_ignores_the_call(server: Running) -> None:
    answer = hook(server, {"ref": "skip"})
    assert (answer.status, answer.json["outcome"], answer.json["run"]) == (200, "ignored", None)


def test_a_secret_that_the_server_has_not_is_its_own_fault(tmp_path: Path) -> None:
    running = Running(tmp_path / "served", node=False)
    try:
        assert running.call("PUT", "/v1/workflows/deploy", {"definition": DEFINITION}).status == 200
        answer = hook(running, {})
        assert (answer.status, answer.code) == (503, "secret_missing")
    finally:
        running.close()


def test_triggers_are_listed_paused_and_fired(server: Running) -> None:
    assert [one["id"] for one in server.get("/v1/triggers").json["triggers"]] == ["deploy/nightly", "deploy/push"]
    times = server.get("/v1/triggers/deploy/nightly/next?count=3").json["times"]
    assert [time["time"][11:16] for time in times] == ["03:00"] * 3
    assert server.post("/v1/triggers/deploy/nightly/pause").status == 200
    assert server.get("/v1/triggers/deploy/nightly").json["paused"] is True
    fired = server.post("/v1/triggers/deploy/nightly/fire").json
    assert fired["outcome"] == "started"
    assert server.ended(fired["run"])["state"] == "succeeded"
    fires = server.get("/v1/triggers/deploy/nightly/fires").json["fires"]
    assert [fire["run"] for fire in fires] == [fired["run"]]
    assert server.post("/v1/triggers/deploy/nightly/resume").status == 200
    assert server.get("/v1/triggers/deploy/nightly").json["next_at"] is not None
    assert server.post("/v1/triggers/deploy/push/pause").status == 200
    assert hook(server, {"ref": "main"}).code == "paused"


def test_what_is_wrong_with_a_definition_is_said_with_its_place(server: Running) -> None:
    bad = {**DEFINITION, "triggers": [{"cron": "61 * * * *"}]}
    answer = server.call("PUT", "/v1/workflows/deploy", {"definition": bad})
    assert (answer.status, answer.code) == (422, "definition")
    other = server.call("PUT", "/v1/workflows/other", {"definition": DEFINITION})
    assert (other.status, other.code) == (409, "conflict")
    assert server.get("/v1/triggers/deploy/nothing").status == 404


def test_who_calls_too_often_is_told_when_to_come_back(server: Running) -> None:
    limited = {**DEFINITION, "triggers": [{"webhook": {"name": "pushed", "secret": "HOOK", "rate": "2/h"}}]}
    assert server.call("PUT", "/v1/workflows/deploy", {"definition": limited}).status == 200
    assert [hook(server, {"n": n}).status for n in range(2)] == [202, 202]
    third = hook(server, {"n": 3})
    assert (third.status, third.code) == (429, "rate_limited")
    assert 3500 < int(third.headers["retry-after"]) <= 3600
