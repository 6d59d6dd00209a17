"""Runs over HTTP: started, looked at, and changed in their course."""

import threading
from typing import Any

import pytest

from tests.api.conftest import CHAIN, Answer, Running, until


def test_a_definition_is_run_and_its_result_can_be_read(server: Running) -> None:
    definition = {
        "name": "sum", "inputs": {"n": {"type": "integer"}},
        "tasks": {"double": {"run": 'echo "[$((N * 2))]" > $WEFT_OUTPUT', "env": {"N": "${{ inputs.n }}"}}},
        "output": "${{ tasks.double.output[0] }}",
    }  # fmt: skip
    answer = server.post("/v1/runs", {"definition": definition, "inputs": {"n": 21}, "labels": {"team": "x"}})
    assert answer.status == 201
    run = answer.json["run"]
    assert answer.headers["location"] == f"/v1/runs/{run}"
    assert server.ended(run)["state"] == "succeeded"
    assert server.get(f"/v1/runs/{run}/output").json == {"output": 42, "error": None}
    detail = server.get(f"/v1/runs/{run}").json
    assert detail["run"]["inputs"] == {"n": 21}
    assert [task["name"] for task in detail["tasks"]] == ["double"]
    assert detail["next"] is None


def test_a_text_in_yaml_is_run_as_the_command_line_runs_it(server: Running) -> None:
    run = server.submit("name: y\ntasks:\n  a: echo $PWD\n")
    server.ended(run)
    assert server.get(f"/v1/runs/{run}/tasks/a/output/stdout").body.decode().strip() == str(server.directory)
    run = server.submit("- echo a\n- echo b\n", name="bare")
    assert server.ended(run)["name"] == "bare"


def test_mistakes_of_a_definition_come_with_line_column_and_fix(quiet: Running) -> None:
    answer = quiet.post(
        "/v1/runs", {"definition": "name: x\ntasks:\n  a: {rum: echo}\n  b: {needs: [c], run: 'true'}\n"}
    )
    assert answer.status == 422
    assert answer.code == "definition"
    first, second = answer.json["errors"]
    assert (first["line"], first["column"], first["fix"]) == (3, 7, "did you mean 'run'?")
    assert second["line"] == 4
    assert not quiet.connection.runs()


def test_mistakes_of_an_object_come_with_their_path(quiet: Running) -> None:
    answer = quiet.post("/v1/runs", {"definition": {"tasks": {"a": {"run": 5}}}})
    assert answer.code == "definition"
    assert answer.json["errors"][0]["path"] == "tasks.a.run"


def test_inputs_are_checked(quiet: Running) -> None:
    definition = {"inputs": {"n": {"type": "integer"}}, "tasks": {"a": {"run": "true"}}}
    answer = quiet.post("/v1/runs", {"definition": definition, "inputs": {"m": 1}})
    assert answer.status == 422
    assert answer.code == "inputs"
    assert sorted(error["path"] for error in answer.json["errors"]) == ["m", "n"]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"definition": CHAIN, "task": "true"}, {"definition": CHAIN, "priority": 11},
        {"definition": CHAIN, "x": 1},
        {"workflow": "x", "version": "!"}, {"definition": CHAIN, "max_parallel": 0}, {"definition": CHAIN, "key": ""},
        {"version": "abcd", "task": "true"}, {"definition": CHAIN, "source": "here"},
        {"definition": CHAIN, "inputs": []}, {"definition": CHAIN, "manual_advance": True},
        {"task": "true", "name": "1"},
        {"definition": CHAIN, "labels": {"": "x"}},
        {"definition": "a: b", "name": "a b"}, {"definition": 5}, {"definition": ""}, {"definition": []}, [], "x", 5,
    ],
)  # fmt: skip
def test_bad_bodies_are_refused_and_start_nothing(quiet: Running, body: Any) -> None:
    answer = quiet.post("/v1/runs", body)
    assert answer.status == 422, answer
    assert answer.code
    assert not quiet.connection.runs()


def test_a_workflow_is_run_by_its_name_in_its_newest_version_or_another(server: Running) -> None:
    old = server.post("/v1/runs", {"definition": CHAIN}).json["workflow"]
    changed = {**CHAIN, "tasks": {"a": {"run": "echo new"}}}
    new = server.post("/v1/runs", {"definition": changed}).json["workflow"]
    assert server.post("/v1/runs", {"workflow": "chain"}).json["workflow"] == new
    assert server.post("/v1/runs", {"workflow": "chain", "version": old[:8]}).json["workflow"] == old
    assert server.post("/v1/runs", {"workflow": "chian"}).status == 404
    assert "did you mean 'chain'" in server.post("/v1/runs", {"workflow": "chian"}).json["detail"]


def test_a_key_makes_one_run(quiet: Running) -> None:
    first = quiet.post("/v1/runs", {"definition": CHAIN}, Idempotency_Key="k1")
    again = quiet.post("/v1/runs", {"definition": CHAIN, "key": "k1"})
    assert (first.status, again.status) == (201, 200)
    assert again.json == {**first.json, "existing": True}
    other = quiet.post("/v1/runs", {"definition": {**CHAIN, "name": "other"}}, Idempotency_Key="k1")
    assert other.status == 409
    assert other.code == "conflict"
    assert len(quiet.connection.runs()) == 1


def test_fifty_identical_submissions_at_once_make_one_run(quiet: Running) -> None:
    gate = threading.Barrier(50)
    answers: list[Answer] = []

    def post() -> None:
        client = quiet.client()
        gate.wait()
        answers.append(client.post("/v1/runs", {"definition": CHAIN}, Idempotency_Key="same"))

    threads = [threading.Thread(target=post) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in answers) == [200] * 49 + [201]
    assert len({answer.json["run"] for answer in answers}) == 1
    assert len(quiet.connection.runs()) == 1


def test_a_request_said_again_under_its_id_is_applied_once(quiet: Running) -> None:
    first = quiet.post("/v1/runs", {"definition": CHAIN}, Weft_Command="abcdefgh1")
    again = quiet.post("/v1/runs", {"definition": CHAIN}, Weft_Command="abcdefgh1")
    assert first.json == again.json
    assert len(quiet.connection.runs()) == 1
    run = first.json["run"]
    assert quiet.post(f"/v1/runs/{run}/cancel", Weft_Command="abcdefgh2").json["changed"] == 2
    assert quiet.post(f"/v1/runs/{run}/cancel", Weft_Command="abcdefgh2").json["changed"] == 2
    assert quiet.post(f"/v1/runs/{run}/cancel").json["existing"] is True
    reran = [quiet.post(f"/v1/runs/{run}/rerun", Weft_Command="abcdefgh3").json for _ in range(2)]
    assert reran[0] == reran[1]
    assert len(quiet.connection.runs()) == 2


def test_an_id_used_for_something_else_is_refused(quiet: Running) -> None:
    assert quiet.post("/v1/runs", {"definition": CHAIN}, Weft_Command="abcdefgh1").status == 201
    answer = quiet.post("/v1/runs", {"definition": {**CHAIN, "name": "other"}}, Weft_Command="abcdefgh1")
    assert answer.status == 409
    assert answer.code == "command_used"


def test_a_batch_starts_many_and_tells_of_each(quiet: Running) -> None:
    bad = {"definition": {"tasks": {"a": {"rum": "x"}}}}
    keyed = {"definition": CHAIN, "key": "k"}
    other = {"definition": {**CHAIN, "name": "other"}, "key": "k"}
    answer = quiet.post("/v1/runs:batch", {"runs": [{"task": "true"}, bad, keyed, other, keyed]})
    assert answer.status == 200
    shown = answer.json
    assert (shown["started"], shown["refused"]) == (3, 2)
    assert [item.get("code") for item in shown["runs"]] == [None, "definition", None, "conflict", None]
    assert shown["runs"][2]["run"] == shown["runs"][4]["run"]
    assert shown["runs"][4]["existing"] is True
    assert len(quiet.connection.runs()) == 2


def test_a_batch_said_again_is_applied_once(quiet: Running) -> None:
    runs = {"runs": [{"task": "true"}, {"task": "echo 1"}, {"task": "true"}]}
    first = quiet.post("/v1/runs:batch", runs, Weft_Command="batch-0001")
    assert first.json == quiet.post("/v1/runs:batch", runs, Weft_Command="batch-0001").json
    assert len(quiet.connection.runs()) == 3
    assert quiet.post("/v1/runs:batch", {"runs": []}).status == 422
    assert quiet.post("/v1/runs:batch", {"runs": [{"task": "true"}] * 1001}).status == 422


def test_the_list_is_paged_and_stable_while_runs_are_added(quiet: Running) -> None:
    for number in range(7):
        quiet.submit(CHAIN, key=f"k{number}")
    seen: list[str] = []
    path = "/v1/runs?limit=3"
    while path:
        page = quiet.get(path).json
        seen += [run["key"] for run in page["runs"]]
        quiet.submit(CHAIN)
        path = f"/v1/runs?limit=3&cursor={page['next']}" if page["next"] else ""
    assert seen == [f"k{number}" for number in reversed(range(7))]


def test_the_list_is_filtered(quiet: Running) -> None:
    first = quiet.submit(CHAIN)
    quiet.submit({**CHAIN, "name": "other"})
    quiet.post(f"/v1/runs/{first}/cancel")
    queries = ("state=cancelled", "state=cancelled&state=running", "name=other", "state=failed")
    names = [[run["name"] for run in quiet.get(f"/v1/runs?{query}").json["runs"]] for query in queries]
    assert names == [["chain"], ["other", "chain"], ["other"], []]
    now = quiet.connection.now()
    assert quiet.get(f"/v1/runs?since={now + 1000}").json == {"runs": [], "next": None}
    assert len(quiet.get(f"/v1/runs?since={now - 600_000}").json["runs"]) == 2


@pytest.mark.parametrize(
    "query", ["sate=failed", "state=faild", "limit=0", "limit=1001", "limit=x", "cursor=zzz", "since=-1"]
)
def test_a_query_with_a_slip_is_refused(quiet: Running, query: str) -> None:
    answer = quiet.get(f"/v1/runs?{query}")
    assert answer.status == 422
    assert answer.code in ("query", "parameters")


def test_a_cursor_of_another_list_is_refused(quiet: Running) -> None:
    for _ in range(2):
        quiet.submit(CHAIN)
    cursor = quiet.get("/v1/tasks?limit=1").json["next"]
    assert quiet.get(f"/v1/tasks?limit=1&cursor={cursor}").status == 200
    assert quiet.get(f"/v1/runs?cursor={cursor}").code == "parameters"


def test_a_failed_run_is_resumed_and_a_finished_one_run_anew(server: Running) -> None:
    flag = server.directory / "flag"
    run = server.submit({"name": "flaky", "tasks": {"a": {"run": "test -e flag"}}})
    assert server.ended(run)["state"] == "failed"
    flag.touch()
    assert server.post(f"/v1/runs/{run}/resume").json["changed"] == 1
    assert server.ended(run)["state"] == "succeeded"
    answer = server.post(f"/v1/runs/{run}/rerun", {"fresh": True})
    assert answer.status == 201
    assert answer.json["run"] != run
    assert server.ended(answer.json["run"])["state"] == "succeeded"


def test_a_wait_is_answered_by_a_signal(server: Running) -> None:
    definition = {"name": "ask", "tasks": {"go": {"wait": {"signal": "go"}}}, "output": "${{ tasks.go.output }}"}
    run = server.submit(definition)
    assert server.get(f"/v1/runs/{run}/output").status == 409
    assert server.post(f"/v1/runs/{run}/signal", {"name": "go", "data": {"x": [1]}}).status == 200
    server.ended(run)
    assert server.get(f"/v1/runs/{run}/output").json["output"] == {"x": [1]}
    assert server.post(f"/v1/runs/{run}/signal", {"name": "go", "data": 2}).status == 409
    assert server.post(f"/v1/runs/{run}/signal", {"name": "go", "data": 2, "reject": "no"}).status == 409


def test_levels_are_advanced_by_hand(server: Running) -> None:
    run = server.submit({**CHAIN, "mode": "levels"}, manual_advance=True)
    until(lambda: server.get(f"/v1/runs/{run}").json["awaiting_advance"])
    assert server.post(f"/v1/runs/{run}/advance").status == 200
    until(lambda: server.connection.run(run).finished or server.get(f"/v1/runs/{run}").json["awaiting_advance"])
    assert server.get(f"/v1/runs/{run}/records").json["lines"]


def test_a_run_explains_and_verifies_itself(quiet: Running) -> None:
    run = quiet.submit(CHAIN)
    shown = quiet.get(f"/v1/runs/{run}/why").json["explanations"]
    assert [one["task"] for one in shown] == ["a", "b"]
    assert "node" in shown[0]["summary"]
    assert quiet.get(f"/v1/runs/{run}/verify").json["differences"] == []
    assert quiet.get(f"/v1/runs/{run}/context").json == {"context": {}}


@pytest.mark.parametrize("ref", ["none", "..", "%2e%2e", "a%2fb", "A", "x" * 65, "a b", "%00"])
@pytest.mark.parametrize("path", ["/v1/runs/{}", "/v1/runs/{}/tasks", "/v1/runs/{}/events", "/v1/runs/{}/why"])
def test_ids_that_are_none_find_nothing(quiet: Running, path: str, ref: str) -> None:
    quiet.submit(CHAIN)
    answer = quiet.get(path.format(ref.replace(" ", "%20")))
    assert answer.status in (404, 422), answer
    assert answer.code in ("not_found", "parameters", "no_route")


def test_a_submission_does_not_depend_on_who_is_alive_this_second(server: Running) -> None:
    """The only node with a GPU may be restarting: the run is taken with a warning, and `why` explains it."""
    task = {"run": "true", "requires": {"labels": ["gpu"]}}
    answer = server.post("/v1/runs", {"definition": {"tasks": {"a": task}}})
    assert answer.status == 201, answer
    (warning,) = answer.json["warnings"]
    assert warning.startswith("no live node can run a: ")
    assert "it lacks the label gpu" in warning
    (said,) = server.get(f"/v1/runs/{answer.json['run']}/why").json["explanations"]
    assert said["summary"] == "no live node may take it"
    assert "it lacks the label gpu" in said["details"][0]
    assert server.post("/v1/tasks", task).json["warnings"]
    batch = server.post("/v1/runs:batch", {"runs": [{"task": task}, {"task": {"run": "true"}}]}).json
    assert [len(item.get("warnings", ())) for item in batch["runs"]] == [1, 0]
    assert batch["started"] == 2


def test_a_submission_without_any_node_is_taken_with_a_warning(quiet: Running) -> None:
    answer = quiet.post("/v1/runs", {"definition": CHAIN})
    assert answer.status == 201
    assert ["no node is alive" in warning for warning in answer.json["warnings"]] == [True]


def test_old_runs_are_pruned_with_their_output(server: Running) -> None:
    run = server.submit(CHAIN)
    server.ended(run)
    assert (server.directory / ".weft" / "output" / run).exists()
    answer = server.post("/v1/runs:prune", {"before": server.connection.now() + 1000})
    assert answer.json == {"runs": [run], "more": False, "kept": []}
    assert not (server.directory / ".weft" / "output" / run).exists()
    assert server.get(f"/v1/runs/{run}").status == 404


def test_runs_that_tasks_started_are_listed_when_asked_for(server: Running) -> None:
    server.ended(server.submit(CHAIN))
    parent = server.submit({"name": "parent", "tasks": {"child": {"workflow": "chain"}}})
    assert server.ended(parent)["state"] == "succeeded"
    assert [run["name"] for run in server.get("/v1/runs").json["runs"]] == ["parent", "chain"]
    assert len(server.get("/v1/runs?children=true").json["runs"]) == 3
    unknown = server.post("/v1/runs", {"definition": {"tasks": {"child": {"workflow": "chian"}}}})
    assert unknown.status in (404, 422), unknown
    assert "chain" in unknown.json["detail"]
