"""Stops, lost trust, adoption, removal: an attempt is reported when the cluster says that nothing of it is left."""

import asyncio
from collections.abc import Callable

import pytest

from tests.executors.attempts import ends, processes_with
from tests.executors.kubernetes.clusters import Cluster
from weft.executors.boot_clock import boottime
from weft.executors.protocol import Handle, Launch, Outcome

Tell = Callable[..., None]
STUBBORN = "trap '' TERM; echo on; while :; do sleep 0.05; done"
POLITE = "trap 'echo bye; exit 3' TERM; echo on; while :; do sleep 0.05; done"


async def _nothing_of(cluster: Cluster, launch: Launch) -> None:
    assert launch.handle is not None
    assert await cluster.find("jobs", launch.handle.name) is None
    assert await cluster.objects_left() == []
    assert processes_with(cluster.mark) == []


@pytest.mark.parametrize("reason", ["cancel", "timeout", "drain"])
def test_a_polite_one_ends_within_its_grace(tell: Tell, reason: str) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start(POLITE)
        await cluster.until_printed(launch, b"on\n")
        cluster.stop(launch, reason, grace_s=20)
        outcome = await ends(future)
        await _nothing_of(cluster, launch)
        assert (outcome.ok, outcome.stopped, outcome.error) == (False, reason, f"stopped ({reason})")
        assert outcome.exit_code == 3
        assert outcome.termination is not None
        assert outcome.termination["after_s"] < 15
        assert {key: outcome.termination[key] for key in ("asked", "killed", "verified")} == {
            "asked": reason, "killed": False, "verified": True,
        }  # fmt: skip
        assert cluster.stored(launch) == b"on\nbye\n"

    tell(story)


def test_a_stubborn_one_is_killed_after_its_grace(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start(STUBBORN)
        await cluster.until_printed(launch, b"on\n")
        cluster.stop(launch, grace_s=2)
        outcome = await ends(future)
        await _nothing_of(cluster, launch)
        assert outcome.termination is not None
        assert outcome.termination["killed"] is True
        assert 2 <= outcome.termination["after_s"] < 20
        assert outcome.exit_code == 137

    tell(story)


def test_a_later_stop_shortens_the_grace_and_changes_the_reason(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start(STUBBORN)
        await cluster.until_printed(launch, b"on\n")
        cluster.stop(launch, "timeout", grace_s=300)
        await cluster.until(lambda: any("waits until" in text for text in cluster.progress))
        cluster.stop(launch, "cancel", grace_s=0)
        outcome = await ends(future)
        assert (outcome.stopped, outcome.termination and outcome.termination["killed"]) == ("cancel", True)

    tell(story)


def test_stopped_before_anything_was_created(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("echo never")
        cluster.stop(launch)
        outcome = await ends(future)
        assert (outcome.stopped, outcome.started) == ("cancel", None)
        assert cluster.kubelet.started == []
        assert launch.handle is not None
        assert await cluster.find("jobs", launch.handle.name) is None

    tell(story)


def test_fifty_cancels_at_once_leave_nothing(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        count = 12 if cluster.real else 50
        begun = [cluster.start("sleep 300") for _ in range(count)]
        await cluster.until(lambda: len(cluster.kubelet.started) == count, 120)
        for launch, _ in begun:
            cluster.stop(launch, grace_s=1)
        outcomes = await asyncio.wait_for(asyncio.gather(*(future for _, future in begun)), 120)
        assert {outcome.stopped for outcome in outcomes} == {"cancel"}
        assert await cluster.objects_left() == []
        assert processes_with(cluster.mark) == []

    tell(story)


def test_lost_trust_stops_what_nobody_may_adopt(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        kept, kept_future = cluster.start("echo on; sleep 300", adoptable=True)
        lost, lost_future = cluster.start("echo on; sleep 300")
        cluster.executor.trust(boottime() + 60)
        await cluster.until_printed(kept, b"on\n")
        await cluster.until_printed(lost, b"on\n")
        cluster.executor.trust(boottime() + 0.2)  # a clock that went back: the timer of the first is still running
        cluster.executor._expect_expiry()
        outcome = await ends(lost_future)
        assert outcome.stopped == "lease"
        assert not kept_future.done()
        cluster.stop(kept, grace_s=1)
        await ends(kept_future)

    tell(story)


def test_nothing_is_released_past_the_trust(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.executor.trust(boottime() - 1)
        launch, future = cluster.start("echo never")
        outcome = await ends(future)
        assert (outcome.stopped, outcome.started) == ("lease", None)
        assert cluster.kubelet.started == []
        await _nothing_of(cluster, launch)

    tell(story)


def test_a_name_that_exists_is_refused_and_left_alone(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        first, first_future = cluster.start("echo on; sleep 300")
        await cluster.until_printed(first, b"on\n")
        other = await cluster.another_executor()
        second = cluster.launch("echo second", task=first.task, executor=other)
        assert second.handle == first.handle
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        other.start(second, future.set_result)
        outcome = await ends(future)
        assert not outcome.ok
        assert "which is not this attempt's" in (outcome.error or "")
        assert not first_future.done()
        assert len(cluster.kubelet.started) == 1
        cluster.stop(first, grace_s=1)
        await ends(first_future)

    tell(story)


def test_a_stop_leaves_alone_what_has_its_name_and_is_not_its_own(tell: Tell) -> None:
    """Also when the stop comes before it was seen whose it is."""

    async def story(cluster: Cluster) -> None:
        first, first_future = cluster.start("echo on; sleep 300")
        await cluster.until_printed(first, b"on\n")
        other = await cluster.another_executor()
        second = cluster.launch("echo second", task=first.task, executor=other)
        for delay_s in (0.0, 0.001, 0.003, 0.01, 0.03):
            future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            other.start(second, future.set_result)
            await asyncio.sleep(delay_s)
            other.stop(second.task_id, second.attempt, "cancel", 0.0)
            assert not (await ends(future)).ok
        assert not first_future.done()
        assert first.handle is not None
        job = await cluster.find("jobs", first.handle.name)
        assert job is not None
        assert job.metadata.deletion_timestamp is None
        cluster.stop(first, grace_s=1)
        await ends(first_future)

    tell(story)


def test_adopted_after_its_node_closed(tell: Tell) -> None:
    """Output goes on where the first attempt's ended, without gap or double."""
    command = (
        "n=0; while [ $n -lt 40 ]; do echo line $n; n=$((n+1)); sleep 0.05; done; echo '\"done\"' > $WEFT_OUTPUT"
    )

    async def story(cluster: Cluster) -> None:
        first, first_future = cluster.start(command, adoptable=True)
        await cluster.until_printed(first, b"line 5\n")
        await cluster.executor.close()
        assert not first_future.done()
        assert len(processes_with(cluster.mark)) >= 1
        stored = cluster.stored(first)
        other = await cluster.another_executor()
        second = cluster.launch(
            command, task=first.task, attempt=2, handle=first.handle, adopted=True, stored=(len(stored), 0)
        )
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        other.start(second, future.set_result)
        outcome = await ends(future)
        assert (outcome.ok, outcome.output) == (True, "done"), outcome
        assert stored + cluster.stored(second) == b"".join(b"line %d\n" % number for number in range(40))
        assert len(cluster.kubelet.started) == 1

    tell(story)


def test_adopting_what_is_gone(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        outcome = await cluster.run("echo never", adopted=True, attempt=2)
        assert (outcome.ok, outcome.forgotten, outcome.started) == (False, True, None)

    tell(story)


def test_others_remove_what_a_dead_node_left(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start(STUBBORN, adoptable=True, secrets={"TOKEN": "abcdefgh"})
        await cluster.until_printed(launch, b"on\n")
        await cluster.executor.close()  # what may be adopted is left running
        other = await cluster.another_executor()
        assert launch.handle is not None
        elsewhere = Handle("kubernetes:another", launch.handle.name, "default")
        never = Handle(launch.handle.engine, "weft-never-created-1", "default")
        gone = await other.remove([launch.handle, elsewhere, never])
        assert gone == [launch.handle, never]
        await _nothing_of(cluster, launch)
        assert not future.done()

    tell(story)


def test_closing_stops_what_runs(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start(STUBBORN)
        await cluster.until_printed(launch, b"on\n")
        await cluster.executor.close()
        assert future.done()
        await _nothing_of(cluster, launch)

    tell(story)


def test_a_job_that_somebody_else_removes(tell: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("echo on; sleep 300")
        await cluster.until_printed(launch, b"on\n")
        assert launch.handle is not None
        options = {"propagationPolicy": "Foreground"}
        await cluster.api.delete("jobs", "default", launch.handle.name, options)
        outcome = await ends(future, 60)
        assert (outcome.ok, outcome.stopped) == (False, None)
        await _nothing_of(cluster, launch)

    tell(story)
