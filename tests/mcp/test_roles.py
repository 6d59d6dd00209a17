"""Which tools are there for whom. The table is made from the tools themselves: a new one without a role cannot be."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from mcp import MCPError

from tests.api.conftest import until
from tests.api.test_request_guard import TOKEN, Everybody
from tests.architecture.source import ROOT
from tests.docs.tools import tools_reference
from tests.mcp.conftest import MODES, Agents, Calls
from weft.api.access.auth import OneToken
from weft.authoring.load import load_value
from weft.mcp.server import BY_NAME, TOOLS, described
from weft.mcp.tools import Tool
from weft.operations.declare import RANK
from weft.operations.table import OPERATIONS

ASKED_FOR = {
    "submit_task", "submit_workflow", "get_task_result", "cancel_task", "list_tasks", "list_workflows",
    "get_workflow_status", "list_dead_letter_tasks", "retry_dead_letter_task", "drain_node_tasks",
    "stream_task_output", "validate_workflow", "explain_task", "preview", "signal", "get_critical_path",
}  # fmt: skip
BEYOND = {
    "list_runs", "list_nodes", "cancel_run", "resume_run", "skip_tasks", "mark_tasks", "pause_run", "unpause_run",
    "correct_run", "apply_workflow", "list_triggers", "pause_trigger", "resume_trigger", "fire_trigger", "rerun_run",
    "list_events", "diff_runs", "get_task_launch", "set_run_budget", "get_run_at",
    "list_artifacts", "read_artifact",
    "preview_rerun", "start_backfill", "list_backfills", "get_backfill",
    "cancel_backfill",
    "list_notifications", "retry_notifications",
}  # fmt: skip
READING = {
    "get_task_result", "stream_task_output", "list_tasks", "list_workflows", "list_runs", "list_nodes",
    "get_workflow_status", "list_dead_letter_tasks", "validate_workflow", "explain_task", "preview",
    "get_critical_path", "list_triggers", "list_events", "diff_runs", "get_task_launch", "get_run_at",
    "list_artifacts", "read_artifact",
    "preview_rerun", "list_backfills", "get_backfill",
    "list_notifications",
}  # fmt: skip
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
BOTH = "application/json, text/event-stream"


def test_the_tools_are_those_that_were_asked_for() -> None:
    assert set(BY_NAME) == ASKED_FOR | BEYOND
    assert len(BY_NAME) == len(TOOLS)
    assert {tool.name for tool in TOOLS if tool.reads_only} == READING


def test_the_page_of_tools_is_what_the_code_says() -> None:
    assert (ROOT / "docs/reference/mcp.md").read_text() == tools_reference(), "make docs"


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_hints_say_what_a_tool_may_do(tool: Tool) -> None:
    hints = described(tool).annotations
    assert hints is not None
    assert hints.read_only_hint == (tool.name in READING)
    assert hints.destructive_hint == (not hints.read_only_hint)
    assert hints.idempotent_hint or not hints.read_only_hint
    starts = tool.name in (
        "submit_task", "submit_workflow", "resume_run", "retry_dead_letter_task", "skip_tasks", "mark_tasks",
        "correct_run", "rerun_run", "fire_trigger", "start_backfill",
    )  # fmt: skip
    assert hints.open_world_hint == starts
    if starts:
        assert not hints.idempotent_hint, "said twice it runs twice"


def test_a_tool_needs_the_role_of_its_route() -> None:
    routes = {route.name: route.role for route in OPERATIONS}
    same = {
        "submit_task": "submit_task", "submit_workflow": "submit_run", "get_task_result": "get_task",
        "cancel_task": "cancel_task", "list_tasks": "list_tasks", "list_workflows": "list_workflows",
        "get_workflow_status": "get_run", "list_dead_letter_tasks": "list_dead", "cancel_run": "cancel_run",
        "retry_dead_letter_task": "retry_dead", "drain_node_tasks": "drain_node", "list_runs": "list_runs",
        "stream_task_output": "get_task_output", "explain_task": "explain_task", "signal": "signal_run",
        "list_nodes": "list_nodes", "resume_run": "resume_run", "skip_tasks": "skip_tasks",
        "mark_tasks": "mark_tasks", "pause_run": "pause_run", "unpause_run": "unpause_run",
        "correct_run": "correct_run", "apply_workflow": "apply_workflow", "list_triggers": "list_triggers",
        "pause_trigger": "pause_trigger", "resume_trigger": "resume_trigger", "fire_trigger": "fire_trigger",
        "rerun_run": "rerun_run", "list_events": "list_events", "diff_runs": "diff_runs", "get_run_at": "get_run_at",
        "get_task_launch": "get_task_launch", "set_run_budget": "set_run_budget",
        "list_artifacts": "list_artifacts", "read_artifact": "read_task_file",
        "preview_rerun": "preview_rerun",
        "start_backfill": "start_backfill", "list_backfills": "list_backfills", "get_backfill": "get_backfill",
        "cancel_backfill": "cancel_backfill",
        "list_notifications": "list_notifications", "retry_notifications": "retry_notifications",
    }  # fmt: skip
    assert {name: BY_NAME[name].role for name in same} == {name: routes[route] for name, route in same.items()}
    assert set(BY_NAME) - set(same) == {"validate_workflow", "preview", "get_critical_path"}


@pytest.mark.parametrize("mode", MODES)
def test_a_token_sees_and_calls_what_its_role_may(serving: Callable[..., Agents], mode: str) -> None:
    server = serving(node=False, gate=Everybody())
    for role in ("viewer", "operator", "admin"):

        async def talk(calls: Calls, role: str = role) -> None:
            there = {tool.name for tool in TOOLS if RANK[tool.role] <= RANK[role]}
            assert set(await calls.names()) == there
            for tool in TOOLS:
                code = (await calls.refused(tool.name, nothing="like that"))[0]
                assert (code == "forbidden") == (tool.name not in there), (role, tool.name, code)

        server.tell(talk, token=role, mode=mode)


def test_without_a_token_there_is_nothing(serving: Callable[..., Agents]) -> None:
    server = serving(node=False, gate=OneToken(TOKEN))
    for token in (None, "garbage", TOKEN[:-1]):
        for version in ("2025-11-25", "2026-07-28", ""):
            answer = server.client(token).post("/mcp", CALL, Accept=BOTH, MCP_Protocol_Version=version)
            assert answer.code == "unauthorized"
            assert answer.headers["www-authenticate"] == "Bearer"
    assert server.tell(lambda calls: calls.names(), token=TOKEN)


def test_a_token_counts_for_each_request_by_itself(serving: Callable[..., Agents]) -> None:
    """No session carries a role from one request to the next."""
    server = serving(node=False, gate=Everybody())
    call = {**CALL, "method": "tools/call", "params": {"name": "submit_task", "arguments": {"task": "true"}}}
    headers = {"Accept": BOTH, "MCP_Protocol_Version": "2025-06-18"}
    assert b"forbidden" in server.client("viewer").post("/mcp", call, **headers).body
    allowed = server.client("operator").post("/mcp", call, **headers)
    assert allowed.status == 200
    assert "mcp-session-id" not in allowed.headers
    assert b"forbidden" in server.client("viewer").post("/mcp", call, Mcp_Session_Id="stolen", **headers).body
    assert len(server.connection.runs()) == 1


def test_the_door_is_that_of_the_api(idle: Agents) -> None:
    """Other names (DNS rebinding), other pages, forms, other methods, large bodies: as with any route."""
    assert idle.post("/mcp", CALL, Host="evil.example", Accept=BOTH).code == "host"
    assert idle.post("/mcp", CALL, Origin="https://evil.example", Accept=BOTH).code == "origin"
    for method in ("GET", "DELETE", "PUT"):
        answer = idle.call(method, "/mcp", Accept=BOTH)
        assert answer.code == "method"
        assert answer.headers["allow"] == "POST"
    for version in ("2025-11-25", "2026-07-28"):
        answer = idle.post("/mcp", CALL, Content_Type="text/plain", Accept=BOTH, MCP_Protocol_Version=version)
        assert answer.status in (400, 415), answer
    assert idle.post("/mcp", b"{" * 100, Accept=BOTH).status == 400
    assert idle.post("/mcp", b"[" * 100_000, Accept=BOTH).status == 400
    assert idle.get("/mcp/x").code == "no_route"
    assert idle.get("/v1/runs").json == {"runs": [], "next": None}


def test_large_bodies_are_refused(serving: Callable[..., Agents]) -> None:
    server = serving(node=False, body_max=10_000)
    call = {**CALL, "params": {"cursor": "x" * 20_000}}
    assert server.client().post("/mcp", call, Accept=BOTH).code == "too_large"


def test_an_unknown_tool_is_told_with_what_was_meant(idle: Agents) -> None:
    async def talk(calls: Calls) -> None:
        with pytest.raises(MCPError, match="did you mean list_tasks"):
            await calls.raw("list_task")

    idle.tell(talk)


def test_a_server_that_only_looks_has_no_other_tools(serving: Callable[..., Agents]) -> None:
    server = serving(node=False, read_only=True)

    async def talk(calls: Calls) -> None:
        assert set(await calls.names()) == READING
        for name in set(BY_NAME) - READING:
            code, words = await calls.refused(name, run="last")
            assert code == "read_only"
            assert name in words

    server.tell(talk)
    assert server.connection.runs() == []


def test_reading_tools_change_nothing(agents: Agents) -> None:
    """Every one of them, on a store where something happened; not a byte of it is another one after."""
    (run,) = (agents.submit({"name": "w", "tasks": {"a": "echo 1"}}),)
    agents.ended(run)
    agents.connection.apply(
        load_value({"name": "t", "triggers": [{"every": "1h"}], "tasks": {"a": "echo 1"}}), "/tmp"
    )
    now = agents.connection.now()
    filled = agents.connection.start_backfill("t", now - 3_600_000, now).backfill
    assert filled is not None
    until(lambda: agents.connection.backfill(filled.id).succeeded == filled.total)
    before = _rows(agents)

    async def talk(calls: Calls) -> None:
        given: dict[str, dict[str, Any]] = {
            "get_task_result": {"run": run}, "stream_task_output": {"run": run}, "get_workflow_status": {"run": run},
            "explain_task": {"run": run}, "get_critical_path": {"run": run}, "preview": {"workflow": "w"},
            "validate_workflow": {"definition": ["true"]}, "diff_runs": {"old": run, "new": run},
            "get_task_launch": {"run": run, "task": "a"},
            "list_artifacts": {"run": run},
            "get_backfill": {"backfill": filled.id},
            "preview_rerun": {"run": run, "from_tasks": ["a"]},
            "get_run_at": {"run": run, "event": 2**40},
        }  # fmt: skip
        for name in sorted(READING - {"read_artifact"}):  # which needs a file
            await calls(name, **given.get(name, {}))

    agents.tell(talk)
    assert _rows(agents) == before


def _rows(agents: Agents) -> str:
    info = agents.connection.info()
    return json.dumps([info.runs, info.tasks, info.events, agents.connection.last_event()])
