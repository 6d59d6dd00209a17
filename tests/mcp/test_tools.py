"""What each tool does, asked over HTTP by the SDK's own client."""

import asyncio
from typing import Any

import pytest

from tests.api.conftest import CHAIN
from tests.mcp.conftest import MODES, Agents, Calls

WAIT = {"wait_s": 50}


@pytest.mark.parametrize("mode", MODES)
def test_a_task_is_run_and_its_result_waited_for(agents: Agents, mode: str) -> None:
    async def talk(calls: Calls) -> None:
        started = await calls("submit_task", task='echo hello; echo oops >&2; echo n=7 > "$WEFT_OUTPUT"; exit 0')
        assert started["task"] == "task"
        assert "warnings" not in started
        done = await calls("get_task_result", run=started["run"], **WAIT)
        assert (done["state"], done["ended"], done["exit_code"]) == ("succeeded", True, 0)
        assert (done["stdout"], done["stderr"], done["output"]) == ("hello\n", "oops\n", {"n": "7"})
        assert done["attempts"] == done["attempt"] == 1
        assert done["node"] == "here"

    agents.tell(talk, mode=mode)


def test_the_server_says_who_it_is_and_what_it_is_for(idle: Agents) -> None:
    async def talk(calls: Calls) -> None:
        assert "submit_task" in (calls.client.instructions or "")
        for tool in (await calls.client.list_tools()).tools:
            assert tool.description
            assert len(tool.description) < 500
            assert tool.input_schema["type"] == "object"
            assert tool.input_schema["additionalProperties"] is False
            assert tool.output_schema is not None
            assert tool.output_schema["type"] == "object"

    idle.tell(talk)


def test_a_workflow_is_run_and_its_status_tells_failures(agents: Agents) -> None:
    definition = """
name: broken
on_failure: continue
tasks:
  fine: echo 1
  bad: {run: "echo why >&2; exit 3"}
  after: {needs: [bad], run: "true"}
"""

    async def talk(calls: Calls) -> None:
        run = (await calls("submit_workflow", definition=definition))["run"]
        status = await calls("get_workflow_status", run=run, **WAIT)
        assert status["ended"] is True
        assert status["run"]["state"] == "failed"
        assert (status["run"]["succeeded"], status["run"]["failed"], status["run"]["skipped"]) == (1, 1, 1)
        (failed,) = status["failed"]
        assert (failed["task"], failed["exit_code"]) == ("bad", 3)
        assert "open" not in status
        done = await calls("get_task_result", run=run, task="bad")
        assert done["stderr"] == "why\n"
        assert done["error"]
        code, words = await calls.refused("get_task_result", run=run)
        assert code == "task"
        assert "fine, bad, after" in words

    agents.tell(talk)


def test_a_run_has_an_output_and_a_stored_workflow_a_name(agents: Agents) -> None:
    definition = {
        "name": "sum", "inputs": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "tasks": {"add": {"run": 'echo "{\\"sum\\": $((A + B))}" > "$WEFT_OUTPUT"',
                          "env": {"A": "${{ inputs.a }}", "B": "${{ inputs.b }}"}}},
        "output": "${{ tasks.add.output.sum }}",
    }  # fmt: skip

    async def talk(calls: Calls) -> None:
        first = await calls("submit_workflow", definition=definition, inputs={"a": 1})
        assert (await calls("get_workflow_status", run=first["run"], **WAIT))["output"] == 3
        second = await calls("submit_workflow", workflow="sum", inputs={"a": 40})
        assert (await calls("get_workflow_status", run=second["run"], **WAIT))["output"] == 42
        assert second["workflow"] == first["workflow"]
        (line,) = (await calls("list_workflows"))["workflows"]
        assert (line["name"], line["versions"], line["hash"]) == ("sum", 1, first["workflow"])
        code, words = await calls.refused("submit_workflow", workflow="sum", inputs={"a": "x"})
        assert code == "inputs"
        assert "whole number" in words
        assert (await calls.refused("submit_workflow", workflow="other"))[0] == "not_found"
        assert (await calls.refused("submit_workflow"))[0] == "body"

    agents.tell(talk)


def test_one_key_is_one_run(idle: Agents) -> None:
    async def talk(calls: Calls) -> None:
        many = await asyncio.gather(*(calls("submit_task", task="true", key="once") for _ in range(10)))
        assert len({one["run"] for one in many}) == 1
        assert sum("existing" not in one for one in many) == 1
        assert "no node is alive" in many[0]["warnings"][0]
        code, _ = await calls.refused("submit_task", task="false", key="once")
        assert code == "conflict"

    idle.tell(talk)


def test_tasks_and_runs_are_cancelled(idle: Agents) -> None:
    async def talk(calls: Calls) -> None:
        run = (await calls("submit_workflow", definition={**CHAIN, "on_failure": "continue"}))["run"]
        assert (await calls("cancel_task", run=run, task="a", reason="not needed"))["changed"] >= 1
        done = await calls("get_task_result", run=run, task="a")
        assert done["state"] == "cancelled"
        other = (await calls("submit_workflow", definition=CHAIN))["run"]
        await calls("cancel_run", run=other)
        assert (await calls("get_workflow_status", run=other))["run"]["state"] == "cancelled"
        handled = {**CHAIN, "tasks": {**CHAIN["tasks"], "clean": {"when": "always", "run": "true"}}}
        last = (await calls("submit_workflow", definition=handled))["run"]
        await calls("cancel_run", run=last)
        assert (await calls("get_workflow_status", run=last))["run"]["state"] == "running"
        await calls("cancel_run", run=last, now=True)
        assert (await calls("get_workflow_status", run=last))["run"]["state"] == "cancelled"
        code, _ = await calls.refused("cancel_task", run=other, task="nothing")
        assert code == "not_found"
        assert (await calls.refused("cancel_run", run="zzzz"))[0] == "not_found"

    idle.tell(talk)


def test_a_signal_answers_a_wait(agents: Agents) -> None:
    definition = {
        "name": "gate",
        "tasks": {"ask": {"wait": {"signal": "approve"}}, "go": {"needs": ["ask"], "run": "true"}},
    }

    async def talk(calls: Calls) -> None:
        run = (await calls("submit_workflow", definition=definition))["run"]
        status = await calls("get_workflow_status", run=run)
        assert status["signals"] == ["approve"]
        why = await calls("explain_task", run=run, task="ask")
        assert "waits for the signal" in why["explanations"][0]["summary"]
        assert (await calls.refused("signal", run=run, name="approve", data=1, reject="no"))[0] == "conflict"
        assert (await calls.refused("signal", run=run, name="approve", reject=""))[0] == "arguments"
        await calls("signal", run=run, name="approve", data={"by": "me"})
        assert (await calls("get_workflow_status", run=run, **WAIT))["run"]["state"] == "succeeded"
        assert (await calls("get_task_result", run=run, task="ask"))["output"] == {"by": "me"}

    agents.tell(talk)


def test_dead_letters_are_listed_and_retried(agents: Agents) -> None:
    task = {"run": "test -e fixed", "retry": {"max": 1, "backoff": "1ms"}}

    async def talk(calls: Calls) -> None:
        run = (await calls("submit_task", task=task, name="fragile"))["run"]
        assert (await calls("get_task_result", run=run, **WAIT))["state"] == "dead_letter"
        (dead,) = (await calls("list_dead_letter_tasks"))["tasks"]
        assert (dead["run"], dead["task"], dead["attempt"]) == (run, "fragile", 2)
        (agents.directory / "fixed").touch()
        assert (await calls.refused("retry_dead_letter_task", run=run, tasks=["other"]))[0] == "not_found"
        await calls("retry_dead_letter_task", run=run, tasks=["fragile"])
        done = await calls("get_task_result", run=run, **WAIT)
        assert (done["state"], done["attempts"]) == ("succeeded", 3)
        assert (await calls("list_dead_letter_tasks"))["tasks"] == []
        assert (await calls("get_task_result", run=run, attempt=1))["outcome"] == "failed"
        assert (await calls.refused("get_task_result", run=run, attempt=9))[0] == "not_found"

    agents.tell(talk)


def test_resume_runs_again_what_did_not_succeed(agents: Agents) -> None:
    async def talk(calls: Calls) -> None:
        run = (await calls("submit_task", task="test -e fixed"))["run"]
        assert (await calls("get_workflow_status", run=run, **WAIT))["run"]["state"] == "failed"
        (agents.directory / "fixed").touch()
        await calls("resume_run", run=run)
        assert (await calls("get_workflow_status", run=run, **WAIT))["run"]["state"] == "succeeded"

    agents.tell(talk)


def test_a_node_is_drained(agents: Agents) -> None:
    async def talk(calls: Calls) -> None:
        (node,) = (await calls("list_nodes"))["nodes"]
        assert (node["node"], node["health"]) == ("here", "healthy")
        assert "shell" in node["types"]
        draining = await calls("drain_node_tasks", node="here", deadline_ms=1000)
        assert draining["session"] == node["session"]
        assert (await calls.refused("drain_node_tasks", node="nobody"))[0] == "not_found"

    agents.tell(talk)


def test_a_definition_is_checked_without_being_stored(idle: Agents) -> None:
    wrong = "tasks:\n  a: {run: 'true', need: [b]}\n  c: {needs: [zzz], run: 'true'}\n"

    async def talk(calls: Calls) -> None:
        found = await calls("validate_workflow", definition=wrong)
        assert found["valid"] is False
        assert [one["line"] for one in found["errors"]] == [2, 3]
        assert "needs" in found["errors"][0]["fix"]
        good = await calls("validate_workflow", definition=CHAIN)
        assert (good["valid"], good["tasks"], good["levels"]) == (True, 2, 2)
        code, words = await calls.refused("submit_workflow", definition=wrong)
        assert code == "definition"
        assert "definition:2" in words
        many = "tasks:\n" + "".join(f"  a{n}: {{runn: 'true'}}\n" for n in range(60))
        bounded = await calls("validate_workflow", definition=many)
        assert len(bounded["errors"]) == 20
        assert bounded["more"] >= 40
        assert (await calls("list_workflows"))["workflows"] == []

    idle.tell(talk)


def test_a_run_is_previewed_without_being_run(agents: Agents) -> None:
    definition = {
        "name": "plan", "inputs": {"day": {"type": "string", "default": "monday"}}, "max_parallel": 3,
        "tasks": {
            "get": {"run": "curl ${{ inputs.day }}", "retry": {"max": 2}, "timeout": "1m"},
            "far": {"run": "true", "requires": {"labels": ["zone=mars"]}},
            "ask": {"needs": ["get"], "wait": {"signal": "ok"}},
            "sub": {"needs": ["ask"], "workflow": "unknown"},
        },
    }  # fmt: skip

    async def talk(calls: Calls) -> None:
        plan = await calls("preview", definition=definition, limit=2)
        assert (plan["total"], plan["levels"], plan["widest"], plan["nodes"]) == (4, 3, 2, 1)
        assert plan["inputs"] == {"day": "monday"}
        assert plan["max_parallel"] == 3
        assert any("no live node can run far" in problem for problem in plan["problems"])
        assert any("unknown" in problem for problem in plan["problems"])
        by_name = {task["name"]: task for task in plan["tasks"]}
        assert (by_name["get"]["nodes"], by_name["far"]["nodes"]) == (["here"], [])
        assert (by_name["get"]["retries"], by_name["get"]["timeout_ms"]) == (2, 60_000)
        rest = await calls("preview", definition=definition, limit=2, cursor=plan["next"])
        assert [task["name"] for task in rest["tasks"]] == ["ask", "sub"]
        assert "next" not in rest
        assert "nodes" not in rest["tasks"][0]
        assert (await calls.refused("preview", definition=CHAIN, cursor=plan["next"]))[0] == "cursor"
        assert (await calls.refused("preview", definition=definition, inputs={"dya": "x"}))[0] == "inputs"
        assert (await calls("list_runs"))["runs"] == []

    agents.tell(talk)


def test_the_critical_path_is_the_chain_that_took_longest(agents: Agents) -> None:
    """Durations are set by files, not by sleeping: the long branch waits until the short one is over."""
    definition = {
        "name": "path", "tasks": {
            "start": "true",
            "short": {"needs": ["start"], "run": "true"},
            "long": {"needs": ["start"], "run": "while [ ! -e go ]; do sleep 0.01; done"},
            "end": {"needs": ["short", "long"], "run": "true"},
        },
    }  # fmt: skip

    async def talk(calls: Calls) -> None:
        run = (await calls("submit_workflow", definition=definition))["run"]
        assert (await calls("get_task_result", run=run, task="short", **WAIT))["state"] == "succeeded"
        assert (await calls("get_task_result", run=run, task="long", wait_s=0.5))["ended"] is False
        (agents.directory / "go").touch()
        assert (await calls("get_workflow_status", run=run, **WAIT))["run"]["state"] == "succeeded"
        found = await calls("get_critical_path", run=run, limit=2)
        assert [task["task"] for task in found["path"]] == ["start", "long"]
        assert found["tasks"] == 3
        rest = await calls("get_critical_path", run=run, limit=2, cursor=found["next"])
        assert [task["task"] for task in rest["path"]] == ["end"]
        assert "next" not in rest
        took = [task["took_ms"] for task in found["path"] + rest["path"]]
        assert sum(took) == found["length_ms"]
        assert took[1] >= 400

    agents.tell(talk)


def test_mapped_tasks_and_sub_workflows_say_where_to_look(agents: Agents) -> None:
    inner = {"name": "inner", "tasks": {"x": "true"}}
    outer = {
        "name": "outer",
        "tasks": {"each": {"map": [1, 2], "run": "echo ${{ item }}"}, "sub": {"workflow": "inner"}},
    }

    async def talk(calls: Calls) -> None:
        first = (await calls("submit_workflow", definition=inner))["run"]
        await calls("get_workflow_status", run=first, **WAIT)
        run = (await calls("submit_workflow", definition=outer))["run"]
        assert (await calls("get_workflow_status", run=run, **WAIT))["run"]["state"] == "succeeded"
        whole = await calls("get_task_result", run=run, task="each")
        assert whole["elements"] == 2
        assert "each.0 to each.1" in whole["note"]
        assert (await calls("get_task_result", run=run, task="each.1"))["stdout"] == "2\n"
        child = (await calls("get_task_result", run=run, task="sub"))["child"]
        assert (await calls("get_workflow_status", run=child))["run"]["parent"] == run
        assert child not in [one["run"] for one in (await calls("list_runs"))["runs"]]
        assert child in [one["run"] for one in (await calls("list_runs", children=True))["runs"]]

    agents.tell(talk)


@pytest.mark.parametrize(
    ("tool", "given", "code", "says"),
    [
        ("list_tasks", {"limit": 0}, "arguments", "limit"),
        ("list_tasks", {"limit": 101}, "arguments", "limit"),
        ("list_tasks", {"limit": "many"}, "arguments", "a whole number"),
        ("list_tasks", {"stats": ["failed"]}, "arguments", "did you mean 'states'"),
        ("list_tasks", {"states": ["fine"]}, "arguments", "fine"),
        ("list_tasks", {"cursor": "bogus"}, "arguments", "cursor"),
        ("list_runs", {"cursor": "t1"}, "arguments", "cursor"),
        ("get_task_result", {}, "arguments", "run"),
        ("get_task_result", {"run": "../etc"}, "arguments", "run"),
        ("get_task_result", {"run": "last", "wait_s": 51}, "arguments", "wait_s"),
        ("get_task_result", {"run": "last"}, "not_found", "no runs yet"),
        ("submit_task", {"task": {"runn": "true"}}, "definition", "run"),
        ("submit_task", {"task": "true", "name": "9"}, "arguments", "name"),
        ("submit_task", {"task": "true", "source": "relative"}, "arguments", "source"),
        ("submit_workflow", {"definition": "a: [", "format": "yaml"}, "definition", "not YAML"),
        ("submit_workflow", {"definition": "{", "format": "json"}, "definition", "definition:1"),
        ("drain_node_tasks", {"node": "a\nb"}, "arguments", "node"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_words(idle: Agents, tool: str, given: dict[str, Any], code: str, says: str) -> None:
    async def talk(calls: Calls) -> None:
        found, words = await calls.refused(tool, **given)
        assert found == code, words
        assert says in words

    idle.tell(talk)


def test_a_schedule_is_applied_paused_and_fired(agents: Agents) -> None:
    definition = {
        "name": "nightly", "triggers": [{"cron": "0 3 * * *", "timezone": "Europe/Berlin"}], "tasks": {"a": "echo 1"},
    }  # fmt: skip
    named = {"name": "nightly", "trigger": "cron"}

    async def talk(calls: Calls) -> None:
        code, words = await calls.refused("apply_workflow", name="other", definition=definition)
        assert (code, "calls itself 'nightly'" in words) == ("conflict", True)
        applied = await calls("apply_workflow", name="nightly", definition=definition)
        assert (applied["added"], applied["existing"]) == (["cron"], False)
        assert (await calls("apply_workflow", name="nightly", definition=definition))["existing"] is True
        (line,) = (await calls("list_triggers"))["triggers"]
        assert (line["workflow"], line["trigger"], line["what"]) == ("nightly", "cron", "0 3 * * * Europe/Berlin")
        assert line["next_at"] > 0
        await calls("pause_trigger", **named)
        (line,) = (await calls("list_triggers", workflow="nightly"))["triggers"]
        assert line["paused"] is True
        assert "next_at" not in line
        await calls("resume_trigger", **named)
        fired = await calls("fire_trigger", **named)
        assert fired["outcome"] == "started"
        status = await calls("get_workflow_status", run=fired["run"], **WAIT)
        assert status["run"]["state"] == "succeeded"
        (line,) = (await calls("list_triggers"))["triggers"]
        assert (line["last_outcome"], line["last_run"]) == ("started", fired["run"])

    agents.tell(talk)


def test_a_run_is_corrected_repeated_and_compared(agents: Agents) -> None:
    wrong = {"name": "w", "inputs": {"n": {"type": "integer"}}, "tasks": {"a": "echo $N; exit 3"}}
    right = 'name: w\ninputs: {n: integer}\ntasks:\n  a: {run: "echo ${{ inputs.n }}", env: {N: x}}\n'

    async def talk(calls: Calls) -> None:
        run = (await calls("submit_workflow", definition=wrong, inputs={"n": 1}, labels={"team": "data"}))["run"]
        assert (await calls("get_workflow_status", run=run, **WAIT))["run"]["state"] == "failed"
        assert [one["run"] for one in (await calls("list_runs", labels=["team=data"]))["runs"]] == [run]
        preview = await calls("correct_run", run=run, definition=right, preview=True)
        assert (preview["again"], preview["state"]) == (["a"], "failed")
        assert (await calls("correct_run", run=run, definition=right))["state"] == "running"
        assert (await calls("get_workflow_status", run=run, **WAIT))["run"]["state"] == "succeeded"
        given = await calls("get_task_launch", run=run, task="a")
        assert given["kind"] == "shell"
        assert {"N": "x", "WEFT_V1": "1"}.items() <= given["env"].items()
        again = (await calls("rerun_run", run=run, inputs={"n": 2}))["run"]
        assert (await calls("get_workflow_status", run=again, **WAIT))["run"]["state"] == "succeeded"
        differ = await calls("diff_runs", old=run, new=again)
        assert differ["inputs"] == {"n": [1, 2]}
        assert "definition" not in differ
        page = await calls("list_events", run=run, kinds=["resumed", "run_finished"])
        assert "resumed" in {event["kind"] for event in page["events"]}
        assert {event["run"] for event in page["events"]} == {run}
        first = await calls("list_events", limit=2)
        assert len(first["events"]) == 2
        more = await calls("list_events", limit=2, cursor=first["next"])
        assert more["events"][0]["seq"] > first["events"][1]["seq"]

    agents.tell(talk)


def test_a_budget_is_shown_and_changed(idle: Agents) -> None:
    definition = {"name": "w", "budget": {"usd": 1}, "tasks": {"a": {"agent": {"prompt": "x", "budget": {"usd": 1}}}}}

    async def talk(calls: Calls) -> None:
        run = (await calls("submit_workflow", definition=definition))["run"]
        assert (await calls("get_workflow_status", run=run))["budget"]["usd"] == 1
        await calls("set_run_budget", run=run, usd=2.5)
        assert (await calls("get_workflow_status", run=run))["budget"]["usd"] == 2.5

    idle.tell(talk)
