"""Attempts on a fake Cloud Run: what they run, how they end, and that nothing runs twice or is left."""

import asyncio
from collections.abc import Callable

import pytest

from tests.executors.cloud_run.conftest import FAST, CloudRun, Story
from tests.executors.cloud_run.fake_service import PLACE, error
from weft.executors.boot_clock import boottime
from weft.executors.cloud_run.executor import CloudRunExecutor
from weft.executors.protocol import Handle

Tell = Callable[[Story], None]
QUOTA = error(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Write requests'")
BUSY = error(503, "UNAVAILABLE", "The service is currently unavailable.")


def test_it_runs(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        outcome = await cloud.run(0.2)
        assert (outcome.ok, outcome.exit_code, outcome.stopped) == (True, 0, None), outcome
        execution = next(iter(cloud.service.executions.values()))
        assert outcome.result == {
            "execution": f"{PLACE}/executions/j-00001", "logUri": f"https://logs.example/{PLACE}/executions/j-00001",
            "tasks": {"count": 1, "succeeded": 1, "failed": 0, "cancelled": 0, "retried": 0},
        }  # fmt: skip
        assert execution.env == {
            "FAKE_SECONDS": "0.2", "FAKE_EXIT": "0", "TEXT": '{"a":1}', "WEFT_TASK": "t1",
            "WEFT_ATTEMPT_ID": "weft-r-t1-1",
        }  # fmt: skip
        assert "j-00001: 0 of 1 tasks ended" in cloud.said
        assert "its output is at https://logs.example/" in (cloud.directory / "out" / "t1.1.err").read_text()

    tell(story)


def test_overrides(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        given = {"args": ["a", 5], "tasks": 3, "timeout": "1h30m", "container": "main"}
        launch = cloud.launch(overrides={**given, "env": {}})
        outcome = await cloud.begin(launch)
        assert outcome.result is not None
        assert outcome.result["tasks"]["succeeded"] == 3
        execution = cloud.service.executions[outcome.result["execution"]]
        assert {key: execution.container[key] for key in ("name", "args")} == {"name": "main", "args": ["a", "5"]}
        outcome = await cloud.begin(cloud.launch(overrides={"args": []}))
        assert outcome.result is not None
        assert cloud.service.executions[outcome.result["execution"]].container["clearArgs"] is True

    tell(story)


def test_it_fails_with_the_exit_code_of_a_task(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        outcome = await cloud.run(exit_code=75, overrides={"tasks": 2, "env": {"FAKE_EXIT": "75"}})
        assert (outcome.ok, outcome.exit_code, outcome.retryable) == (False, 75, True)
        assert "The container exited with an error. (1 of 2 tasks succeeded): task 1 exit code 75" in (
            outcome.error or ""
        )
        assert outcome.result is not None
        assert outcome.result["failures"] == [{"index": 1, "exitCode": 75, "message": "it failed"}]

    tell(story)


@pytest.mark.parametrize(
    ("fault", "spec"),
    [
        (error(403, "PERMISSION_DENIED", "Permission 'run.jobs.runWithOverrides' denied"), {}),
        (error(400, "INVALID_ARGUMENT", "Violation in RunJobRequest.overrides"), {}),
        (None, {"job": "missing"}),
    ],
)
def test_what_is_refused_is_not_retried(tell: Tell, fault: object, spec: dict[str, str]) -> None:
    async def story(cloud: CloudRun) -> None:
        if fault is not None:
            cloud.service.fail(":run", fault)
        outcome = await cloud.run(spec=spec)
        assert (outcome.ok, outcome.retryable, outcome.started) == (False, False, None)
        assert "Cloud Run refuses it: " in (outcome.error or "")
        assert len(cloud.service.asked) == 1
        assert not cloud.service.executions

    tell(story)


@pytest.mark.parametrize("spec", [{"job": "../x"}, {"project": "a/b"}, {"region": ""}, {"job": 5.5}])
def test_names_cannot_lead_elsewhere(tell: Tell, spec: dict[str, str]) -> None:
    async def story(cloud: CloudRun) -> None:
        outcome = await cloud.run(spec=spec)
        assert (outcome.ok, outcome.retryable, cloud.service.asked) == (False, False, [])
        assert "of Cloud Run" in (outcome.error or "")

    tell(story)


def test_a_quota_is_waited_for_and_nothing_is_looked_for(tell: Tell) -> None:
    """429 says that nothing was done."""

    async def story(cloud: CloudRun) -> None:
        cloud.service.fail(":run", QUOTA, 3)
        outcome = await cloud.run()
        assert outcome.ok
        assert len(cloud.service.executions) == 1
        assert not [one for one in cloud.service.asked if "/executions?" in one]
        assert any("Quota exceeded" in text for text in cloud.said)

    tell(story)


@pytest.mark.parametrize("how", ["lost", "lost_late"])
def test_after_a_lost_answer_it_is_found_by_its_marker(tell: Tell, how: str) -> None:
    async def story(cloud: CloudRun) -> None:
        for _ in range(5):  # pages of two
            await cloud.run()
        cloud.service.fail(":run", how)
        outcome = await cloud.run(0.1)
        assert outcome.ok, outcome
        assert len(cloud.service.executions) == 6
        assert len([one for one in cloud.service.asked if ":run" in one]) == 6

    tell(story)


@pytest.mark.parametrize("fault", ["drop", BUSY])
def test_what_was_not_done_is_done_again_after_a_while(tell: Tell, fault: object) -> None:
    async def story(cloud: CloudRun) -> None:
        cloud.service.fail(":run", fault)
        began = boottime()
        outcome = await cloud.run()
        assert outcome.ok
        assert boottime() - began >= FAST.settle
        assert len(cloud.service.executions) == 1

    tell(story)


def test_an_execution_that_came_too_late_is_cancelled(tell: Tell) -> None:
    """Later than anybody waits for: the job has been run again, and the attempt ends when both have."""

    async def story(cloud: CloudRun) -> None:
        cloud.service.fail(":run", "lost_hidden")
        future = cloud.begin(cloud.launch(1.0))
        await cloud.until(lambda: len(cloud.service.executions) == 2)
        late = next(iter(cloud.service.executions.values()))
        late.created = 0.0  # and lasts for long
        outcome = await asyncio.wait_for(future, 30)
        assert outcome.ok, outcome
        assert late.cancelled is not None
        assert not cloud.service.alive()

    tell(story)


def test_a_slow_operation_names_it_later(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        cloud.service.naming_s = 0.5
        cloud.service.fail("/operations/", BUSY)
        outcome = await cloud.run()
        assert outcome.ok, outcome
        assert len(cloud.service.executions) == 1
        assert "Cloud Run has accepted it, and not named it yet" in cloud.said

    tell(story)


def test_an_operation_that_fails(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        failed = {
            "name": "projects/p/locations/r/operations/9",
            "done": True,
            "error": {"code": 9, "message": "no image"},
        }
        cloud.service.fail(":run", (200, failed))
        outcome = await cloud.run()
        assert (outcome.ok, outcome.retryable, outcome.error) == (
            False,
            False,
            "Cloud Run could not run it: no image",
        )

    tell(story)


def test_polls_survive_errors_of_all_kinds(tell: Tell) -> None:
    """Not even a permission that is gone says how the execution ended."""

    async def story(cloud: CloudRun) -> None:
        denied = error(403, "PERMISSION_DENIED", "no longer")
        for fault in (BUSY, QUOTA, denied, "drop", (200, {"executions": 5, "conditions": 7}), error(401, "", "")):
            cloud.service.fail("GET /v2/projects/p/locations/r/jobs/j/executions/", fault)
        outcome = await cloud.run(0.3)
        assert outcome.ok, outcome
        assert not cloud.service.faults

    tell(story)


def test_deleted_by_somebody_else(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        future = cloud.begin(cloud.launch(60))
        await cloud.until(lambda: "j-00001: 0 of 1 tasks ended" in cloud.said)
        cloud.service.executions.clear()
        outcome = await asyncio.wait_for(future, 20)
        assert (outcome.ok, outcome.error) == (False, "its execution was deleted, and not by Weft")

    tell(story)


# -- stops -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["cancel", "timeout", "drain", "lease"])
def test_a_stop_is_verified(tell: Tell, reason: str) -> None:
    async def story(cloud: CloudRun) -> None:
        launch = cloud.launch(600)
        future = cloud.begin(launch)
        await cloud.until(lambda: "j-00001: 0 of 1 tasks ended" in cloud.said)
        cloud.service.fail(":cancel", BUSY)
        cloud.service.fail(":cancel", "drop")
        cloud.executor.stop(launch.task_id, 1, reason, 5.0)  # type: ignore[arg-type]  # one of the reasons
        outcome = await asyncio.wait_for(future, 20)
        assert outcome.stopped == reason
        assert outcome.termination is not None
        assert outcome.termination["verified"]
        assert outcome.termination["after_s"] >= 0.2
        assert outcome.result is not None
        assert outcome.result["tasks"]["cancelled"] == 1
        assert not cloud.service.alive()

    tell(story)


def test_a_stop_before_it_has_a_name(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        cloud.service.naming_s = 600.0
        launch = cloud.launch(600)
        future = cloud.begin(launch)
        await cloud.until(lambda: cloud.service.executions)
        cloud.executor.stop(launch.task_id, 1, "cancel", 5.0)
        outcome = await asyncio.wait_for(future, 20)
        assert outcome.stopped == "cancel"
        assert not cloud.service.alive()

    tell(story)


def test_a_stop_while_the_quota_is_used_up_ran_nothing(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        cloud.service.fail(":run", QUOTA, 1000)
        launch = cloud.launch()
        future = cloud.begin(launch)
        await cloud.until(lambda: cloud.said)
        cloud.executor.stop(launch.task_id, 1, "cancel", 5.0)
        outcome = await asyncio.wait_for(future, 20)
        assert (outcome.stopped, outcome.started, cloud.service.executions) == ("cancel", None, {})

    tell(story)


def test_nothing_is_run_without_trust(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        cloud.executor.trust(boottime() - 1)
        outcome = await cloud.run()
        assert (outcome.stopped, cloud.service.asked) == ("lease", [])

    tell(story)


def test_trust_that_ends_cancels_what_nobody_may_adopt(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        first, second = cloud.launch(600), cloud.launch(600, adoptable=True)
        futures = [cloud.begin(first), cloud.begin(second)]
        await cloud.until(lambda: len(cloud.service.alive()) == 2)
        cloud.executor.trust(boottime() + 0.3)
        assert (await asyncio.wait_for(futures[0], 20)).stopped == "lease"
        await cloud.executor.close()
        assert len(cloud.service.alive()) == 1
        assert not futures[1].done()

    tell(story)


# -- what other nodes left ---------------------------------------------------------------------------------------


def test_an_execution_is_adopted_by_its_marker(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        first = cloud.launch(1.0, adoptable=True)
        cloud.begin(first)
        await cloud.until(lambda: cloud.service.alive())
        await cloud.executor.close()
        other = cloud.another()
        await other.open()
        adopted = cloud.launch(adopted=True, attempt=2, handle=first.handle, stored=(0, 500))
        outcome = await asyncio.wait_for(cloud.begin(adopted, other), 20)
        assert (outcome.ok, len(cloud.service.executions)) == (True, 1), outcome
        assert outcome.started is not None
        await other.close()

    tell(story)


def test_nothing_to_adopt(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        handle = Handle(f"cloud_run:{'127.0.0.1'}", "weft-r-gone-1", PLACE)
        outcome = await asyncio.wait_for(cloud.begin(cloud.launch(adopted=True, attempt=2, handle=handle)), 20)
        assert (outcome.ok, outcome.forgotten, cloud.service.executions) == (False, True, {})

    tell(story)


def test_what_lost_nodes_left_is_cancelled(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        launches = [cloud.launch(600, adoptable=True) for _ in range(3)]
        for launch in launches:
            cloud.begin(launch)
        await cloud.until(lambda: len(cloud.service.alive()) == 3)
        own = cloud.handle(launches[0])
        assert await cloud.executor.remove([own]) == []  # it runs here
        await cloud.executor.close()
        other = cloud.another()
        await other.open()
        handles = [cloud.handle(launch) for launch in launches]
        cloud.service.fail("/executions?", BUSY)
        assert await other.remove(handles[:2]) == []
        assert sorted(await other.remove(handles[:2]), key=str) == sorted(handles[:2], key=str)
        assert len(cloud.service.alive()) == 1
        elsewhere = Handle("cloud_run:elsewhere", "weft-r-t3-1", PLACE)
        assert await other.remove([elsewhere]) == []
        await other.close()

    tell(story)


def test_absence_is_believed_after_a_while(tell: Tell) -> None:
    """A request of a node that was killed may still be on its way."""

    async def story(cloud: CloudRun) -> None:
        launch = cloud.launch(600)
        handle = cloud.executor.handle(launch)
        assert await cloud.executor.remove([handle]) == []
        await asyncio.sleep(FAST.settle / 2)
        assert await cloud.executor.remove([handle]) == []
        await asyncio.sleep(FAST.settle / 2)
        assert await cloud.executor.remove([handle]) == [handle]

    tell(story)


def test_handles(tell: Tell) -> None:
    async def story(cloud: CloudRun) -> None:
        launch = cloud.launch()
        handle = cloud.executor.handle(launch)
        assert handle == Handle("cloud_run:127.0.0.1", "weft-r-t1-1", PLACE)
        assert cloud.executor.engine == handle.engine
        assert CloudRunExecutor().kinds == {"cloud_run"}

    tell(story)
