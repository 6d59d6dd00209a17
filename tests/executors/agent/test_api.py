"""An agent without a program: the model is asked through its API, with the tools of MCP servers."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.api.test_serving import Process
from tests.executors.agent import model_server as m
from tests.executors.agent.agents import Agents
from tests.executors.attempts import ends, is_alive, processes_with
from weft.executors.protocol import Outcome, Usage

KEY = "sk-test-0123456789"
FILES = {"command": [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]}
SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def agent_of(server: m.ModelServer, **more: Any) -> dict[str, Any]:
    api = more.pop("api", "anthropic")
    url = server.url if api == "anthropic" else f"{server.url}/v1"
    return {"api": api, "url": url, "model": "m-1", "key": "MODEL_KEY", "prompt": "Say hello", **more}


def run(directory: Path, agent: dict[str, Any], **changes: Any) -> Outcome:
    async def whole() -> Outcome:
        async with Agents(directory) as agents:
            changes.setdefault("secrets", {"MODEL_KEY": KEY})
            return await ends(agents.begin(agents.launch(agent, **changes))[1], 60)

    return asyncio.run(whole())


def test_anthropic(tmp_path: Path) -> None:
    with m.ModelServer(m.anthropic(m.text("Hello, you"))) as server:
        outcome = run(tmp_path, agent_of(server, system="Be kind.", prices={"input": 3.0, "output": 15.0}))
    assert outcome.ok, outcome.error
    assert outcome.output == "Hello, you"
    assert outcome.usage == Usage(20 * 3 + 7 * 15, 27)
    assert outcome.result is not None
    assert outcome.result["usage"] == {
        "input_tokens": 20, "cache_read_input_tokens": 0, "output_tokens": 7, "usd": 0.000165,
    }  # fmt: skip
    assert (outcome.result["turns"], outcome.result["model"]) == (1, "m-1")
    assert "Hello, you" in outcome.result["stdout"]
    ((path, headers, body),) = server.requests
    assert path == "/v1/messages"
    assert headers["x-api-key"] == KEY
    assert headers["anthropic-version"] == "2023-06-01"
    assert body == {
        "model": "m-1", "max_tokens": 8192, "stream": True, "system": "Be kind.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Say hello"}]}],
    }  # fmt: skip
    assert KEY not in "".join(path.read_text() for path in Path(tmp_path / "output").iterdir())


def test_chat_completions(tmp_path: Path) -> None:
    with m.ModelServer(m.chat("Hello, you", usage=(20, 7, 5))) as server:
        outcome = run(tmp_path, agent_of(server, api="openai-compatible", system="Be kind.", max_tokens=100))
    assert outcome.output == "Hello, you", outcome.error
    assert outcome.usage == Usage(None, 27)
    assert outcome.result is not None
    assert outcome.result["usage"] == {"input_tokens": 15, "output_tokens": 7, "cache_read_input_tokens": 5}
    ((path, headers, body),) = server.requests
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert body["max_tokens"] == 100
    assert body["messages"] == [
        {"role": "system", "content": "Be kind."}, {"role": "user", "content": "Say hello"},
    ]  # fmt: skip


def test_tools_of_an_mcp_server(tmp_path: Path) -> None:
    replies = [
        m.anthropic(m.text("Let me see."), m.tool_use("mcp__files__add", a=2, b=3), stop="tool_use", id="msg_1"),
        m.anthropic(m.tool_use("mcp__files__fail"), stop="tool_use", id="msg_2"),
        m.anthropic(m.tool_use("nonsense"), stop="tool_use", id="msg_3"),
        m.anthropic(m.tool_use("mcp__files__flood"), stop="tool_use", id="msg_4"),
        m.anthropic(m.tool_use("mcp__files__show_env"), stop="tool_use", id="msg_5"),
        m.anthropic(m.text("5"), id="msg_6"),
    ]
    with m.ModelServer(*replies) as server:
        outcome = run(tmp_path, agent_of(server, mcp={"files": {**FILES, "env": {"SHOWN": "a value"}}}))
    assert outcome.output == "5", outcome.error
    assert outcome.usage == Usage(None, 6 * 27)
    assert outcome.result is not None
    lines = outcome.result["stdout"].splitlines()
    assert lines[1:4] == ["Let me see.", '→ mcp__files__add {"a":2,"b":3}', "→ mcp__files__fail {}"]
    assert "← error: it broke" in lines
    tools = server.requests[0][2]["tools"]
    assert [tool["name"] for tool in tools][:2] == ["mcp__files__add", "mcp__files__fail"]
    assert tools[0]["input_schema"]["properties"]["a"] == {"type": "integer"}
    results = [body["messages"][-1]["content"][0] for _, _, body in server.requests[1:]]
    assert [(one["content"][:30], one["is_error"]) for one in results] == [
        ("5", False), ("it broke", True), ("there is no tool nonsense", True), ("x" * 30, False), ("a value", False),
    ]  # fmt: skip
    assert len(results[3]["content"]) < 300_000


def test_tools_in_chat_completions(tmp_path: Path) -> None:
    replies = [
        m.chat("", calls=[("mcp__files__add", {"a": 2, "b": 3}), ("mcp__files__fail", {})], finish="tool_calls"),
        m.chat("five"),
    ]
    with m.ModelServer(*replies) as server:
        outcome = run(tmp_path, agent_of(server, api="openai-compatible", mcp={"files": FILES}))
    assert outcome.output == "five", outcome.error
    first, second = (body for _, _, body in server.requests)
    assert first["tools"][0]["function"]["name"] == "mcp__files__add"
    assistant, added, failed = second["messages"][1:]
    assert [call["function"] for call in assistant["tool_calls"]] == [
        {"name": "mcp__files__add", "arguments": '{"a":2,"b":3}'}, {"name": "mcp__files__fail", "arguments": "{}"},
    ]  # fmt: skip
    assert added == {"role": "tool", "tool_call_id": "c0", "content": "5"}
    assert failed["content"] == "it broke"


def test_an_mcp_server_at_an_address_gets_its_token(tmp_path: Path) -> None:
    """`weft serve` is one."""
    token = "0123456789abcdef-secret"
    process = Process(tmp_path, WEFT_TOKEN=token)
    try:
        replies = [
            m.anthropic(m.tool_use("mcp__w__list_runs"), stop="tool_use"),
            m.anthropic(m.text("none"), id="m2"),
        ]
        with m.ModelServer(*replies) as server:
            url = f"http://127.0.0.1:{process.port}/mcp"
            agent = agent_of(server, mcp={"w": {"url": url, "token": "W"}, "other": FILES}, tools=["w"])
            outcome = run(tmp_path, agent, secrets={"MODEL_KEY": KEY, "W": token})
            assert outcome.output == "none", outcome.error
            assert not [tool for tool in server.requests[0][2]["tools"] if "other" in tool["name"]]
            result = server.requests[1][2]["messages"][-1]["content"][0]
            assert json.loads(result["content"]) == {"runs": []}
            without = agent_of(server, mcp={"w": {"url": url}})
            assert "the MCP server w cannot be used" in (run(tmp_path, without).error or "")
        assert process.stop() == 0
    finally:
        process.client.close()
        if process.process.poll() is None:
            process.process.kill()


@pytest.mark.parametrize(
    ("package", "agent", "error"),
    [
        ("httpx2", {}, "it failed: an agent with `api` needs the package httpx2: install weft[agent]"),
        ("mcp", {"mcp": {"files": FILES}}, "it failed: tools of MCP servers need the package mcp: install weft[mcp]"),
        (
            "jsonschema_rs",
            {"output_schema": {}},
            "output_schema needs jsonschema-rs on the node: install weft[agent]",
        ),
    ],
)
def test_a_package_that_is_not_installed(tmp_path: Path, package: str, agent: dict[str, Any], error: str) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ImportError('no', name={package!r})")
    with m.ModelServer() as server:
        outcome = run(tmp_path, agent_of(server, **agent), env={"PYTHONPATH": str(tmp_path)})
    assert (outcome.ok, outcome.error, outcome.retryable) == (False, error, False)


def test_a_server_of_mcp_that_cannot_be_started(tmp_path: Path) -> None:
    with m.ModelServer() as server:
        outcome = run(tmp_path, agent_of(server, mcp={"files": {"command": ["no-such-server"]}}))
    assert not outcome.ok
    assert outcome.retryable
    assert "the MCP server files cannot be used" in (outcome.error or "")
    assert server.requests == []


# What goes wrong


def overloaded_midway() -> m.Reply:
    events = m.anthropic_events(m.text("Hello"))[:4]
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    return m.stream([*events, m.sse("error", error)])


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (m.status(429, "slow down", retry_after="0"), "the API answered 429: slow down"),
        (m.status(529, "Overloaded", retry_after="0.01"), "the API answered 529: Overloaded"),
        (m.status(503, "later"), "the API answered 503: later"),
        (overloaded_midway(), "the API broke off: Overloaded"),
        (m.stream(m.anthropic_events(m.text("Hello"))[:4], whole=False), "the connection to the API failed"),
        (m.stream(m.anthropic_events(m.text("Hello"))[:-1]), "ended before the answer was whole"),
        (m.stream([m.sse("message_start", '{"type": "message_st')]), "an event that is no JSON"),
        (m.stream([m.sse("message_start", {"type": "content_block_delta"})]), "an event that is none of its own"),
        (m.page(), "the API sent text/html instead of a stream"),
        (m.hang(), "the API was silent for 1 s"),
    ],
)
def test_what_passes_is_asked_again_within_the_attempt(tmp_path: Path, reply: m.Reply, said: str) -> None:
    with m.ModelServer(reply, m.anthropic(m.text("at last"))) as server:
        outcome = run(tmp_path, agent_of(server, idle="1s"))
    assert outcome.output == "at last", outcome.error
    assert len(server.requests) == 2
    assert outcome.result is not None
    assert said[:40] in outcome.result["stdout"]


def test_an_answer_that_broke_off_was_paid_for(tmp_path: Path) -> None:
    with m.ModelServer(overloaded_midway(), m.anthropic(m.text("at last"))) as server:
        outcome = run(tmp_path, agent_of(server))
    assert outcome.usage == Usage(None, 21 + 27)


@pytest.mark.parametrize(
    ("replies", "error", "retryable", "after"),
    [
        ([m.status(429, "come tomorrow", retry_after="3600")], "429: come tomorrow", True, 3600.0),
        ([m.status(529, "no", retry_after="0")] * 6, "529: no", True, 0.0),
        ([m.status(401, "invalid x-api-key")], "401: invalid x-api-key", False, None),
        ([m.status(400, "max_tokens: too large")], "400: max_tokens: too large", False, None),
        ([m.status(302, "elsewhere", location="http://127.0.0.1:9/")], "302: elsewhere", False, None),
    ],
)
def test_what_does_not_pass_fails_the_attempt(
    tmp_path: Path, replies: list[m.Reply], error: str, retryable: bool, after: float | None
) -> None:
    with m.ModelServer(*replies) as server:
        outcome = run(tmp_path, agent_of(server))
    assert not outcome.ok
    assert outcome.error == f"it failed: the API answered {error}"
    assert (outcome.retryable, outcome.retry_after_s) == (retryable, after)
    assert len(server.requests) == len(replies)


@pytest.mark.parametrize(
    ("reply", "error", "cause", "retryable"),
    [
        (m.anthropic(m.text("I will not"), stop="refusal"), "the model refused: I will not", "refused", 0),
        (m.anthropic(m.text("a"), stop="max_tokens"), "its answer was cut off: max_tokens (8,192 tokens)", None, 1),
    ],
)  # fmt: skip
def test_reasons_to_stop(tmp_path: Path, reply: m.Reply, error: str, cause: str | None, retryable: int) -> None:
    with m.ModelServer(reply) as server:
        outcome = run(tmp_path, agent_of(server))
    assert (outcome.ok, outcome.error) == (False, f"it failed: {error}")
    assert (outcome.cause, outcome.retryable) == (cause, bool(retryable))


def test_a_refusal_in_chat_completions(tmp_path: Path) -> None:
    with m.ModelServer(m.chat("no", finish="content_filter")) as server:
        outcome = run(tmp_path, agent_of(server, api="openai-compatible"))
    assert outcome.cause == "refused"


def test_a_stream_of_chat_completions_that_breaks_off(tmp_path: Path) -> None:
    with m.ModelServer(m.chat("half", whole=False), m.chat("whole")) as server:
        outcome = run(tmp_path, agent_of(server, api="openai-compatible"))
    assert outcome.output == "whole"


# Bounds


def test_turns_are_bounded(tmp_path: Path) -> None:
    replies = [m.anthropic(m.tool_use("mcp__files__add", a=1, b=1), stop="tool_use", id=f"m{n}") for n in range(3)]
    with m.ModelServer(*replies) as server:
        outcome = run(tmp_path, agent_of(server, mcp={"files": FILES}, max_turns=2))
    assert outcome.error == "it used all its turns: 2 turns"
    assert len(server.requests) == 2


def test_tokens_are_bounded(tmp_path: Path) -> None:
    replies = [m.anthropic(m.tool_use("mcp__files__add", a=1, b=1), stop="tool_use", id=f"m{n}") for n in range(3)]
    with m.ModelServer(*replies) as server:
        outcome = run(tmp_path, agent_of(server, mcp={"files": FILES}), allowance=Usage(None, 54))
    assert (outcome.cause, outcome.retryable) == ("budget", False)
    assert outcome.usage == Usage(None, 54)
    assert [body["max_tokens"] for _, _, body in server.requests] == [54, 27]


def test_dollars_are_bounded(tmp_path: Path) -> None:
    replies = [m.anthropic(m.tool_use("mcp__files__add", a=1, b=1), stop="tool_use", id=f"m{n}") for n in range(3)]
    prices = {"input": 3.0, "output": 15.0}
    with m.ModelServer(*replies) as server:
        agent = agent_of(server, mcp={"files": FILES}, prices=prices, budget={"usd": 0.0003})
        outcome = run(tmp_path, agent)
    assert outcome.cause == "budget"
    assert [body["max_tokens"] for _, _, body in server.requests] == [20, 9]


# Schemas and resuming


def test_the_schema_is_told_in_words_and_a_retry_goes_on(tmp_path: Path) -> None:
    async def whole() -> None:
        replies = [m.anthropic(m.text('{"n": "1"}'), id="m1"), m.anthropic(m.text('{"n": 1}'), id="m2")]
        with m.ModelServer(*replies) as server:
            async with Agents(tmp_path) as agents:
                agent = agent_of(server, output_schema=SCHEMA)
                secrets = {"MODEL_KEY": KEY}
                first = await ends(agents.begin(agents.launch(agent, task="a", secrets=secrets))[1])
                assert first.cause == "schema"
                again = agents.launch(agent, task="a", attempt=2, secrets=secrets)
                second = await ends(agents.begin(again)[1])
                assert second.output == {"n": 1}, second.error
                assert not (tmp_path / "output" / "a.conversation").exists()
            asked, resumed = (body["messages"] for _, _, body in server.requests)
            assert '"required":["n"]' in asked[0]["content"][0]["text"]
            assert resumed[:2] == [*asked, {"role": "assistant", "content": [{"type": "text", "text": '{"n": "1"}'}]}]
            said = resumed[2]["content"][0]["text"]
            assert said.startswith("An earlier attempt at this ended early: the answer does not match output_schema")

    asyncio.run(whole())


def test_a_stopped_conversation_goes_on_with_its_open_calls_answered(tmp_path: Path) -> None:
    async def whole() -> None:
        replies = [m.anthropic(m.tool_use("mcp__files__add", a=1, b=1), stop="tool_use", id="m1"), m.hang()]
        with m.ModelServer(*replies) as server:
            async with Agents(tmp_path) as agents:
                agent = agent_of(server, mcp={"files": FILES})
                launch, future = agents.begin(agents.launch(agent, task="a", secrets={"MODEL_KEY": KEY}))
                while len(server.requests) < 2:
                    await asyncio.sleep(0.01)
                agents.stop(launch, "timeout", 0.5)
                assert (await ends(future)).stopped == "timeout"
                assert len(processes_with(agents.mark)) == 0
                kept = (tmp_path / "output" / "a.conversation").read_text().splitlines(keepends=True)
                assert [json.loads(line).get("role") for line in kept] == [None, "user", "assistant", "user"]
                # As if it had been killed while the tool ran, within the next line.
                (tmp_path / "output" / "a.conversation").write_text("".join(kept[:3]) + kept[3][:20])
                server.replies = [m.anthropic(m.text("2"), id="m3")]
                again = agents.launch(agent, task="a", attempt=2, secrets={"MODEL_KEY": KEY})
                outcome = await ends(agents.begin(again)[1])
                assert outcome.output == "2", outcome.error
            messages = server.requests[-1][2]["messages"]
            assert [one["role"] for one in messages] == ["user", "assistant", "user", "user"]
            assert messages[2]["content"][0]["content"] == "it was interrupted"

    asyncio.run(whole())


def test_a_conversation_that_is_lost_begins_anew(tmp_path: Path) -> None:
    async def whole() -> None:
        with m.ModelServer(m.status(400), m.anthropic(m.text("hello"))) as server:
            async with Agents(tmp_path) as agents:
                agent = agent_of(server)
                await ends(agents.begin(agents.launch(agent, task="a", secrets={"MODEL_KEY": KEY}))[1])
                (tmp_path / "output" / "a.conversation").write_text("")
                again = agents.launch(agent, task="a", attempt=2, secrets={"MODEL_KEY": KEY})
                outcome = await ends(agents.begin(again)[1])
                assert outcome.output == "hello", outcome.error
                assert len(server.requests[-1][2]["messages"]) == 1

    asyncio.run(whole())


def test_a_stop_ends_the_program_and_its_servers(tmp_path: Path) -> None:
    async def whole() -> None:
        with m.ModelServer(m.hang()) as server:
            async with Agents(tmp_path) as agents:
                agent = agent_of(server, mcp={"files": FILES})
                launch, future = agents.begin(agents.launch(agent, secrets={"MODEL_KEY": KEY}))
                while not server.requests:
                    await asyncio.sleep(0.01)
                pids = processes_with(agents.mark)
                assert len(pids) >= 3  # the runner, the program, the MCP server
                agents.stop(launch, "cancel", 5)
                assert (await ends(future)).stopped == "cancel"
                assert not [pid for pid in pids if is_alive(pid)]

    asyncio.run(whole())
