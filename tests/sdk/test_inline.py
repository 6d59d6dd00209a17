"""Async functions of the application itself: on the node's own event loop, durable like all others."""

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.authoring.flow_errors import FlowError
from weft.core.commands import Refused

SEEN: list[Any] = []


@weft.task(inline=True)
async def fetch(url: str, times: int = 1) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"url": url * times, "pid": os.getpid(), "thread": threading.current_thread().name}


@weft.task
def length(found: dict[str, Any]) -> int:
    return len(found["url"])


@weft.flow
def crawl(url: str) -> dict[str, Any]:
    found = fetch(url, times=2)
    return {"found": found, "length": length(found)}


def test_a_flow_brings_its_own_inline_functions(tmp_path: Path) -> None:
    assert crawl.definition()["tasks"]["fetch"] == {
        "inline": "fetch",
        "with": {"url": "${{ inputs.url }}", "times": 2},
    }
    with weft.open(tmp_path / "weft.db") as w:
        out = w.run(crawl, "abc")
        assert (out["found"]["url"], out["length"]) == ("abcabc", 6)
        assert out["found"]["pid"] == os.getpid(), "it runs in this very process"
        assert out["found"]["thread"] == "weft", "on the node's loop, not on the application's"
        (run,) = w.connection.runs()
        assert w.connection.verify(run.id).ok


def definition(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "flow.yaml"
    path.write_text(text)
    return path


async def add(a: int, b: int = 1) -> int:
    return a + b


async def remember(key: str) -> None:
    weft.context_update(**{key: weft.variables()["WEFT_TASK"]})


async def fails(message: str) -> None:
    raise ValueError(message)


async def stubborn() -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        SEEN.append("cancelled")
        raise
    return "slept"


def test_definitions_name_functions_that_were_given(tmp_path: Path) -> None:
    text = """
tasks:
  one: {inline: add, with: {a: 2}}
  many: {map: [1, 2, 3], inline: plus, with: {a: "${{ item }}", b: "${{ tasks.one.output }}"}}
  note: {inline: remember, with: {key: who}}
  check: {needs: [note, one], run: 'test ${{ context.who }} = note', if: tasks.one.exitCode === 0}
output: {many: "${{ tasks.many.output }}", who: "${{ context.who }}"}
"""
    functions: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {"add": add, "plus": add, "remember": remember}
    with weft.open(tmp_path / "weft.db", inline=functions) as w:
        assert w.finish(w.start(definition(tmp_path, text))) == {"many": [4, 5, 6], "who": "note"}


def test_an_exception_is_kept_and_retried_like_any_other(tmp_path: Path) -> None:
    text = "tasks: {bad: {inline: fails, with: {message: oh no}, retry: {max: 1, backoff: 1ms}}}"
    with weft.open(tmp_path / "weft.db", inline=[fails]) as w:
        with pytest.raises(weft.RunFailed, match="ValueError: oh no") as caught:
            w.finish(w.start(definition(tmp_path, text)))
        (failure,) = caught.value.failures
        assert failure.state == "dead_letter"
        assert "raise ValueError(message)" in (failure.traceback or "")
        attempts = w.connection.attempts(caught.value.run_id, "bad")
        assert [a.exit_code for a in attempts] == [1, 1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{a: 1, c: 2}", "add() takes no c: it takes a and b"),
        ("{b: 2}", "add() needs a, which `with` does not give"),
    ],
)
def test_arguments_are_checked(tmp_path: Path, arguments: str, said: str) -> None:
    text = f"tasks: {{one: {{inline: add, with: {arguments}}}}}"
    with weft.open(tmp_path / "weft.db", inline=[add]) as w, pytest.raises(weft.RunFailed) as caught:
        w.finish(w.start(definition(tmp_path, text)))
    assert said in str(caught.value)


async def returns_a_function() -> Any:
    return returns_much


async def returns_much() -> list[str]:
    return ["x" * 1000] * 2000


def test_results_are_json_of_any_size(tmp_path: Path) -> None:
    with weft.open(tmp_path / "weft.db", inline=[returns_a_function, returns_much]) as w:
        with pytest.raises(weft.RunFailed, match="returned a function, which JSON cannot hold"):
            w.finish(w.start(definition(tmp_path, "tasks: {one: {inline: returns_a_function}}")))
        text = 'tasks: {one: {inline: returns_much}}\noutput: "${{ tasks.one.output.length }}"'
        assert w.finish(w.start(definition(tmp_path, text))) == 2000


def test_a_timeout_cancels_it(tmp_path: Path) -> None:
    SEEN.clear()
    text = "tasks: {slow: {inline: stubborn, timeout: 200ms}}"
    with weft.open(tmp_path / "weft.db", inline=[stubborn]) as w:
        begun = time.monotonic()
        with pytest.raises(weft.RunFailed, match=r"timed out after 0\.2 s"):
            w.finish(w.start(definition(tmp_path, text)))
        assert time.monotonic() - begun < 20
        assert SEEN == ["cancelled"]


STARTED = threading.Event()
HEEDED: list[int] = []


async def heeds_the_second_time() -> None:
    STARTED.set()
    for again in range(3):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            HEEDED.append(again)
            if again == 1:
                raise


def test_a_cancel_is_insisted_on(tmp_path: Path) -> None:
    STARTED.clear()
    HEEDED.clear()
    text = "tasks: {slow: {inline: heeds_the_second_time}}"
    with weft.open(tmp_path / "weft.db", inline=[heeds_the_second_time], worker=True) as w:
        run_id = w.start(definition(tmp_path, text))
        assert STARTED.wait(30)
        w.connection.cancel(run_id)
        with pytest.raises(weft.RunFailed, match="cancelled"):
            w.finish(run_id)
        assert HEEDED == [0, 1]
        (task,), _ = w.connection.tasks(run_id)
        assert task.state == "cancelled"


def test_closing_hands_back_and_another_process_would_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DRAIN", "0.1s")
    STARTED.clear()
    path = definition(tmp_path, "tasks: {one: {inline: work}}")

    async def never_done() -> None:
        STARTED.set()
        await asyncio.sleep(60)

    async def done() -> str:
        return "done"

    with weft.open(tmp_path / "weft.db", inline={"work": never_done}, worker=True) as w:
        run_id = w.start(path)
        assert STARTED.wait(30)
    with weft.open(tmp_path / "weft.db", inline={"work": done}) as w:
        w.finish(run_id)
        attempts = w.connection.attempts(run_id, "one")
        assert [a.outcome for a in attempts] == ["returned", "succeeded"]
        assert w.connection.verify(run_id).ok


@weft.flow
def wrong() -> int:
    return length.options(inline=True)({})


def test_plain_functions_are_refused() -> None:
    def blocking() -> None: ...

    with pytest.raises(TypeError, match="inline: blocking is a plain function, which would block"):
        weft.open("unused.db", inline=[blocking])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="inline: 'x' is a str"):
        weft.open("unused.db", inline=["x"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="two functions are named add"):
        weft.open("unused.db", inline=[add, add])
    assert not Path("unused.db").exists()
    with pytest.raises(FlowError, match="length is inline, but not async"):
        wrong.definition()


def test_a_node_without_the_function_leaves_it_and_why_says_so(tmp_path: Path) -> None:
    path = definition(tmp_path, "tasks: {one: {inline: add, with: {a: 1}}}")
    with weft.open(tmp_path / "weft.db", inline=[remember], worker=True) as w:
        run_id = w.start(path)
        (explanation,) = w.connection.why(run_id)
        assert explanation.summary == "no live node may take it"
        assert "its application gave it no inline function 'add'" in explanation.details[0]
        with pytest.raises(Refused, match="no live node can run fetch: this node: its application gave it no inline"):
            w.run(crawl, "x")
        with weft.open(tmp_path / "weft.db", inline=[add]) as other:
            assert other.finish(run_id) is None
            assert w.connection.run(run_id).state == "succeeded"


WHO: contextvars.ContextVar[int] = contextvars.ContextVar("who", default=0)


async def set_and_say(number: int) -> int:
    before = WHO.get()
    WHO.set(number)
    return before


def test_no_function_sees_what_another_one_set_in_its_context(tmp_path: Path) -> None:
    """With one slot each starts when the one before it has ended."""
    tasks = "".join(f"  t{i}: {{inline: set_and_say, with: {{number: {i + 1}}}}}\n" for i in range(5))
    text = f"tasks:\n{tasks}output: {{first: '${{{{ tasks.t0.output }}}}', last: '${{{{ tasks.t4.output }}}}'}}"
    with weft.open(tmp_path / "weft.db", slots=1, inline=[set_and_say]) as w:
        assert w.finish(w.start(definition(tmp_path, text))) == {"first": 0, "last": 0}
