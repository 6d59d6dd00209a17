"""weft.once in runner processes: what is asked of the node, and what functions make of the answers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.executors.attempts import ends
from tests.executors.python.runners import Runners, with_runners
from weft.executors.protocol import OnceAnswer, OnceQuestion

SOURCE = """
    import asyncio, functools, threading, time
    import weft

    def line(name, text="x"):
        with open(name, "a") as file:
            file.write(text + "\\n")

    def pay(value=None):
        return weft.once("pay", lambda: line("paid") or value)

    def twice():
        return [weft.once("a", lambda: line("a") or (1, 2)), weft.once("a", lambda: line("a") or 3)]

    def careful():
        return weft.once("pay", lambda: line("paid"), unknown="raise")

    def failing():
        weft.once("pay", lambda: 1 / 0)

    def interleaved():
        def inner():
            return weft.once("pay", lambda: 1)
        return weft.once("pay", inner)

    def wrong_value():
        weft.once("pay", lambda: object())

    async def send(text="sent"):
        line("sent", text)
        await asyncio.sleep(0.01)
        return text

    async def lost_context():
        found = []

        def look():
            try:
                weft.current()
            except RuntimeError as error:
                found.append(str(error))

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return found

    async def lazy():
        return await weft.once("send", lambda: send())

    async def many():
        return await asyncio.gather(*[weft.once(f"k{n}", functools.partial(send, f"m{n}")) for n in range(20)])

    async def mixed():
        return [weft.once("plain", lambda: line("plain") or 1), await weft.once("async", send)]

    def own_loop():
        return asyncio.run(many())

    def returns_awaitable():
        return many()

    def threads():
        found = []
        made = [threading.Thread(target=lambda n=n: found.append(weft.once(f"t{n}", lambda: n))) for n in range(5)]
        for thread in made: thread.start()
        for thread in made: thread.join()
        return sorted(found)

    async def beside():
        line("began")
        await asyncio.sleep(0.2)
        return "beside"

    def me():
        now = weft.current()
        return [now.run_id, now.task, now.attempt, now.index, now.idempotency_key]
"""


class Book:
    """A store for one task's effects, that remembers what it was asked."""

    def __init__(self) -> None:
        self.done: dict[str, str | None] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.pause = asyncio.Event()
        self.pause.set()
        self.answer: OnceAnswer | None = None

    async def ask(self, task_id: int, attempt: int, question: OnceQuestion) -> OnceAnswer:
        self.asked.append((question.key, question.ending))
        await self.pause.wait()
        if self.answer is not None:
            return self.answer
        if question.ending is None:
            known = question.key in self.done
            return OnceAnswer("completed", self.done[question.key]) if known else OnceAnswer("call")
        if question.ending == "completed":
            self.done[question.key] = question.value
        return OnceAnswer("kept")


async def call(runners: Runners, book: Book, function: str, **arguments: Any) -> Any:
    _, future = runners.start_with(f"tasks:{function}", arguments, ask=book.ask)
    return await ends(future)


def lines(runners: Runners, name: str) -> list[str]:
    path = runners.directory / name
    return path.read_text().splitlines() if path.exists() else []


def test_an_effect_happens_once_and_its_value_is_kept(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        book = Book()
        for _ in range(3):
            outcome = await call(runners, book, "pay", value={"n": [1, None]})
            assert outcome.output == {"n": [1, None]}, outcome
        assert lines(runners, "paid") == ["x"]
        assert book.asked == [("pay", None), ("pay", "completed"), ("pay", None), ("pay", None)]
        assert (await call(runners, Book(), "twice")).output == [[1, 2], [1, 2]], "as JSON has it, the first time too"
        assert lines(runners, "a") == ["x"]

    with_runners(tmp_path, SOURCE, story)


def test_a_function_that_raises_is_called_again(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        book = Book()
        outcome = await call(runners, book, "failing")
        assert not outcome.ok
        assert outcome.error == "ZeroDivisionError: division by zero"
        assert book.asked == [("pay", None), ("pay", "failed")]

    with_runners(tmp_path, SOURCE, story)


@pytest.mark.parametrize(
    ("function", "answer", "error"),
    [
        (
            "pay",
            OnceAnswer("stale", "its session is over"),
            "AttemptOver: once('pay') was not started: its session is over",
        ),
        ("careful", OnceAnswer("unknown", "attempt 1 began it"), "OutcomeUnknown: once('pay'): attempt 1 began it"),
    ],
)
def test_without_leave_nothing_happens(tmp_path: Path, function: str, answer: OnceAnswer, error: str) -> None:
    async def story(runners: Runners) -> None:
        book = Book()
        book.answer = answer
        outcome = await call(runners, book, function)
        assert (outcome.ok, outcome.error) == (False, error)
        assert lines(runners, "paid") == []

    with_runners(tmp_path, SOURCE, story)


def test_an_end_that_is_refused_is_no_success(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        async def ask(task_id: int, attempt: int, question: OnceQuestion) -> OnceAnswer:
            return OnceAnswer("call") if question.ending is None else OnceAnswer("stale", "it is over")

        _, future = runners.start_with("tasks:pay", {}, ask=ask)
        outcome = await ends(future)
        assert not outcome.ok
        assert outcome.error == "AttemptOver: once('pay') has run, but its result was not kept: it is over"
        assert outcome.result is not None
        assert outcome.result["error"]["type"] == "weft.AttemptOver"

    with_runners(tmp_path, SOURCE, story)


def test_what_cannot_be_kept_is_said_clearly_and_left_open(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        book = Book()
        outcome = await call(runners, book, "wrong_value")
        assert outcome.error.partition(": ")[0].endswith("returned an object, which JSON cannot hold"), outcome.error
        assert book.asked == [("pay", None)], "it has happened: neither failed nor completed would be true"
        outcome = await call(runners, book, "lazy")
        assert "pass the async function" in outcome.error
        outcome = await call(runners, Book(), "interleaved")
        assert "once('pay') is already running in this task" in outcome.error

    with_runners(tmp_path, SOURCE, story)


@pytest.mark.parametrize("function", ["many", "own_loop", "returns_awaitable"])
def test_async_effects_side_by_side(tmp_path: Path, function: str) -> None:
    async def story(runners: Runners) -> None:
        book = Book()
        for _ in range(2):
            assert (await call(runners, book, function)).output == [f"m{n}" for n in range(20)]
        assert sorted(lines(runners, "sent")) == sorted(f"m{n}" for n in range(20))

    with_runners(tmp_path, SOURCE, story)


def test_plain_effects_in_async_functions_and_in_threads(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        book = Book()
        for _ in range(2):
            assert (await call(runners, book, "mixed")).output == [1, "sent"]
            assert (await call(runners, book, "threads")).output == [0, 1, 2, 3, 4]
        assert (lines(runners, "plain"), lines(runners, "sent")) == (["x"], ["sent"])

    with_runners(tmp_path, SOURCE, story)


def test_what_comes_while_a_function_waits_for_its_answer_is_not_lost(tmp_path: Path) -> None:
    """The one who asks reads the socket: starts and stops that come meanwhile must take effect."""

    async def story(runners: Runners) -> None:
        book = Book()
        assert (await call(runners, book, "beside")).ok  # the runner knows now that it is async
        (runners.directory / "began").unlink()
        book.pause.clear()
        _, asking = runners.start_with("tasks:mixed", {}, ask=book.ask)
        while not book.asked:
            await asyncio.sleep(0.001)
        _, beside = runners.start_with("tasks:beside", {}, ask=book.ask)
        await asyncio.sleep(0)
        book.pause.set()
        assert (await ends(beside)).output == "beside"
        assert (await ends(asking)).ok

    with_runners(tmp_path, SOURCE, story)


def test_a_stop_reaches_a_function_that_waits_for_leave(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        book = Book()
        book.pause.clear()
        launch, future = runners.start_with("tasks:pay", {}, ask=book.ask)
        while not book.asked:
            await asyncio.sleep(0.001)
        runners.stop(launch)
        outcome = await ends(future, 30)
        assert (outcome.ok, outcome.stopped) == (False, "cancel")
        assert lines(runners, "paid") == []
        book.pause.set()
        assert (await call(runners, Book(), "pay", value=1)).output == 1, "the runner goes on"

    with_runners(tmp_path, SOURCE, story)


def test_a_long_function_may_ask_and_others_go_elsewhere(tmp_path: Path) -> None:
    """After a while the second thread reads the socket for a long function; it must leave the answer alone."""

    async def story(runners: Runners) -> None:
        book = Book()
        book.pause.clear()
        _, future = runners.start_with("tasks:pay", {"value": 5}, ask=book.ask)
        while not book.asked:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.3)  # long enough to count as long
        book.pause.set()
        assert (await ends(future)).output == 5

    with_runners(tmp_path, SOURCE, story)


def test_the_attempt_that_calls(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        own = {"WEFT_RUN_ID": "r", "WEFT_TASK": "t.3", "WEFT_ATTEMPT": "2", "WEFT_INDEX": "3"}
        _, future = runners.start_with("tasks:me", {}, env={**own, "WEFT_IDEMPOTENCY_KEY": "r/t.3"})
        assert (await ends(future)).output == ["r", "t.3", 2, 3, "r/t.3"]

    with_runners(tmp_path, SOURCE, story)


def test_code_that_lost_its_context_in_a_runner_gets_no_stand_in(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        outcome = await call(runners, Book(), "lost_context")
        assert "must run in a copy of the context" in outcome.output[0]

    with_runners(tmp_path, SOURCE, story)


def test_outside_a_task_functions_are_just_called() -> None:
    async def send() -> tuple[int, int]:
        return 1, 2

    assert weft.once("a", lambda: "x") == "x"
    assert asyncio.run(weft.once("a", send)) == (1, 2)
    listed: object = weft.once("a", lambda: (1, 2))
    assert listed == [1, 2], "as JSON holds it"
    with pytest.raises(TypeError, match="JSON cannot hold"):
        weft.once("a", lambda: object())
    with pytest.raises(RuntimeError, match="only in a function that Weft runs"):
        weft.context_update(a=1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("", lambda: 1), "a key of 1 to 256"),
        (("x" * 257, lambda: 1), "a key of 1 to 256"),
        ((3, lambda: 1), "a key of 1 to 256"),
        (("a\ud800", lambda: 1), "surrogate"),
        (("a", 3), "leave the call to it"),
    ],
)
def test_wrong_calls(arguments: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        weft.once(*arguments)
    with pytest.raises(ValueError, match="'call' or 'raise'"):
        weft.once("a", lambda: 1, unknown="maybe")  # type: ignore[call-overload]  # wrong on purpose
