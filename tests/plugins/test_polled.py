"""Attempts on a service that is asked: every end is the service's word."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from weft.executors.boot_clock import boottime
from weft.executors.protocol import Handle, Launch, Outcome, StopReason
from weft.plugins import AttemptFailed, PolledExecutor, RemoteState

PATIENCE_S = 30.0
NAME = Handle("service", "weft-r-a-1")


class Service(PolledExecutor):
    poll_s = 0.01
    poll_max_s = 0.05

    def __init__(self) -> None:
        super().__init__()
        self.there: dict[str, RemoteState] = {}
        self.calls: list[str] = []
        self.silent: set[str] = set()  # calls that get no answer
        self.refuse: AttemptFailed | None = None
        self.stubborn = False  # a discard is not enough

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if what in self.silent:
            raise ConnectionError("no route")

    async def connect(self) -> str:
        self._called("connect")
        return "service"

    async def create(self, handle: Handle, spec: Any, launch: Launch) -> None:
        self._called("create")
        if self.refuse is not None:
            raise self.refuse
        self.there[handle.name] = RemoteState("waiting", note=f"queued {spec}")

    async def begin(self, handle: Handle) -> None:
        self._called("begin")
        if handle.name in self.there and self.there[handle.name].state == "waiting":
            self.there[handle.name] = RemoteState("running")

    async def look(self, handle: Handle) -> RemoteState | None:
        self._called("look")
        return self.there.get(handle.name)

    async def discard(self, handle: Handle) -> None:
        self._called("discard")
        if not self.stubborn:
            self.there.pop(handle.name, None)

    async def until(self, what: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not what():
                await asyncio.sleep(0.005)


Story = Callable[[Service, list[Outcome]], Awaitable[None]]


def play(story: Story, *, trusted: bool = True, **more: Any) -> Outcome | None:
    """One attempt; its outcome, if it ended."""

    async def whole() -> Outcome | None:
        service, ends = Service(), list[Outcome]()
        assert await service.check() is None
        if trusted:
            service.trust(boottime() + 60)
        launch = Launch(7, 1, "r", "a", "odd", {"odd": "letter"}, {}, None, "/nonexistent", 1, **more)
        launch.handle = service.handle(launch)
        assert launch.handle == NAME
        if launch.adopted:
            service.there[NAME.name] = RemoteState("running")
        service.start(launch, ends.append)
        await story(service, ends)
        await service.close()
        assert len(ends) <= 1
        return ends[0] if ends else None

    return asyncio.run(whole())


def end_with(state: RemoteState) -> Story:
    async def story(service: Service, ends: list[Outcome]) -> None:
        await service.until(lambda: service.there.get(NAME.name) == RemoteState("running"))
        service.there[NAME.name] = state
        await service.until(lambda: ends)
        assert service.there == {}

    return story


def test_a_success_and_a_failure() -> None:
    end = play(end_with(RemoteState("ended", ok=True, output=[1])))
    assert end is not None
    assert (end.ok, end.output) == (True, [1])
    end = play(end_with(RemoteState("ended", error="jammed")))
    assert end is not None
    assert (end.ok, end.error) == (False, "jammed")


def test_nothing_begins_without_trust() -> None:
    async def story(service: Service, ends: list[Outcome]) -> None:
        await service.until(lambda: "look" in service.calls)
        assert "begin" not in service.calls
        service.stop(7, 1, "lease", 0)
        await service.until(lambda: ends)
        assert service.there == {}

    end = play(story, trusted=False)
    assert end is not None
    assert end.stopped == "lease"


def test_a_failure_of_create_ends_it_when_nothing_is_there() -> None:
    async def story(service: Service, ends: list[Outcome]) -> None:
        service.refuse = AttemptFailed("no such printer", cause="printer", retryable=False)
        await service.until(lambda: ends)

    end = play(story)
    assert end is not None
    assert (end.error, end.cause, end.retryable) == ("no such printer", "printer", False)


def test_what_gets_no_answer_is_asked_again() -> None:
    notes: list[str] = []

    async def story(service: Service, ends: list[Outcome]) -> None:
        service.silent = {"create", "begin", "look"}
        await service.until(lambda: service.calls.count("create") > 2)
        service.silent = {"begin", "look"}
        await service.until(lambda: service.calls.count("begin") > 2)
        service.silent = {"look"}
        await service.until(lambda: service.calls.count("look") > 2)
        service.silent = set()
        await end_with(RemoteState("ended", ok=True))(service, ends)

    end = play(story, progress=lambda task, attempt, text: notes.append(text))
    assert end is not None
    assert end.ok
    assert notes[0] == "the service does not answer: ConnectionError: no route"


@pytest.mark.parametrize("reason", ["cancel", "timeout", "drain"])
def test_a_stop_is_over_when_nothing_is_left(reason: StopReason) -> None:
    async def story(service: Service, ends: list[Outcome]) -> None:
        await service.until(lambda: "begin" in service.calls)
        service.stubborn = True
        service.stop(7, 1, reason, 0)
        await service.until(lambda: service.calls.count("discard") > 2)
        service.silent = {"look"}
        service.stubborn = False
        await service.until(lambda: NAME.name not in service.there or service.calls.count("look") > 10)
        assert not ends, "it may still be there"
        service.silent = set()
        await service.until(lambda: ends)
        assert service.there == {}

    end = play(story)
    assert end is not None
    assert end.stopped == reason
    assert end.termination is not None
    assert end.termination["verified"]


def test_a_stop_while_create_gets_no_answer() -> None:
    async def story(service: Service, ends: list[Outcome]) -> None:
        service.silent = {"create"}
        await service.until(lambda: "create" in service.calls)
        service.stop(7, 1, "cancel", 0)
        await service.until(lambda: ends)
        assert "begin" not in service.calls

    end = play(story)
    assert end is not None
    assert end.stopped == "cancel"


def test_a_lost_lease_leaves_what_may_be_adopted() -> None:
    async def story(service: Service, ends: list[Outcome]) -> None:
        await service.until(lambda: "begin" in service.calls)
        service.trust(boottime() + 0.01)
        looks = service.calls.count("look")
        await service.until(lambda: service.calls.count("look") > looks + 3)
        assert service._watched, "its session may have survived"
        service.stop(7, 1, "lease", 0)
        assert not service._watched
        assert service.there == {NAME.name: RemoteState("running")}

    assert play(story, adoptable=True) is None


def test_a_lost_lease_ends_what_may_not() -> None:
    async def story(service: Service, ends: list[Outcome]) -> None:
        await service.until(lambda: "begin" in service.calls)
        service.trust(boottime() + 0.01)
        await service.until(lambda: ends)
        assert service.there == {}

    end = play(story)
    assert end is not None
    assert end.stopped == "lease"


def test_an_adopted_attempt_is_followed_and_not_created() -> None:
    async def story(service: Service, ends: list[Outcome]) -> None:
        await end_with(RemoteState("ended", ok=True))(service, ends)
        assert "create" not in service.calls
        assert "begin" in service.calls, "the node before may have died before it did that"

    end = play(story, adopted=True)
    assert end is not None
    assert end.ok


def test_what_has_vanished() -> None:
    async def story(service: Service, ends: list[Outcome]) -> None:
        await service.until(lambda: service.there.get(NAME.name) == RemoteState("running"))
        service.there.clear()
        await service.until(lambda: ends)

    end = play(story)
    assert end is not None
    assert (end.forgotten, end.error) == (False, "it is gone: something else has removed it")


def test_what_was_gone_before_it_was_adopted_is_forgotten() -> None:
    async def story(service: Service, ends: list[Outcome]) -> None:
        service.there.clear()
        await service.until(lambda: ends)
        assert "begin" not in service.calls

    end = play(story, adopted=True)
    assert end is not None
    assert end.forgotten


def test_remove_returns_what_is_known_to_be_gone() -> None:
    async def story() -> None:
        service = Service()
        one, two = Handle("service", "one"), Handle("service", "two")
        service.there = {"one": RemoteState("running")}
        assert await service.remove([one, two]) == [one, two]
        service.there = {"one": RemoteState("running")}
        service.stubborn = True
        assert await service.remove([one, two]) == [two]
        service.silent = {"look"}
        assert await service.remove([one, two]) == []
        service.silent = {"connect"}
        assert await service.check() == "ConnectionError: no route"
        assert service.engine is None

    asyncio.run(story())
