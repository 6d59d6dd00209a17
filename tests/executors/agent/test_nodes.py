"""Agents as tasks of whole runs: the command line, a node, a scripted program."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

import pytest
import yaml

from tests.cli.conftest import WEFT, Weft, environment, weft
from tests.executors.agent import model_server as m
from tests.executors.agent.agents import SCRIPTED, script
from tests.executors.attempts import eventually, is_alive

EXAMPLES = Path(__file__).parents[3] / "examples"
Start = Callable[..., "Popen[bytes]"]
__all__ = ["weft"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    return {
        "WEFT_AGENT_COMMAND": f"{sys.executable} {SCRIPTED}", "AGENT_HOME": str(home),
        "FLED": str(tmp_path / "fled"), "WEFT_LEASE_TTL": "3s", "WEFT_RENEW_EVERY": "500ms",
    }  # fmt: skip


@pytest.fixture
def start(tmp_path: Path, env: dict[str, str]) -> Iterator[Start]:
    """Starts a command and lets it run; what is left of it is killed."""
    started: list[Popen[bytes]] = []

    def begin(*words: str) -> "Popen[bytes]":
        process = Popen([*WEFT, *words], cwd=tmp_path, env=environment(**env), stdout=DEVNULL, stderr=DEVNULL)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


def define(directory: Path, agent: Any, **task: Any) -> None:
    body = {"name": "w", "tasks": {"ask": {"agent": agent, **task}}}
    (directory / "w.yaml").write_text(yaml.safe_dump(body))


def ended(done: Any) -> dict[str, Any]:
    last: dict[str, Any] = json.loads(done.out.splitlines()[-1])
    return last


def up(path: Path) -> bool:
    return path.exists() and bool(path.read_text())


def test_the_answer_of_an_agent_is_the_output_of_its_task(weft: Weft, tmp_path: Path, env: dict[str, str]) -> None:
    prompt = '{"do": [["tool", "Bash", {"command": "ls"}, "a", false], ["answer", "${{ inputs.word }} and more"]]}'
    body = {
        "name": "w", "inputs": {"word": {"type": "string", "default": "this"}}, "output": "${{ tasks.after.output }}",
        "tasks": {
            "ask": {"agent": prompt},
            "after": {"run": 'printf \'"%s"\' ${{ tasks.ask.output }} > "$WEFT_OUTPUT"'},
        },
    }  # fmt: skip
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(body))
    done = weft("run", "w.yaml", "--json", env=env)
    assert done.code == 0, done.err
    assert ended(done)["output"] == "this and more"
    logs = weft("logs", "last", "ask", env=env).out
    assert "→ Bash ls" in logs
    assert "this and more" in logs
    assert weft("verify", "last", env=env).code == 0


def test_the_example(weft: Weft, tmp_path: Path, env: dict[str, str]) -> None:
    """examples/agent.yaml, with a program that does not read the file."""
    program = tmp_path / "program.py"
    code = Path(SCRIPTED).read_text().replace(
        "prompt = sys.stdin.read()",
        "prompt = sys.stdin.read(); assert 'Read notes.md' in prompt and flags.allowedTools == ['Read', 'Grep']\n"
        "    prompt = '{\"do\": [[\"structured\", {\"problems\": [\"one\", \"two\"]}]]}'",
    )  # fmt: skip
    program.write_text(code)
    env["WEFT_AGENT_COMMAND"] = f"{sys.executable} {program}"
    (tmp_path / "agent.yaml").write_bytes((EXAMPLES / "agent.yaml").read_bytes())
    done = weft("run", "agent.yaml", "--json", "--input", "subject=notes.md", env=env)
    assert done.code == 0, done.err
    assert ended(done)["output"] == "notes.md: 2 problems"


def test_a_mismatch_is_retried_and_the_retry_resumes(weft: Weft, tmp_path: Path, env: dict[str, str]) -> None:
    schema = {"type": "object", "required": ["n"]}
    prompt = script(["answer", "no json"], resumed=[["structured", {"n": 1}]])
    retry = {"max": 1, "backoff": "10ms", "on": ["schema"]}
    define(tmp_path, {"prompt": prompt, "output_schema": schema}, retry=retry)
    done = weft("run", "w.yaml", "--json", env=env)
    assert done.code == 0, done.err
    failures = [line for line in done.lines if "is not JSON" in json.dumps(line)]
    assert failures
    assert len(list((tmp_path / "home").iterdir())) == 1  # one session


def test_a_spent_budget_is_not_retried(weft: Weft, tmp_path: Path, env: dict[str, str]) -> None:
    actions: list[list[Any]] = [["say", "one"], ["say", "two"], ["sleep", 300]]
    define(tmp_path, {"prompt": script(*actions), "budget": {"tokens": 200}}, retry={"max": 3, "backoff": "10ms"})
    done = weft("run", "w.yaml", "--json", env=env)
    assert done.code == 1
    assert "it spent 230 of the 200 tokens that it may" in done.out
    assert len(list((tmp_path / "home").iterdir())) == 1


def test_a_timeout_ends_the_tree_and_the_retry_resumes(weft: Weft, tmp_path: Path, env: dict[str, str]) -> None:
    actions: list[list[Any]] = [["ignore_term"], ["say", "one"], ["flee"], ["sleep", 300]]
    prompt = script(*actions, resumed=[["answer", "again"]])
    define(tmp_path, prompt, timeout="3s", grace="200ms", retry={"max": 1, "backoff": "10ms"})
    done = weft("run", "w.yaml", "--json", env=env)
    assert done.code == 0, done.out + done.err
    assert not is_alive(int((tmp_path / "fled").read_text()))
    assert len(list((tmp_path / "home").iterdir())) == 1


def test_a_cancel_is_over_when_the_tree_is_gone(
    weft: Weft, start: Start, tmp_path: Path, env: dict[str, str]
) -> None:
    define(
        tmp_path, script(["ignore_term"], ["flee"], ["touch", str(tmp_path / "up")], ["sleep", 300]), grace="300ms"
    )
    running = start("run", "w.yaml")
    assert eventually(lambda: up(tmp_path / "up"), 60)
    fled = int((tmp_path / "fled").read_text())
    assert is_alive(fled)
    assert weft("cancel", "last", env=env).code == 0
    running.wait(30)
    assert not is_alive(fled)
    assert "cancelled" in weft("show", "last", env=env).out


def test_a_killed_node_leaves_nothing_and_the_next_one_resumes(
    weft: Weft, start: Start, tmp_path: Path, env: dict[str, str]
) -> None:
    actions: list[list[Any]] = [
        ["ignore_term"],
        ["say", "one"],
        ["flee"],
        ["touch", str(tmp_path / "up")],
        ["sleep", 300],
    ]
    define(tmp_path, script(*actions, resumed=[["answer", "resumed"]]))
    running = start("run", "w.yaml")
    assert eventually(lambda: up(tmp_path / "up"), 60)
    fled = int((tmp_path / "fled").read_text())
    tree = list(_below(running.pid))
    assert len(tree) >= 3  # a spawner, the runner, the program
    os.kill(running.pid, signal.SIGKILL)
    assert eventually(lambda: not any(is_alive(pid) for pid in (fled, *tree)), 2 * 3)
    running.wait()
    done = weft("resume", "last", "--json", env=env)
    assert done.code == 0, done.err
    (session,) = (tmp_path / "home").iterdir()
    assert session.name == f"{(tmp_path / 'up').read_text()}.session"


def _below(pid: int) -> Iterator[int]:
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(child)
        yield from _below(int(child))


def long_form(directory: Path, type_: str, **more: Any) -> None:
    spec = {"prompt": script(["show", ["A"]]), "model": "opus", "env": {"A": "b"}, **more}
    (directory / "w.json").write_text(
        json.dumps({"name": "w", "tasks": [{"key": "ask", "type": type_, "spec": spec}]})
    )


def assert_shown(weft: Weft, env: dict[str, str]) -> None:
    seen = json.loads(weft("logs", "last", "ask", env=env).out.splitlines()[1])
    assert (seen["flags"]["model"], seen["env"]) == ("opus", {"A": "b"})


@pytest.mark.parametrize("type_", ["agent", "subagent"])
def test_the_long_form(weft: Weft, tmp_path: Path, env: dict[str, str], type_: str) -> None:
    long_form(tmp_path, type_)
    done = weft("run", "w.json", "--json", env=env)
    assert done.code == 0, done.out + done.err
    assert_shown(weft, env)


def test_a_relay_asks_the_agent_of_a_certain_node(
    weft: Weft, start: Start, tmp_path: Path, env: dict[str, str]
) -> None:
    long_form(tmp_path, "claude_relay", labels=["desk"], node="here")
    start("worker")  # with neither the label nor the name
    weft("submit", "w.json", env=env)
    assert eventually(lambda: "here" in weft("why", "last", "ask", env=env).out, 30), weft("why", "last", env=env).out
    done = weft("resume", "last", "--json", env={**env, "WEFT_LABELS": "desk", "WEFT_NAME": "here"})
    assert done.code == 0, done.out + done.err
    assert_shown(weft, env)


def test_secrets_of_other_tasks_are_hidden_and_its_own_are_masked(
    weft: Weft, tmp_path: Path, env: dict[str, str]
) -> None:
    body = {
        "name": "w",
        "tasks": {
            "ask": {"agent": {"prompt": script(["show", ["MINE", "OTHER", "WEFT_TASK"]])}, "secrets": ["MINE"]},
            "else": {"run": "true", "secrets": ["OTHER"]},
        },
    }
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(body))
    done = weft("run", "w.yaml", "--json", env={**env, "MINE": "my-own-secret", "OTHER": "not-for-agents"})
    assert done.code == 0, done.err
    logs = weft("logs", "last", "ask", env=env).out
    seen = json.loads(logs.splitlines()[1])
    assert seen["env"] == {"MINE": "***", "OTHER": None, "WEFT_TASK": "ask"}
    left = [path for path in (tmp_path / ".weft").rglob("*") if path.is_file()]
    assert not [path for path in left if b"my-own-secret" in path.read_bytes()]


@pytest.mark.parametrize("allow", [None, ["read_all"]])
def test_weft_as_a_tool_of_an_agent(weft: Weft, tmp_path: Path, env: dict[str, str], allow: list[str] | None) -> None:
    """It sees its own run, with a token of its attempt; other runs only if its task says so."""
    other = weft("run", "--", "true", env=env)
    assert other.code == 0
    replies = [
        m.anthropic(m.tool_use("mcp__weft__get_workflow_status", run="last"), stop="tool_use", id="m1"),
        m.anthropic(m.tool_use("mcp__weft__list_runs"), stop="tool_use", id="m2"),
        m.anthropic(m.text("one"), id="m3"),
    ]
    with m.ModelServer(*replies) as server:
        define(tmp_path, {
            "prompt": "How many runs?", "api": "anthropic", "url": server.url, "model": "x", "key": "MODEL_KEY",
            "tools": ["weft"],
        }, **({} if allow is None else {"allow": allow}))  # fmt: skip
        done = weft("run", "w.yaml", "--json", env={**env, "MODEL_KEY": "key-key-key"})
    assert done.code == 0, done.out + done.err
    tools = {tool["name"].removeprefix("mcp__weft__") for tool in server.requests[0][2]["tools"]}
    assert {"get_workflow_status", "explain_task", "list_events"} <= tools
    assert not tools & {"signal", "submit_task", "cancel_run", "mark_tasks", "apply_workflow"}
    own, listed = (server.requests[at][2]["messages"][-1]["content"][0] for at in (1, 2))
    assert '"name":"w"' in own["content"], own
    if allow is None:
        assert listed["is_error"]
        assert "list_runs" not in tools
    else:
        assert len(json.loads(listed["content"])["runs"]) == 2
