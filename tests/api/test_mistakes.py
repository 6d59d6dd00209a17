"""What a stranger reads who sent something wrong."""

from typing import Any

import pytest

from tests.api.conftest import Running, until

BODIES: list[tuple[str, Any, str, str | None]] = [
    ("/v1/runs", {"workflow": "w", "priorty": 1}, "there is no 'priorty' here", "did you mean 'priority'?"),
    ("/v1/runs", {"workflow": "w", "priority": "high"}, "priority: expected a whole number, found text", None),
    ("/v1/runs", {"workflow": "w", "priority": 99}, "priority: expected a whole number <= 10", None),
    ("/v1/runs", {"definition": "x", "format": "jsn"}, "format: expected one of yaml, json, found 'jsn'",
     "did you mean 'json'?"),
    ("/v1/runs", {"task": 3}, "task: expected text or an object or null, found a whole number", None),
    ("/v1/runs", {"workflow": "w", "labels": {"": "x"}}, "a key of labels: expected text of length >= 1", None),
    ("/v1/runs", [], "expected an object, found a list", None),
    ("/v1/runs:batch", {"runs": [{"workflow": "w", "key": "k", "input": {}}]}, "runs[0]: there is no 'input' here",
     "did you mean 'inputs'?"),
    ("/v1/runs/last/signal", {}, "'name' is missing", "it takes name, data, reject"),
    ("/v1/tokens", {"role": "veiwer", "label": "x", "expires_ms": None},
     "role: expected one of viewer, operator, admin, worker, found 'veiwer'", "did you mean 'viewer'?"),
]  # fmt: skip
STATES = "pending, running, succeeded, failed, cancelled"
QUERIES = [
    ("/v1/runs/A_B", "run: 'A_B' does not match ^[0-9a-z-]{1,64}$",
     "run is: A run's id, a unique beginning of one, or `last`"),
    ("/v1/runs?state=succeded", f"state: expected one of {STATES}, found 'succeded'",
     "did you mean 'succeeded'?"),
    ("/v1/runs?limit=0", "limit: expected at least 1, found '0'", "limit is: At most so many lines"),
    ("/v1/runs?limit=1e9", "limit: expected a whole number, found '1e9'", "limit is: At most so many lines"),
    ("/v1/nodes?ended=perhaps", "ended: expected true or false, found 'perhaps'",
     "ended is: Also those that ended"),
    ("/v1/workflows/w/diff?old=Abcd", "old: 'Abcd' does not match ^[0-9a-f]{4,64}$",
     "old is: A version's hash, or a unique beginning of it"),
    ("/v1/events?kinds=started", "this route takes no 'kinds' in its query", "did you mean 'kind'?"),
    ("/v1/runs?stat=failed", "this route takes no 'stat' in its query", "did you mean 'state'?"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "detail", "fix"), BODIES)
def test_of_a_body(quiet: Running, path: str, body: Any, detail: str, fix: str | None) -> None:
    answer = quiet.post(path, body)
    assert (answer.status, answer.code) == (422, "body")
    assert answer.json["detail"] == detail
    assert answer.json.get("fix") == fix
    (error,) = answer.json["errors"]
    assert error["message"] in detail
    assert detail.startswith(error["path"])


@pytest.mark.parametrize(("path", "detail", "fix"), QUERIES)
def test_of_a_path_or_a_query(quiet: Running, path: str, detail: str, fix: str) -> None:
    answer = quiet.get(path)
    assert answer.status == 422
    assert (answer.json["detail"], answer.json["fix"]) == (detail, fix)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/events?kind=runfinished", "run_finished"), ("/v1/runs/last/events?kind=assinged", "assigned"),
        ("/v1/events/stream?kind=finish", "finished"),
    ],
)  # fmt: skip
def test_a_filter_that_nothing_could_pass_is_refused(quiet: Running, path: str, meant: str) -> None:
    answer = quiet.get(path)
    assert (answer.status, answer.json["fix"]) == (422, f"did you mean {meant!r}?")


def test_what_was_sent_is_told_in_part_only(quiet: Running) -> None:
    answer = quiet.get("/v1/runs?state=" + "x" * 5000)
    assert len(answer.body) < 1000
    answer = quiet.post("/v1/runs", {"x" * 5000: 1})
    assert len(answer.body) < 1000


def test_names_that_were_nearly_right(server: Running) -> None:
    run = server.submit({"name": "w", "tasks": {"transform": {"run": "true"}}, "triggers": [{"every": "15m"}]})
    until(lambda: server.get("/v1/nodes").json["nodes"])
    for path, detail in [
        (f"/v1/runs/{run}/tasks/transfrom", "the run has no task transfrom; did you mean 'transform'?"),
        ("/v1/nodes/hree", "there is no node hree; did you mean 'here'?"),
    ]:
        answer = server.get(path)
        assert (answer.status, answer.json["detail"]) == (404, detail)


def test_where_nothing_is(quiet: Running) -> None:
    assert quiet.get("/v1/runz").json["fix"] == "/openapi.json has all routes"
    assert quiet.call("DELETE", "/v1/runs/last").json["fix"] == "/openapi.json has all routes"
    assert "weft[mcp]" in quiet.post("/mcp").json["fix"]
