"""Plugins that break the protocol: their node goes on, and each attempt ends once."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from weft.executors.boot_clock import boottime
from weft.executors.protocol import Ended, Handle, Launch, OnceAnswer, OnceQuestion, Outcome, StopReason, Usage
from weft.plugins import AsyncAttempt, AsyncExecutor, AttemptFailed, isolated
from weft.plugins.isolated import IsolatedExecutor, IsolatedRemoteExecutor
from weft.plugins.registry import Plugin
from weft.plugins.spec_schema import read_schema

PATIENCE_S = 30.0


class Odd:
    """An executor that does nothing at all."""

    kinds = frozenset({"odd"})

    async def open(self) -> None: ...

    def start(self, launch: Launch, on_ended: Ended) -> None: ...

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None: ...

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        return accepted

    def trust(self, until: float) -> None: ...

    async def close(self) -> None: ...


def launch_of(**more: Any) -> Launch:
    spec = {"odd": more.pop("spec", {})}
    env = {"WEFT_IDEMPOTENCY_KEY": "r/a"}
    return Launch(7, 1, "r", "a", "odd", spec, env, None, more.pop("output_dir", "/nonexistent"), 1 << 20, **more)


class Node:
    """As much of a node as an executor needs."""

    def __init__(self, executor: type[Any], **more: Any) -> None:
        self.logged: list[tuple[str, dict[str, Any]]] = []
        schema = more.pop("schema", None)
        plugin = Plugin(
            "odd", "weft-odd", "1.0", executor, None, None if schema is None else read_schema(schema),
            getattr(executor, "requires", {}),
        )  # fmt: skip
        self.executor = isolated.isolated(
            plugin, boottime, lambda message, fields: self.logged.append((message, fields))
        )
        self.ends: list[Outcome] = []
        self.threads: set[int] = set()

    def on_ended(self, outcome: Outcome) -> None:
        self.threads.add(threading.get_ident())
        self.ends.append(outcome)

    async def ended(self) -> Outcome:
        async with asyncio.timeout(PATIENCE_S):
            while not self.ends:
                await asyncio.sleep(0.005)
        return self.ends[0]


def play(node: Node, story: Callable[[Node, Any], Awaitable[None]]) -> None:
    async def whole() -> None:
        await node.executor.open()
        try:
            await story(node, node.executor)
        finally:
            await node.executor.close(2.0)
        assert node.threads <= {threading.get_ident()}, "an end was reported on another thread than the node's"

    asyncio.run(whole())


def test_what_start_raises_fails_the_attempt() -> None:
    class Raises(Odd):
        def start(self, launch: Launch, on_ended: Ended) -> None:
            raise RuntimeError("no room\nat all")

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        assert await executor.check() is None
        executor.start(launch_of(), node.on_ended)
        end = await node.ended()
        assert not end.ok
        assert end.error == "odd: start raised RuntimeError: no room at all"
        assert end.retryable

    play(Node(Raises), story)


def test_a_second_end_is_ignored_and_logged() -> None:
    class Twice(Odd):
        def start(self, launch: Launch, on_ended: Ended) -> None:
            for ok in (True, False):
                on_ended(Outcome(launch.task_id, launch.attempt, ok, 0, 1.0, 2.0))

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        await executor.check()
        executor.start(launch_of(), node.on_ended)
        await node.ended()
        await asyncio.sleep(0.1)
        assert [end.ok for end in node.ends] == [True]
        assert node.logged == [("a plugin reported an end twice", {"type": "odd", "task": "a", "attempt": 1})]

    play(Node(Twice), story)


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (None, "a NoneType instead of an Outcome"),
        (Outcome(8, 1, True, 0, 1.0, 2.0), "the outcome of another attempt"),
        (Outcome(7, 1, True, 0, 1.0, 2.0, output=object()), "values that cannot be stored"),
        (Outcome(7, 1, True, "zero", 1.0, 2.0), "values that cannot be stored: Expected `int | null`"),  # type: ignore[arg-type]  # wrong on purpose
        (Outcome(7, 1, False, 0, 1.0, "now"), "values that cannot be stored: Expected `float`"),  # type: ignore[arg-type]  # wrong on purpose
    ],
)  # fmt: skip
def test_an_end_that_is_no_outcome_is_a_failure(outcome: Any, why: str) -> None:
    class Wrong(Odd):
        def start(self, launch: Launch, on_ended: Ended) -> None:
            on_ended(outcome)

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        await executor.check()
        executor.start(launch_of(), node.on_ended)
        end = await node.ended()
        assert not end.ok
        assert end.error is not None
        assert why in end.error

    play(Node(Wrong), story)


def test_a_whole_outcome_passes_as_it_is() -> None:
    said = Outcome(
        7, 1, True, 0, 1, 2.0, None, None, True, {"stdout": "x"}, {"n": [1]}, {"c": 1}, 0, "odd_cause", True, 1.5,
        Usage(3, 4), {"verified": True}, False,
    )  # fmt: skip

    class Good(Odd):
        def start(self, launch: Launch, on_ended: Ended) -> None:
            threading.Thread(target=on_ended, args=(said,)).start()  # any thread will do

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        await executor.check()
        executor.start(launch_of(), node.on_ended)
        assert await node.ended() is said

    play(Node(Good), story)


def test_a_stop_that_nothing_confirms_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "UNCONFIRMED_S", 0.1)

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        await executor.check()
        executor.start(launch_of(), node.on_ended)
        executor.stop(7, 1, "cancel", 0.05)
        end = await node.ended()
        assert end.stopped == "cancel"
        assert end.termination == {"requested": "cancel", "verified": False}

    play(Node(Odd), story)


def test_a_check_that_blocks_does_not_hold_up_the_node() -> None:
    let_go = threading.Event()

    class Blocks(Odd):
        async def check(self) -> str | None:
            let_go.wait()
            return None

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        began = time.monotonic()
        assert await executor.check(0.2) == isolated.NOT_YET
        assert time.monotonic() - began < 5.0
        executor.start(launch_of(), node.on_ended)  # claimed before: it waits behind the check
        executor.stop(7, 1, "cancel", 0.0)
        executor.trust(boottime() + 1)
        executor._checked_since -= isolated.CHECK_MAX_S
        assert await executor.check(0.01) == isolated.NO_ANSWER
        let_go.set()
        async with asyncio.timeout(PATIENCE_S):
            while await executor.check() is not None:
                await asyncio.sleep(0.01)

    play(Node(Blocks), story)


def test_a_plugin_that_blocks_for_ever_is_left_behind() -> None:
    let_go = threading.Event()

    class Blocks(Odd):
        def start(self, launch: Launch, on_ended: Ended) -> None:
            let_go.wait()

    node = Node(Blocks)

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        await executor.check()
        executor.start(launch_of(), node.on_ended)

    began = time.monotonic()
    play(node, story)
    assert time.monotonic() - began < 20.0
    assert node.logged[-1][1]["method"] == "close"
    let_go.set()


@pytest.mark.parametrize(
    ("method", "expected"),
    [("open", "it cannot be opened: OSError: broken"), ("check", "its check raised OSError: broken")],
)
def test_what_open_and_check_raise_is_why_not(method: str, expected: str) -> None:
    async def broken(self: Any) -> str | None:
        raise OSError("broken")

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        assert await executor.check() == expected
        assert await executor.check() == expected

    play(Node(type("Broken", (Odd,), {method: broken})), story)


def test_a_check_that_exits_ends_neither_node_nor_plugin() -> None:
    class Exits(Odd):
        def __init__(self) -> None:
            self.checks = 0

        async def check(self) -> str | None:
            self.checks += 1
            if self.checks == 1:
                raise SystemExit(1)
            asyncio.get_running_loop().call_soon(lambda: (_ for _ in ()).throw(SystemExit(2)))
            return None

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        assert await executor.check() == "its check raised SystemExit: 1"
        assert await executor.check() is None
        await asyncio.sleep(0.05)
        assert await executor.check() is None

    play(Node(Exits), story)


def test_stop_trust_and_started_may_raise() -> None:
    class Raises(Odd):
        def stop(self, *values: Any) -> None:
            raise ValueError("stop")

        def trust(self, until: float) -> None:
            if until < 1000:
                raise ValueError("trust")

        def started(self, *values: Any) -> float | None:
            raise ValueError("started")

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        await executor.check()
        executor.start(launch_of(), node.on_ended)
        assert executor.started(7, 1, 3.5) == 3.5
        executor.trust(1.0)
        executor.stop(7, 1, "timeout", 0.0)
        async with asyncio.timeout(PATIENCE_S):
            while len(node.logged) < 3:
                await asyncio.sleep(0.01)
        assert sorted(fields["method"] for _, fields in node.logged) == ["started", "stop", "trust"]

    play(Node(Raises), story)


def test_what_is_required_of_the_node() -> None:
    class Needs(Odd):
        requires = {"programs": ("no-such-program-here",)}  # noqa: RUF012 - as authors write it

    class Labels(Odd):
        requires = {"labels": ("gpu",)}  # noqa: RUF012 - as authors write it

    async def programs(node: Node, executor: IsolatedExecutor) -> None:
        assert await executor.check() == "it needs the program no-such-program-here, not found in PATH"

    async def labels(node: Node, executor: IsolatedExecutor) -> None:
        assert await executor.check() == "it needs a node with the labels gpu"

    play(Node(Needs), programs)
    play(Node(Labels), labels)


def test_the_resolved_spec_is_checked_again() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        await executor.check()
        executor.start(launch_of(spec={"n": "many"}), node.on_ended)
        end = await node.ended()
        assert end.error == "odd: spec.n: expected a whole number, found the text 'many'"
        assert not end.retryable

    play(Node(Odd, schema=schema), story)


# -- remote ------------------------------------------------------------------------------------------------


class OddRemote(Odd):
    engine = "e"

    def __init__(self) -> None:
        self.there = True
        self.removed: list[Handle] = []

    async def check(self) -> str | None:
        return None

    def handle(self, launch: Launch) -> Handle:
        return Handle("e", launch.task)

    async def remove(self, handles: Sequence[Handle]) -> list[Handle]:
        self.removed += handles
        return [] if self.there else list(handles)


def test_a_remote_attempt_ends_only_when_the_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "_RETRY_S", 0.01)
    monkeypatch.setattr(isolated, "UNCONFIRMED_S", 0.01)
    notes: list[str] = []

    class Raises(OddRemote):
        def start(self, launch: Launch, on_ended: Ended) -> None:
            raise RuntimeError("half way")

    async def story(node: Node, executor: IsolatedRemoteExecutor) -> None:
        await executor.check()
        launch = launch_of(handle=Handle("e", "a"), progress=lambda task, attempt, text: notes.append(text))
        executor.start(launch, node.on_ended)
        executor.stop(7, 1, "cancel", 0.0)
        async with asyncio.timeout(PATIENCE_S):
            while len(executor._made.removed) < 3:
                await asyncio.sleep(0.01)
        assert not node.ends
        assert "start raised RuntimeError: half way; its engine has not confirmed that it is gone" in notes[0]
        executor._made.there = False
        end = await node.ended()
        assert (end.ok, end.stopped) == (False, "cancel")

    play(Node(Raises), story)


def test_handles_and_removal_are_checked() -> None:
    class Lies(OddRemote):
        def handle(self, launch: Launch) -> Any:
            return "a"

        async def remove(self, handles: Sequence[Handle]) -> Any:
            return 7 if handles[0].name == "x" else [*handles, Handle("e", "never asked for")]

    async def story(node: Node, executor: IsolatedRemoteExecutor) -> None:
        assert executor.engine is None  # nothing is known before the first check
        assert await executor.remove([Handle("e", "y")]) == []
        await executor.check()
        assert executor.engine == "e"
        with pytest.raises(TypeError, match="handle"):
            executor.handle(launch_of())
        assert await executor.remove([Handle("e", "y")]) == [Handle("e", "y")]
        assert await executor.remove([Handle("e", "x")]) == []

    play(Node(Lies), story)


# -- the simple executor -----------------------------------------------------------------------------------


class Work(msgspec.Struct):
    how: str = "return"


class Simple(AsyncExecutor):
    schema = Work

    async def run(self, spec: Work, attempt: AsyncAttempt) -> Any:
        attempt.print("began", spec.how)
        if spec.how == "raise":
            raise KeyError("gone")
        if spec.how == "give up":
            raise AttemptFailed("busy", cause="busy", retryable=False, retry_after_s=3.0)
        if spec.how == "object":
            return object()
        if spec.how == "ask":
            assert attempt.launch.ask is not None
            return (await attempt.launch.ask(7, 1, OnceQuestion("k"))).value
        if spec.how == "deaf":
            for _ in range(2):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    attempt.print("not yet", error=True)
        if spec.how in ("sleep", "deaf"):
            await asyncio.sleep(60)
        attempt.context["seen"] = True
        return {"how": spec.how, "key": attempt.idempotency_key}


def simple(how: str, tmp_path: Any, act: Callable[[IsolatedExecutor], None] = lambda executor: None) -> Outcome:
    async def ask(task_id: int, attempt: int, question: OnceQuestion) -> OnceAnswer:
        return OnceAnswer("completed", f"{question.key} on {threading.get_ident()}")

    async def story(node: Node, executor: IsolatedExecutor) -> None:
        await executor.check()
        executor.trust(boottime() + 60)
        launch = launch_of(spec={"how": how}, output_dir=str(tmp_path), ask=ask, secrets={"S": "sleep"})
        executor.start(launch, node.on_ended)
        while how in ("sleep", "deaf") and not (tmp_path / "a.1.out").exists():
            await asyncio.sleep(0.01)
        act(executor)
        await node.ended()

    node = Node(Simple, schema=Work)
    play(node, story)
    return node.ends[0]


def test_what_run_returns_is_the_output(tmp_path: Any) -> None:
    end = simple("return", tmp_path)
    assert end.ok
    assert end.output == {"how": "return", "key": "r/a"}
    assert end.context == {"seen": True}
    assert end.result == {"stdout": "began return\n", "stderr": ""}


def test_failures_of_run(tmp_path: Any) -> None:
    end = simple("raise", tmp_path)
    assert end.error == "KeyError: 'gone'"
    assert end.result is not None
    assert end.result["error"]["type"] == "KeyError"
    end = simple("give up", tmp_path)
    assert (end.error, end.cause, end.retryable, end.retry_after_s) == ("busy", "busy", False, 3.0)
    end = simple("object", tmp_path)
    assert end.error is not None
    assert "object" in end.error


def test_questions_are_answered_on_the_nodes_loop(tmp_path: Any) -> None:
    assert simple("ask", tmp_path).output == f"k on {threading.get_ident()}"


@pytest.mark.parametrize("reason", ["cancel", "timeout", "drain"])
def test_a_stop_cancels(tmp_path: Any, reason: StopReason) -> None:
    end = simple("sleep", tmp_path, lambda executor: executor.stop(7, 1, reason, 0.0))
    assert end.stopped == reason
    assert (tmp_path / "a.1.out").read_text() == "began ***\n", "secrets are masked"


def test_a_call_that_ignores_its_cancel_is_cancelled_again(tmp_path: Any) -> None:
    end = simple("deaf", tmp_path, lambda executor: executor.stop(7, 1, "cancel", 0.0))
    assert end.stopped == "cancel"
    assert end.termination is None
    assert (tmp_path / "a.1.err").read_text() == "not yet\n" * 2


def test_calls_end_when_the_lease_is_not_renewed(tmp_path: Any) -> None:
    end = simple("sleep", tmp_path, lambda executor: executor.trust(boottime() + 0.05))
    assert end.stopped == "lease"
