"""Cancels, timeouts, closed executors, expired trust: nothing is left, and the outcome says what was needed."""

import asyncio
from typing import Any

from tests.executors.attempts import ends
from tests.executors.container.containers import Containers, until
from weft.executors import linux
from weft.executors.protocol import Handle

IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
HANDLES_TERM = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.1; done"


def test_a_term_then_a_kill(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as attempts:
            stubborn, stubborn_end = attempts.start(IGNORES_TERM)
            polite, polite_end = attempts.start(HANDLES_TERM)
            shortened, shortened_end = attempts.start(IGNORES_TERM)
            ended, ended_end = attempts.start("echo ready; exit 4")
            for launch in (stubborn, polite, shortened, ended):
                await attempts.until_output(launch, b"ready")
            attempts.stop(stubborn, "timeout", 1.0)
            attempts.stop(polite, "cancel", 60.0)
            attempts.stop(shortened, "timeout", 60.0)
            outcome = await ends(polite_end)
            assert (outcome.stopped, outcome.exit_code) == ("cancel", 5), outcome
            assert outcome.result is not None
            assert outcome.result["stdout"] == "ready\nbye\n"
            assert outcome.termination is not None
            assert (outcome.termination["asked"], outcome.termination["killed"]) == ("cancel", False)
            attempts.stop(shortened, "cancel", 0.0)
            outcome = await ends(shortened_end)
            assert outcome.stopped == "cancel", outcome  # a cancel after a timeout
            assert outcome.termination is not None
            assert outcome.termination["killed"] is True
            outcome = await ends(stubborn_end)
            assert (outcome.stopped, outcome.exit_code) == ("timeout", 137), outcome
            assert outcome.termination is not None
            assert outcome.termination["verified"] is True
            assert outcome.termination["after_s"] >= 1.0
            outcome = await ends(ended_end)
            assert (outcome.stopped, outcome.exit_code, outcome.termination) == (None, 4, None)
            assert containers.left() == []

    asyncio.run(story())


def test_a_hundred_cancels_at_once_leave_nothing(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as attempts:
            started = [attempts.start("echo ready; sleep 600") for _ in range(100)]

            def ready() -> int:
                return sum(attempts.output(launch) == b"ready\n" for launch, _ in started)

            await until(lambda: ready() >= 30, 120)
            for launch, _ in started:
                attempts.stop(launch, "cancel", 0.0)
            outcomes = [await ends(future, 120) for _, future in started]
            assert {outcome.stopped for outcome in outcomes} == {"cancel"}
            assert all((outcome.termination or {})["verified"] for outcome in outcomes)
            assert containers.left() == []

    asyncio.run(story())


def test_close_leaves_only_what_may_be_adopted(containers: Containers) -> None:
    async def story() -> list[Handle]:
        async with containers.executor() as attempts:
            kept, kept_end = attempts.start("echo kept; sleep 600", adoptable=True)
            other, other_end = attempts.start("echo other; sleep 600")
            await attempts.until_output(kept, b"kept")
            await attempts.until_output(other, b"other")
        assert other_end.result().stopped == "drain"
        assert not kept_end.done()
        assert kept.handle is not None
        assert containers.left() == [kept.handle.name]
        async with containers.executor() as attempts:
            elsewhere = Handle("engine:elsewhere", kept.handle.name)
            absent = Handle(kept.handle.engine, f"weft-{containers.run_id}-none-1")
            assert await attempts.executor.remove([elsewhere, kept.handle, absent]) == [kept.handle, absent]
        return []

    asyncio.run(story())
    assert containers.left() == []


def test_containers_of_others_are_never_touched(containers: Containers) -> None:
    name = f"weft-{containers.run_id}-foreign-1"
    containers.podman.run("run", "-d", "--name", name, "weft-test", "sleep", "600")

    async def story() -> None:
        async with containers.executor() as attempts:
            assert attempts.executor.engine is not None
            handle = Handle(attempts.executor.engine, name)
            assert await attempts.executor.remove([handle]) == [handle]  # nothing of Weft's is left
            refused = await attempts.run("true", handle=handle)
            assert "exists already" in str(refused.error)

    try:
        asyncio.run(story())
        assert name in containers.podman.containers()
    finally:
        containers.podman.run("rm", "-f", "-t", "0", name)


def test_trust_that_expires_ends_all_but_what_may_be_adopted(containers: Containers) -> None:
    async def story() -> None:
        wills = RecordedWills()
        async with containers.executor(wills=wills) as attempts:
            plain, plain_end = attempts.start(IGNORES_TERM)
            kept, kept_end = attempts.start("echo ready; sleep 600", adoptable=True)
            for launch in (plain, kept):
                await attempts.until_output(launch, b"ready")
            attempts.executor.trust(linux.boottime() + 0.3)
            outcome = await ends(plain_end)
            assert (outcome.stopped, outcome.exit_code) == ("lease", 137), outcome
            released = await ends(kept_end)
            assert released.stopped == "lease", released
            assert released.termination == {"asked": "lease", "verified": False}
            late = await attempts.run("echo late")
            assert (late.stopped, late.started) == ("lease", None), late
            attempts.executor.trust(linux.boottime() + 60)
            assert stdout_of(await attempts.run("echo again")) == "again\n"
            assert kept.handle is not None
            assert containers.left() == [kept.handle.name]
            assert await attempts.executor.remove([kept.handle]) == [kept.handle]
        # The containers of the next session have another process's id: the will for the first must not end them.
        processes = [argv[6] for argv in wills.made]
        assert len(set(processes)) == len(processes) >= 2

    asyncio.run(story())
    assert containers.left() == []


def stdout_of(outcome: Any) -> str:
    assert outcome.ok, outcome
    return str(outcome.result["stdout"])


class RecordedWills:
    def __init__(self) -> None:
        self.made: list[tuple[bytes, ...]] = []

    def last_will(self, argv: tuple[bytes, ...]) -> None:
        self.made.append(argv)
