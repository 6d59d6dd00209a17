"""Tasks, their attempts and their output; dead letters; events; workflows; nodes; the store."""

from typing import Any

import pytest

from tests.api.conftest import CHAIN, Running, until
from weft.core.rows import ORDINAL_BITS
from weft.operations.access import StoreAccess

FAILING: dict[str, Any] = {
    "name": "failing",
    "tasks": {"bad": {"run": "echo no >&2; exit 3", "retry": {"max": 1, "backoff": "1ms"}}},
}


def test_one_task_alone_is_run(server: Running) -> None:
    answer = server.post("/v1/tasks", {"argv": ["printf", "%s", "a b"], "timeout": "10s"}, Idempotency_Key="once")
    assert answer.status == 201
    run = answer.json["run"]
    assert server.ended(run)["name"] == "task"
    assert server.get(f"/v1/runs/{run}/tasks/task/output/stdout").body == b"a b"
    assert (
        server.post("/v1/tasks", {"argv": ["printf", "%s", "a b"], "timeout": "10s"}, Idempotency_Key="once").status
        == 200
    )
    bad = server.post("/v1/tasks", {"rum": "x"})
    assert bad.code == "definition"
    assert bad.json["errors"][0]["fix"] == "did you mean 'run'?"
    assert server.post("/v1/tasks", ["x"]).status == 422


def test_a_task_is_shown_with_its_attempts(server: Running) -> None:
    run = server.submit(FAILING)
    server.ended(run)
    found = server.get(f"/v1/runs/{run}/tasks/bad").json
    assert found["task"]["state"] == "dead_letter"
    assert [attempt["exit_code"] for attempt in found["attempts"]] == [3, 3]
    assert server.get(f"/v1/runs/{run}/tasks/bad/why").json["explanations"][0]["state"] == "dead_letter"
    assert server.get(f"/v1/runs/{run}/tasks/worse").status == 404
    assert server.get(f"/v1/runs/{run}/tasks/..").status in (404, 422)


def test_output_is_read_by_range(server: Running) -> None:
    run = server.submit({"name": "o", "tasks": {"a": {"run": "printf 0123456789"}}})
    server.ended(run)
    path = f"/v1/runs/{run}/tasks/a/output/stdout"
    whole = server.get(path)
    assert whole.body == b"0123456789"
    assert whole.headers["weft-ended"] == "true"
    assert (whole.headers["weft-size"], whole.headers["weft-next"], whole.headers["weft-attempt"]) == (
        "10",
        "10",
        "1",
    )
    assert server.get(f"{path}?offset=3&limit=4").body == b"3456"
    assert server.get(f"{path}?offset=-3").body == b"789"
    assert server.get(f"{path}?offset=10").body == b""
    assert server.get(f"{path}?attempt=2").status == 404
    assert server.get(f"/v1/runs/{run}/tasks/a/output/stderr").body == b""
    assert server.get(f"/v1/runs/{run}/tasks/a/output/passwords").status == 422


def test_output_can_be_read_while_it_is_written(server: Running) -> None:
    run = server.submit(
        {"name": "o", "tasks": {"a": {"run": "echo begun; while [ ! -e go ]; do sleep 0.01; done; echo done"}}}
    )
    path = f"/v1/runs/{run}/tasks/a/output/stdout"
    first = until(lambda: (answer := server.get(path)).status == 200 and answer.body and answer)
    assert first.body == b"begun\n"
    assert first.headers["weft-ended"] == "false"
    (server.directory / "go").touch()
    server.ended(run)
    rest = server.get(f"{path}?offset={first.headers['weft-next']}")
    assert (rest.body, rest.headers["weft-ended"]) == (b"done\n", "true")


def test_a_task_that_has_not_run_has_no_output(quiet: Running) -> None:
    run = quiet.submit(CHAIN)
    assert quiet.get(f"/v1/runs/{run}/tasks/a/output/stdout").status == 404


def test_tasks_are_listed_by_state_type_workflow_and_node(server: Running) -> None:
    first, second = server.submit(CHAIN), server.submit({**FAILING, "name": "other"})
    for run in (first, second):
        server.ended(run)

    def names(query: str) -> list[str]:
        return [f"{task['run_id']}/{task['name']}" for task in server.get(f"/v1/tasks?{query}").json["tasks"]]

    everything = [f"{first}/a", f"{first}/b", f"{second}/bad"]
    assert names("") == everything
    assert names("state=succeeded") == everything[:2]
    assert names("state=dead_letter&state=failed") == everything[2:]
    assert names("type=shell") == everything
    assert names("type=python") == []
    assert names("workflow=other") == everything[2:]
    assert names("node=here") == everything
    assert names("node=there") == []
    seen, path = [], "limit=1&type=shell"
    while path:
        page = server.get(f"/v1/tasks?{path}").json
        seen += [f"{task['run_id']}/{task['name']}" for task in page["tasks"]]
        path = f"limit=1&type=shell&cursor={page['next']}" if page["next"] else ""
    assert seen == everything
    assert [task["name"] for task in server.get(f"/v1/runs/{first}/tasks?state=succeeded").json["tasks"]] == [
        "a",
        "b",
    ]


def test_open_tasks_are_found_without_looking_at_finished_runs(
    quiet: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = quiet.connection.access
    begins: list[int] = []
    read = type(access).read

    def watched(self: StoreAccess, name: str, *parameters: Any) -> list[Any]:
        if name == "tasks_page":
            begins.append(parameters[0])
        return read(self, name, *parameters)

    monkeypatch.setattr(type(access), "read", watched)

    def found(query: str) -> list[tuple[str, str]]:
        return [(task["run_id"], task["name"]) for task in quiet.get(f"/v1/tasks?{query}").json["tasks"]]

    assert found("state=queued&state=running") == []
    old = quiet.submit(CHAIN)
    quiet.connection.cancel(old)
    assert (found("state=queued"), begins) == ([], [])
    new = quiet.submit(CHAIN)
    assert found("state=queued&state=pending") == [(new, "a"), (new, "b")]
    assert begins == [(quiet.connection.run(new).no << ORDINAL_BITS) - 1]
    assert found("state=queued&state=cancelled") == [(old, "a"), (old, "b"), (new, "a")]


def test_a_task_is_cancelled(server: Running) -> None:
    run = server.submit({"name": "long", "tasks": {"a": {"run": "sleep 600"}, "b": {"run": "true"}}})
    until(lambda: server.get(f"/v1/runs/{run}/tasks/a").json["task"]["state"] == "running")
    assert server.post(f"/v1/runs/{run}/tasks/a/cancel", {"reason": "enough"}).json["changed"] == 1
    assert server.ended(run)["state"] == "cancelled"
    assert server.get(f"/v1/runs/{run}/tasks/b").json["task"]["state"] == "succeeded"


def test_dead_letters_are_listed_and_retried(server: Running) -> None:
    run = server.submit({**FAILING, "tasks": {"bad": {**FAILING["tasks"]["bad"], "run": "test -e flag"}}})
    server.ended(run)
    (letter,) = server.get("/v1/dead").json["tasks"]
    assert (letter["run_id"], letter["name"]) == (run, "bad")
    assert server.post(f"/v1/runs/{run}/dead/retry", {"tasks": ["good"]}).status == 404
    (server.directory / "flag").touch()
    assert server.post(f"/v1/runs/{run}/dead/retry", {"tasks": ["bad"]}).json["changed"] == 1
    assert server.ended(run)["state"] == "succeeded"
    assert server.get("/v1/dead").json == {"tasks": [], "next": None}


def test_events_are_told_in_order_and_followed_by_their_number(server: Running) -> None:
    run = server.submit(CHAIN)
    server.ended(run)
    page = server.get(f"/v1/runs/{run}/events").json
    kinds = [event["kind"] for event in page["events"]]
    assert kinds[0] == "submitted"
    assert kinds.count("finished") == 2
    assert page["last"] == page["events"][-1]["seq"]
    rest = server.get(f"/v1/runs/{run}/events?cursor={page['next']}").json
    assert rest["events"] == []
    assert rest["last"] == page["last"]
    assert server.get(f"/v1/runs/{run}/events?kind=finished&task=b").json["events"][0]["task"] == "b"
    assert len(server.get(f"/v1/runs/{run}/events?after={page['events'][2]['seq']}").json["events"]) == len(kinds) - 3
    everything = server.get("/v1/events?limit=1000").json["events"]
    assert any(event["run_id"] is None for event in everything), "the cluster's own are among them"
    assert server.get("/v1/events?node=nobody").status == 404


def test_workflows_have_versions_and_differences(quiet: Running) -> None:
    assert quiet.get("/v1/workflows").json == {"workflows": [], "next": None}
    old = quiet.post("/v1/runs", {"definition": CHAIN}).json["workflow"]
    new = quiet.post("/v1/runs", {"definition": {**CHAIN, "on_failure": "continue"}}).json["workflow"]
    quiet.submit({**CHAIN, "name": "zebra"})
    listed = quiet.get("/v1/workflows?limit=1").json
    assert [(one["name"], one["hash"], one["versions"]) for one in listed["workflows"]] == [("chain", new, 2)]
    assert quiet.get(f"/v1/workflows?cursor={listed['next']}").json["workflows"][0]["name"] == "zebra"
    assert quiet.get("/v1/workflows/chain").json["document"]["on_failure"] == "continue"
    page = quiet.get("/v1/workflows/chain/versions?limit=1").json
    rest = quiet.get(f"/v1/workflows/chain/versions?cursor={page['next']}").json
    assert [one["hash"] for one in page["versions"] + rest["versions"]] == [new, old]
    assert quiet.get(f"/v1/workflows/chain/versions/{old[:10]}").json["hash"] == old
    diff = quiet.get(f"/v1/workflows/chain/diff?old={old[:12]}&new={new[:12]}").json["lines"]
    assert "+on_failure: continue" in diff
    assert quiet.get("/v1/workflows/chain/diff").json["lines"] == diff
    assert quiet.get(f"/v1/workflows/chain/diff?new={new[:6]}").json["lines"] == diff
    assert quiet.get(f"/v1/workflows/chain/diff?old={old}").json["lines"] == diff
    assert "has no version before" in quiet.get(f"/v1/workflows/chain/diff?new={old}").json["detail"]
    for path in ("chains", "chain/versions/ffff", f"chain/diff?old={old}&new=0000", "chains/versions"):
        assert quiet.get(f"/v1/workflows/{path}").status == 404, path


def test_nodes_and_what_they_did(server: Running) -> None:
    run = server.submit(CHAIN)
    server.ended(run)
    (node,) = server.get("/v1/nodes").json["nodes"]
    assert (node["node"], node["health"], node["slots"]) == ("here", "healthy", 4)
    assert server.get(f"/v1/nodes/{node['session'][:6]}").json["session"] == node["session"]
    work = server.get("/v1/nodes/here/workers").json
    assert (work["claims"], work["outcomes"], work["running"]) == (2, {"succeeded": 2}, [])
    assert work["active_at"] >= server.connection.run(run).created_at
    long = server.submit({"name": "long", "tasks": {"a": {"run": "sleep 600"}}})
    work = until(lambda: (found := server.get("/v1/nodes/here/workers").json)["running"] and found)
    (claim,) = work["running"]
    assert (claim["run_id"], claim["task"], claim["attempt"], work["claims"]) == (long, "a", 1, 3)
    assert claim["lease_expires_at"] > server.connection.now()
    server.post(f"/v1/runs/{long}/cancel")
    server.ended(long)
    assert server.get("/v1/nodes/nobody").status == 404
    assert until(lambda: server.get("/v1/leader").json["node"]) == "here"


def test_a_node_is_drained(server: Running) -> None:
    answer = server.post("/v1/nodes/here/drain", {"deadline_ms": 1000, "reason": "a new version"})
    assert answer.json["node"] == "here"
    until(lambda: server.get("/v1/nodes").json["nodes"] == [])
    assert server.post("/v1/nodes/here/drain").status == 404
    assert server.get("/v1/nodes?ended=true").json["nodes"][0]["health"] == "drained"
    assert server.post("/v1/nodes/here/drain", {"deadline_ms": -1}).status == 422


def test_the_store_and_its_pools(quiet: Running) -> None:
    quiet.submit(CHAIN)
    info = quiet.get("/v1/store").json
    assert (info["kind"], info["tasks"], info["runs"]) == ("sqlite", {"pending": 1, "queued": 1}, {"running": 1})
    assert quiet.get("/v1/pools").json == {"pools": [], "next": None}
    assert quiet.call("PUT", "/v1/pools/gpu", {"size": 2}).json == {
        "name": "gpu",
        "size": 2,
        "used": 0,
        "existing": False,
    }
    assert quiet.call("PUT", "/v1/pools/gpu", {"size": 0}).json["existing"] is True
    assert quiet.get("/v1/pools").json["pools"][0]["size"] == 0
    for body in ({"size": -1}, {"size": "2"}, {}, {"size": 10**12}):
        assert quiet.call("PUT", "/v1/pools/gpu", body).status == 422
    assert quiet.call("PUT", "/v1/pools/9", {"size": 1}).status == 422


@pytest.mark.parametrize("path", ["/v1/runs/last/tasks/a/output/stdout", "/v1/runs/last/events", "/v1/runs/last"])
def test_last_is_the_newest_run(server: Running, path: str) -> None:
    assert server.get(path).status == 404
    server.ended(server.submit(CHAIN))
    assert server.get(path).status == 200
