"""An agent's command line: what it is given, what its messages become, how it ends."""

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.executors.agent.agents import Agents, script
from tests.executors.attempts import ends, is_alive
from tests.executors.test_run_as import interpreter
from weft.executors import linux
from weft.executors.agent.command_line import ARGUMENT_MAX
from weft.executors.agent.messages import AgentRequest
from weft.executors.agent.runner import AgentRun
from weft.executors.protocol import Outcome, Usage
from weft.executors.run_as import find_user

MISMATCH = "the answer does not match output_schema"
SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "names": {"type": "array", "items": {"type": "string"}}},
    "required": ["count"],
}


def run(directory: Path, *actions: list[Any], **changes: Any) -> Outcome:
    async def whole() -> Outcome:
        async with Agents(directory) as agents:
            return await agents.run(*actions, **changes)

    return asyncio.run(whole())


def test_an_answer_is_the_output_with_what_it_cost(tmp_path: Path) -> None:
    outcome = run(tmp_path, ["tool", "Bash", {"command": "ls"}, "a b", False], ["answer", "two files"])
    assert outcome.ok
    assert outcome.output == "two files"
    assert outcome.result is not None
    assert outcome.result["text"] == "two files"
    assert outcome.result["turns"] == 2
    assert outcome.result["model"] == "claude-scripted-1"
    assert len(outcome.result["session"]) == 36
    # A message is printed once for each block, and counted once.
    assert outcome.result["usage"] == {
        "input_tokens": 20, "output_tokens": 10, "cache_read_input_tokens": 200, "usd": 0.02,
    }  # fmt: skip
    assert outcome.usage == Usage(20_000, 230)


def test_people_read_text_and_one_line_for_each_tool(tmp_path: Path) -> None:
    long = {"command": "echo " + "x" * 500}
    outcome = run(
        tmp_path,
        ["tool", "Bash", long, "fine", False],
        ["tool", "Read", {"file_path": "/nowhere"}, [{"type": "text", "text": "no such\nfile"}], True],
        ["raw", "not json\n"],
        ["answer", "line 1\nline 2"],
    )
    assert outcome.result is not None
    lines = outcome.result["stdout"].splitlines()
    assert lines[0] == f"· model claude-scripted-1, session {outcome.result['session']}"
    assert lines[1] == "a look"
    assert lines[2].startswith("→ Bash echo xxxx")
    assert len(lines[2]) <= 160
    assert lines[3:] == [
        "a look", "→ Read /nowhere", "← error: no such file", "not json", "line 1", "line 2",
        "· 3 turns, 345 tokens, $0.0300",
    ]  # fmt: skip


def test_tools_that_were_not_allowed_are_named(tmp_path: Path) -> None:
    outcome = run(tmp_path, ["denied", "Bash"], ["denied", "Bash"], ["denied", "Write"], ["answer", "no"])
    assert outcome.result is not None
    assert "· not allowed to use: Bash, Write; `tools` allows them" in outcome.result["stdout"].splitlines()


def test_an_answer_may_be_large_but_not_too_large(tmp_path: Path) -> None:
    async def whole() -> None:
        async with Agents(tmp_path, answer_max=1 << 20) as agents:
            fine = await agents.run(["answer", "\x01" * (1 << 20)])
            assert fine.ok, fine.error
            assert len(fine.output) == 1 << 20
            assert fine.result is not None
            assert (len(fine.result["text"]), fine.result["textTruncated"]) == (64 * 1024, True)
            large = await agents.run(["answer", "x" * ((1 << 20) + 1)])
            assert large.error == "its answer has 1,048,577 characters, more than the 1,048,576 that it may"

    asyncio.run(whole())


def test_the_messages_are_kept_as_they_came_with_secrets_masked(tmp_path: Path) -> None:
    outcome = run(
        tmp_path, ["say", "the key is hunter2-secret"], ["answer", "done"], secrets={"KEY": "hunter2-secret"}
    )
    assert outcome.ok
    raw = (tmp_path / "output" / "t1.1.jsonl").read_text()
    assert [json.loads(line)["type"] for line in raw.splitlines()] == ["system", "assistant", "assistant", "result"]
    assert "hunter2" not in raw
    assert "the key is ***" in raw
    assert outcome.result is not None
    assert "the key is ***" in outcome.result["stdout"]


def test_what_the_program_is_given(tmp_path: Path) -> None:
    agent = {
        "model": "opus", "system": "You are careful.", "max_turns": 7, "tools": ["Read", "Bash(git log:*)", "weft"],
        "output_schema": {"type": "object"}, "budget": {"usd": 2},
        "mcp": {"files": {"command": ["files-mcp", "--root", "."], "env": {"A": "b"}},
                "wiki": {"url": "https://wiki.example/mcp", "token": "WIKI"}},
    }  # fmt: skip

    async def whole() -> Outcome:
        async with Agents(tmp_path, store="/somewhere/weft.db") as agents:
            names = ["WIKI", "ANTHROPIC_API_KEY", "OTHER", "WEFT_RUN_ID"]
            env = {"WEFT_RUN_ID": "r1"}
            secrets = {"WIKI": "wiki-token-1", "ANTHROPIC_API_KEY": "key-key-key"}
            return await agents.run(
                ["show", names], agent=agent, secrets=secrets, env=env, allowance=Usage(1_500_000, None)
            )

    outcome = asyncio.run(whole())
    assert outcome.ok, outcome.error
    seen = outcome.output
    flags = seen["flags"]
    assert (flags["model"], flags["max_turns"], flags["max_budget_usd"]) == ("opus", 7, 1.5)
    assert flags["allowedTools"] == ["Read", "Bash(git log:*)", "mcp__weft"]
    assert flags["json_schema"] == {"type": "object"}
    assert seen["files"]["append_system_prompt_file"] == "You are careful."
    servers = json.loads(seen["files"]["mcp_config"])["mcpServers"]
    assert servers["files"] == {"type": "stdio", "command": "files-mcp", "args": ["--root", "."], "env": {"A": "b"}}
    assert servers["wiki"]["headers"] == {"Authorization": "Bearer wiki-token-1"}
    assert servers["weft"]["env"] == {"WEFT_STORE": "/somewhere/weft.db"}
    assert seen["env"] == {
        "WIKI": "wiki-token-1", "ANTHROPIC_API_KEY": "key-key-key", "OTHER": None, "WEFT_RUN_ID": "r1",
    }  # fmt: skip
    assert "show" in seen["prompt"]
    assert not [word for word in seen["argv"] if "show" in word or "token" in word or "careful" in word]
    assert seen["cwd"] == str(tmp_path)


def test_prompts_larger_than_an_argument(tmp_path: Path) -> None:
    filler = "word " * ARGUMENT_MAX
    outcome = run(tmp_path, agent={"prompt": script(["answer", "read"]) + filler})
    assert outcome.output == "read"


def test_a_template_of_another_program(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:], sys.stdin.read())"
    agent = {"command": ["python3", "-c", code, "--model", "{model}", "{prompt}!"], "model": "m", "prompt": "{a}"}
    assert run(tmp_path, agent=agent).output == "['--model', 'm', '{a}!']"
    agent["command"] = ["python3", "-c", code]
    assert run(tmp_path, agent=agent).output == "[] {a}"


def test_an_argument_with_a_session_is_left_out_without_one(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:])"
    agent = {"command": ["python3", "-c", code, "--resume={session}", "{session}", "a"], "prompt": "x"}
    assert run(tmp_path, agent=agent).output == "['a']"


def test_a_template_whose_prompt_is_too_long_for_an_argument(tmp_path: Path) -> None:
    agent = {"command": ["echo", "{prompt}"], "prompt": "x" * (ARGUMENT_MAX + 1)}
    outcome = run(tmp_path, agent=agent)
    assert not outcome.ok
    assert not outcome.retryable
    assert "goes through standard input" in (outcome.error or "")


def test_text_that_fails(tmp_path: Path) -> None:
    outcome = run(tmp_path, agent={"command": ["sh", "-c", "echo half; echo it broke >&2; exit 3"], "prompt": "x"})
    assert (outcome.ok, outcome.exit_code, outcome.error) == (False, 3, "exit code 3: it broke")
    assert outcome.output is msgspec.UNSET


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    outcome = run(tmp_path, agent={"command": ["no-such-agent"], "prompt": "x"})
    assert outcome.exit_code == 127
    assert outcome.error == "cannot start 'no-such-agent': No such file or directory"

    async def whole() -> Outcome:
        async with Agents(tmp_path, program=("no-such-claude",)) as agents:
            return await agents.run()

    message = (
        "cannot start 'no-such-claude': No such file or directory; install it on this node, or set agent_command"
    )
    assert asyncio.run(whole()).error == message


@pytest.mark.parametrize(
    ("action", "error", "cause", "retryable"),
    [
        (["error", "error_max_turns"], "it used all its turns", None, True),
        (["error", "error_max_budget_usd", "at $2"], "it used up its budget: at $2", "budget", False),
        (["error", "error_max_structured_output_retries"], "its answers did not match output_schema", "schema", True),
        (["error", "error_during_execution", "boom"], "it failed: boom", None, True),
        (["refused", "authentication_failed", "Invalid API key"], "it failed: Invalid API key", None, False),
        (["refused", "rate_limit", "API Error: 529"], "it failed: API Error: 529", None, True),
        (["exit", 9], "exit code 9", None, True),
        (["exit", 0], "it ended without a result", None, True),
    ],
)
def test_ends_that_are_failures(
    tmp_path: Path, action: list[Any], error: str, cause: str | None, retryable: bool
) -> None:
    outcome = run(tmp_path, ["say", "hm"], action)
    assert (outcome.ok, outcome.error, outcome.cause) == (False, error, cause)
    assert outcome.retryable is retryable
    assert outcome.usage is not None
    assert outcome.usage.tokens == (230 if action[0] == "refused" else 115)  # known, however it ended


def test_broken_and_huge_lines(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        ["raw", '{"type": "assistant", "message": {"content": "text"}}\n{"type": "result"\n[1, 2]\n"x"\n\n'],
        ["raw", '{"type": "assistant", "message": {"usage": {"input_tokens": -5, "output_tokens": "many"}}}\n'],
        ["raw", "\udcff\n".encode("utf-8", "surrogateescape").decode("latin-1")],
        ["huge", 9 << 20],
        ["answer", "still here"],
        output_max=1 << 20,
    )
    assert outcome.output == "still here"
    assert outcome.usage == Usage(20_000, 230)
    assert (tmp_path / "output" / "t1.1.jsonl").stat().st_size == 1 << 20


def test_a_program_that_does_not_end_after_its_answer_is_ended(tmp_path: Path) -> None:
    outcome = run(tmp_path, ["answer", "fine"], ["sleep", 300])
    assert outcome.ok
    assert outcome.output == "fine"


def test_a_process_that_keeps_its_output_open_is_not_waited_for(tmp_path: Path) -> None:
    outcome = run(tmp_path, ["flee"], ["answer", "gone"])
    assert outcome.output == "gone"
    assert outcome.killed == 1
    assert not is_alive(int((tmp_path / "fled").read_text()))


# Schemas


def test_the_answer_is_validated(tmp_path: Path) -> None:
    good = run(tmp_path, ["structured", {"count": 3}], agent={"output_schema": SCHEMA})
    assert good.output == {"count": 3}
    fenced = run(tmp_path, ["answer", 'Here:\n```json\n{"count": 4}\n```'], agent={"output_schema": SCHEMA})
    assert fenced.output == {"count": 4}


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (["structured", {"count": 3, "names": ["a", 7]}],
         f'{MISMATCH}: /names/1: 7 is not of type "string"'),
        (["structured", {"count": "3", "names": 1}],
         f'{MISMATCH}: /count: "3" is not of type "integer"; /names: 1 is not of type "array"'),
        (["structured", {}],
         f'{MISMATCH}: the whole answer: "count" is a required property'),
        (["answer", "I could not."], "the answer is not JSON: I could not."),
        (["answer", ""], "the answer is not JSON: it is empty"),
    ],
)  # fmt: skip
def test_a_mismatch_names_the_place(tmp_path: Path, action: list[Any], error: str) -> None:
    outcome = run(tmp_path, action, agent={"output_schema": SCHEMA})
    assert (outcome.ok, outcome.cause, outcome.retryable, outcome.error) == (False, "schema", True, error)
    assert outcome.output is msgspec.UNSET


def test_a_schema_that_no_answer_can_match_starts_nothing(tmp_path: Path) -> None:
    agent = {"output_schema": {"$ref": "http://127.0.0.1:9/schema"}}
    outcome = run(tmp_path, ["touch", str(tmp_path / "ran")], agent=agent)
    assert not outcome.retryable
    assert "Retrieval is disabled" in (outcome.error or "")
    assert not (tmp_path / "ran").exists()


# Resuming


def test_a_later_attempt_resumes_and_says_how_the_earlier_one_ended(tmp_path: Path) -> None:
    async def whole() -> None:
        async with Agents(tmp_path) as agents:
            first = await agents.run(["answer", "no json"], agent={"output_schema": SCHEMA}, task="a")
            assert first.result is not None
            session = first.result["session"]
            assert (Path(agents.output_dir) / "a.session").stat().st_mode & 0o777 == 0o600
            again = agents.launch({"prompt": script(resumed=[["show", []]])}, task="a", attempt=2)
            second = await ends(agents.begin(again)[1])
            seen = json.loads(second.output)
            assert seen["flags"]["resume"] == session
            assert seen["prompt"].startswith(
                "An earlier attempt at this ended early: the answer is not JSON: no json."
            )
            assert second.result is not None
            assert second.result["session"] == session
            assert not (Path(agents.output_dir) / "a.session").exists()

    asyncio.run(whole())


@pytest.mark.parametrize("plain", ["", "1"])
def test_a_session_that_the_program_does_not_know_begins_anew(tmp_path: Path, plain: str) -> None:
    async def whole() -> None:
        async with Agents(tmp_path) as agents:
            first = await agents.run(["say", "hm"], ["error", "error_during_execution", "boom"], task="a")
            assert first.result is not None
            (tmp_path / f"{first.result['session']}.session").unlink()
            env = {"AGENT_PLAIN": plain}
            second = await agents.run(["show", []], task="a", attempt=2, env=env)
            assert second.ok, second.error
            seen = json.loads(second.output)
            assert seen["flags"]["resume"] is None
            assert seen["prompt"].startswith('{"do"')
            assert second.result is not None
            assert second.result["session"] != first.result["session"]

    asyncio.run(whole())


def test_without_resume_a_later_attempt_only_learns_of_a_refused_answer(tmp_path: Path) -> None:
    async def whole() -> None:
        async with Agents(tmp_path) as agents:
            await agents.run(["answer", "no"], agent={"output_schema": SCHEMA, "resume": False}, task="a")
            second = await agents.run(["show", []], agent={"resume": False}, task="a", attempt=2)
            seen = json.loads(second.output)
            assert seen["flags"]["resume"] is None
            assert seen["prompt"].endswith("An earlier answer was refused: the answer is not JSON: no.")

    asyncio.run(whole())


# Budgets


def test_spending_is_reported_as_it_happens(tmp_path: Path) -> None:
    async def whole() -> None:
        async with Agents(tmp_path) as agents:
            await agents.run(["say", "one"], ["say", "two"], ["answer", "three"])
            assert [usage.tokens for usage in agents.spent] == [115, 230, 345, 345]
            assert [usage.usd for usage in agents.spent] == [None, None, None, 30_000]

    asyncio.run(whole())


@pytest.mark.parametrize("agent", [{"budget": {"tokens": 200}}, {}])
def test_an_agent_past_its_allowance_is_stopped(tmp_path: Path, agent: dict[str, Any]) -> None:
    allowance = None if agent else Usage(None, 200)
    outcome = run(
        tmp_path, ["say", "one"], ["flee"], ["say", "two"], ["sleep", 300], agent=agent, allowance=allowance
    )
    assert (outcome.ok, outcome.cause, outcome.retryable) == (False, "budget", False)
    assert outcome.error == "it spent 230 of the 200 tokens that it may"
    assert outcome.usage == Usage(None, 230)
    assert not is_alive(int((tmp_path / "fled").read_text()))


def test_an_answer_over_the_budget_is_kept_with_a_warning(tmp_path: Path) -> None:
    """Dollars come with the last message only."""
    outcome = run(tmp_path, ["answer", "dear"], agent={"budget": {"usd": 0.005}})
    assert (outcome.ok, outcome.output) == (True, "dear")
    assert outcome.result is not None
    assert (
        outcome.result["warning"]
        == "it spent $0.01 of the $0.005 that it may; its answer came with that, and is kept"
    )
    assert "· warning: it spent $0.01" in outcome.result["stdout"]
    assert "warning" not in (run(tmp_path, ["answer", "fine"], agent={"budget": {"usd": 1}}).result or {})


def test_prices_of_the_definition_make_dollars_of_tokens(tmp_path: Path) -> None:
    prices = {"input": 3.0, "output": 15.0, "cache_read": 0.3}
    agent = {"prices": prices, "budget": {"usd": 0.0002}}
    outcome = run(tmp_path, ["say", "one"], ["say", "two"], ["sleep", 300], agent=agent)
    assert outcome.cause == "budget"
    assert outcome.usage == Usage(2 * (10 * 3 + 5 * 15 + 30), 230)


# Hanging


def test_an_agent_that_falls_silent(tmp_path: Path) -> None:
    outcome = run(tmp_path, ["say", "one"], ["sleep", 300], agent={"idle": "500ms"})
    assert (outcome.ok, outcome.cause, outcome.retryable) == (False, "idle", True)
    assert outcome.error == "nothing came from it for 0.5 s"


@pytest.mark.parametrize("reason", ["cancel", "timeout"])
def test_a_stop_leaves_nothing_of_the_tree(tmp_path: Path, reason: str) -> None:
    async def whole() -> None:
        async with Agents(tmp_path) as agents:
            up = tmp_path / "up"
            launch, future = agents.start(
                ["say", "one"], ["ignore_term"], ["flee"], ["touch", str(up)], ["sleep", 300]
            )
            await agents.until_file("up")
            fled = int((tmp_path / "fled").read_text())
            agents.stop(launch, reason, 0.3)
            outcome = await ends(future)
            assert (outcome.ok, outcome.stopped) == (False, reason)
            assert not is_alive(fled)
            assert outcome.usage == Usage(None, 115)
            kept = json.loads((Path(agents.output_dir) / "t1.session").read_text())
            assert kept == {"session": up.read_text(), "problem": f"it was stopped ({reason})"}

    asyncio.run(whole())


def test_past_its_trust_nothing_of_the_tree_lives(tmp_path: Path) -> None:
    async def whole() -> None:
        async with Agents(tmp_path) as agents:
            _, future = agents.start(["ignore_term"], ["flee"], ["touch", str(tmp_path / "up")], ["sleep", 300])
            await agents.until_file("up")
            agents.shell.trust(linux.boottime() + 0.2)
            outcome = await ends(future)
            assert outcome.stopped == "lease"
            assert not is_alive(int((tmp_path / "fled").read_text()))
            agents.shell.trust(linux.boottime() + 600)

    asyncio.run(whole())


@pytest.mark.parametrize("delay_s", [0.0, 0.03, 0.06, 0.1, 0.15])
def test_a_stop_while_it_starts(tmp_path: Path, delay_s: float) -> None:
    async def whole() -> None:
        async with Agents(tmp_path) as agents:
            launch, future = agents.start(["sleep", 300])
            await asyncio.sleep(delay_s)
            agents.stop(launch, "cancel", 60)
            outcome = await ends(future, 20)
            assert (outcome.ok, outcome.stopped) == (False, "cancel")

    asyncio.run(whole())


def test_a_stop_that_came_before_the_program_was_there_reaches_it(tmp_path: Path) -> None:
    request = AgentRequest({"prompt": "x", "command": ["sleep", "100"]}, ["claude"], {}, 1 << 20, 1 << 20)
    ours, theirs = socket.socketpair()
    with ours, theirs, (tmp_path / "messages").open("wb") as file:
        began = time.monotonic()
        ended, code = AgentRun(request, theirs, file.fileno(), file.fileno(), [signal.SIGTERM]).run()
    assert (ended.error, code) == ("exit code 143", 143)
    assert time.monotonic() - began < 50


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start tasks as another user")
def test_an_agent_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"PYTHONPATH": str(Path(msgspec.__file__).parents[1])}  # for an interpreter that `nobody` can start
    with tempfile.TemporaryDirectory(prefix="run-as-") as place:
        os.chmod(place, 0o777)

        async def whole() -> None:
            async with Agents(Path(place), user=find_user("nobody")) as agents:
                agents.output_dir = str(tmp_path / "output")  # below a directory that is root's alone
                monkeypatch.setattr(sys, "executable", interpreter())
                agent = {"command": ["sh", "-c", "id -un; cat; echo $KEY"], "prompt": "a prompt"}
                launch = agents.launch(agent, secrets={"KEY": "hunter2-secret"}, env=env)
                outcome = await ends(agents.begin(launch)[1])
                assert outcome.ok, outcome.error
                assert outcome.result is not None
                assert outcome.result["stdout"] == "nobody\na prompt***\n"
                kept = tmp_path / "output" / "t1.1.jsonl"
                assert (kept.stat().st_uid, kept.read_text()) == (0, "nobody\na prompt***\n")

        asyncio.run(whole())


def test_a_program_that_heeds_a_stop_ends_at_once(tmp_path: Path) -> None:
    async def whole() -> None:
        async with Agents(tmp_path) as agents:
            launch, future = agents.start(["touch", str(tmp_path / "up")], ["sleep", 300])
            await agents.until_file("up")
            agents.stop(launch, "cancel", 30)
            outcome = await ends(future, 10)
            assert outcome.stopped == "cancel"

    asyncio.run(whole())


def test_a_killed_runner_is_a_failure(tmp_path: Path) -> None:
    async def whole() -> None:
        async with Agents(tmp_path) as agents:
            _, future = agents.start(["say", "one"], ["touch", str(tmp_path / "up")], ["sleep", 300])
            await agents.until_file("up")
            while not agents.spent:  # the file may be there before what it said was read
                await asyncio.sleep(0.01)
            (runner,) = _children(agents.shell.spawner_pids)
            os.kill(runner, signal.SIGKILL)
            outcome = await ends(future)
            assert outcome.error == "killed by SIGKILL"
            assert outcome.usage == Usage(None, 115)

    asyncio.run(whole())


def _children(parents: list[int]) -> list[int]:
    return [
        int(pid) for parent in parents for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    ]
