"""What tasks print, read piece by piece while they run; and bounds that no reply goes beyond."""

import asyncio
from typing import Any

import pytest

from tests.api.conftest import until
from tests.mcp.conftest import MODES, Agents, Calls
from weft.mcp import replies
from weft.mcp.server import REPLY_MAX

WAIT = {"wait_s": 50}
SIZE_MAX = 256 * 1024  # that no reply of these tests may have


async def all_of(calls: Calls, **given: Any) -> tuple[str, list[dict[str, Any]]]:
    """A whole stream, page by page."""
    pages: list[dict[str, Any]] = []
    offset = 0
    while not pages or not pages[-1]["ended"]:
        pages.append(await calls("stream_task_output", offset=offset, **given))
        assert pages[-1]["next"] > offset or pages[-1]["ended"], pages[-1]
        offset = pages[-1]["next"]
    return "".join(page["text"] for page in pages), pages


@pytest.mark.parametrize("mode", MODES)
def test_output_is_told_as_progress_while_the_task_runs(agents: Agents, mode: str) -> None:
    """The task goes on only when what it printed has been told: nothing here depends on time."""
    command = "echo one; while [ ! -e heard1 ]; do sleep 0.01; done; echo two"
    shown: list[str] = []

    async def show(progress: float, total: float | None, message: str | None) -> None:
        shown.append(message or "")
        (agents.directory / f"heard{len(shown)}").touch()

    async def talk(calls: Calls) -> None:
        run = (await calls("submit_task", task=command))["run"]
        given = {"run": run, "wait_s": 50}
        result = await calls.client.call_tool("stream_task_output", given, progress_callback=show)
        page: Any = result.structured_content
        assert page["text"] == "one\ntwo\n"
        assert (page["ended"], page["next"], page["size"]) == (True, 8, 8)
        assert shown == ["one\n", "two\n"]

    agents.tell(talk, mode=mode)


def test_a_stream_is_read_in_pages_of_whole_characters(agents: Agents) -> None:
    text = "aé€😀" * 60
    (agents.directory / "text").write_text(text)

    async def talk(calls: Calls) -> None:
        run = (await calls("submit_task", task="cat text"))["run"]
        await calls("get_task_result", run=run, **WAIT)
        for limit in (16, 17, 18, 19, 333, 1000):
            whole, pages = await all_of(calls, run=run, limit=limit)
            assert whole == text
            assert all(len(page["text"].encode()) <= limit for page in pages)
            assert not any(page.get("lossy") for page in pages)
        for before in range(1, 12):
            tail = await calls("stream_task_output", run=run, offset=-before)
            assert text.endswith(tail["text"])
            assert before - len(tail["text"].encode()) in range(4)
            assert tail["ended"] is True

    agents.tell(talk)


def test_bytes_that_are_no_text_are_replaced_and_said_so(agents: Agents) -> None:
    async def talk(calls: Calls) -> None:
        run = (await calls("submit_task", task=r"printf 'a\377b\342\202'"))["run"]
        page = await calls("stream_task_output", run=run, wait_s=50)
        assert page["text"] == "a�b�"
        assert page["lossy"] is True
        assert (page["ended"], page["next"]) == (True, 5)

    agents.tell(talk)


def test_a_task_that_has_not_begun_has_printed_nothing(idle: Agents) -> None:
    async def talk(calls: Calls) -> None:
        run = (await calls("submit_task", task="true"))["run"]
        code, words = await calls.refused("stream_task_output", run=run)
        assert code == "not_started"
        assert "queued" in words
        assert (await calls("get_task_result", run=run, wait_s=0.05))["ended"] is False
        assert (await calls.refused("stream_task_output", run=run, attempt=3))[0] == "not_found"

    idle.tell(talk)


def test_both_streams_and_older_attempts_are_there(agents: Agents) -> None:
    task = {"run": 'echo "try $WEFT_ATTEMPT" >&2; exit 1', "retry": {"max": 1, "backoff": "1ms"}}

    async def talk(calls: Calls) -> None:
        run = (await calls("submit_task", task=task))["run"]
        await calls("get_task_result", run=run, **WAIT)
        for attempt in (1, 2):
            page = await calls("stream_task_output", run=run, stream="stderr", attempt=attempt)
            assert page["text"] == f"try {attempt}\n"
        assert (await calls("stream_task_output", run=run))["text"] == ""

    agents.tell(talk)


def test_no_reply_is_large(agents: Agents) -> None:
    """Megabytes on both streams, a large value, long reasons, thousands of tasks: everything comes in pages."""
    big = {
        "run": "head -c 3000000 /dev/zero | tr '\\0' x | tee /dev/stderr;"
        ' python3 -c \'import json; print(json.dumps(["y" * 1000] * 400))\' > "$WEFT_OUTPUT"'
    }
    many = {"name": "many", "tasks": {"each": {"map": list(range(1000)), "run": "true"}}}

    async def talk(calls: Calls) -> None:
        run = (await calls("submit_task", task=big))["run"]
        result = await calls.raw("get_task_result", run=run, tail=16384, wait_s=50)
        done: Any = result.structured_content
        assert done["state"] == "succeeded", done
        assert (len(done["stdout"]), len(done["stderr"]), done["cut"]) == (16384, 16384, True)
        assert "output" not in done
        assert done["output_cut"].startswith('["yyy')
        assert len(done["output_cut"]) <= replies.VALUE_MAX + 1
        assert len(result.model_dump_json()) < SIZE_MAX
        page = await calls.raw("stream_task_output", run=run, limit=65536)
        assert len(page.model_dump_json()) < SIZE_MAX
        assert REPLY_MAX >= SIZE_MAX
        run = (await calls("submit_workflow", definition=many))["run"]
        result = await calls.raw("get_workflow_status", run=run)
        assert len(result.model_dump_json()) < SIZE_MAX
        await calls("cancel_run", run=run)
        seen: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            found = await calls("list_tasks", run=run, limit=100, **cursor)
            assert len(found["tasks"]) <= 100
            seen += [task["task"] for task in found["tasks"]]
            if "next" not in found:
                break
            cursor = {"cursor": found["next"]}
        assert sorted(seen) == sorted(["each", *(f"each.{n}" for n in range(1000))])

    agents.tell(talk)


def test_pages_of_runs_workflows_and_nodes_are_whole(idle: Agents) -> None:
    async def talk(calls: Calls) -> None:
        for number in range(7):
            await calls("submit_workflow", definition={"name": f"w{number}", "tasks": {"a": "true"}})
        for tool, key, name in (("list_runs", "runs", "name"), ("list_workflows", "workflows", "name")):
            seen: list[str] = []
            cursor: dict[str, Any] = {}
            while True:
                page = await calls(tool, limit=3, **cursor)
                seen += [line[name] for line in page[key]]
                if "next" not in page:
                    break
                cursor = {"cursor": page["next"]}
                await calls("submit_task", task="true", name="meanwhile")
            assert sorted(one for one in seen if one != "meanwhile") == [f"w{n}" for n in range(7)]
        assert (await calls("list_runs", states=["succeeded"]))["runs"] == []
        assert len((await calls("list_runs", workflow="w3"))["runs"]) == 1

    idle.tell(talk)


def test_whoever_waits_is_answered_when_the_server_stops(agents: Agents) -> None:
    """And does not hold up the stop until its time is over."""

    async def talk(calls: Calls) -> Any:
        run = (await calls("submit_task", task="while [ ! -e go ]; do sleep 0.01; done"))["run"]
        waiting = asyncio.ensure_future(calls("get_task_result", run=run, wait_s=50))
        await asyncio.to_thread(until, lambda: agents.connection.task(run, "task").state == "running")
        agents.app.state.begin_stopping()
        found = await waiting
        (agents.directory / "go").touch()
        return found

    found = agents.tell(talk)
    assert found["ended"] is False
