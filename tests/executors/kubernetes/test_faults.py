"""What goes wrong between the executor and the API server: lost answers, broken streams, forgotten versions, refused
tokens, servers that go away."""

import asyncio
import random
from collections.abc import Callable

import pytest

from tests.executors.attempts import ends, processes_with
from tests.executors.kubernetes.clusters import IMAGE, Cluster, kubeconfig
from tests.executors.kubernetes.fake_api import Cut, Request
from tests.executors.kubernetes.object_store import Refusal
from weft.executors.kubernetes.executor import KubernetesExecutor
from weft.executors.kubernetes.objects import Job, Pod

Tell = Callable[..., None]


def test_the_answer_to_a_creation_is_lost(tell_fake: Tell) -> None:
    """It is repeated, finds its own Job, and goes on: one pod."""

    async def story(cluster: Cluster) -> None:
        lost: list[Request] = []

        async def fault(request: Request) -> bool:
            if request.method == "POST" and len(lost) < 2:
                lost.append(request)
                return True
            return False

        cluster.fake.fault = fault
        outcome = await cluster.run("echo once", secrets={"TOKEN": "abcdefgh"})
        assert outcome.ok, outcome
        assert len(lost) == 2
        assert len(cluster.kubelet.started) == 1

    tell_fake(story)


@pytest.mark.parametrize("seed", range(3))
def test_a_quarter_of_all_requests_break_off(tell_fake: Tell, seed: int) -> None:
    async def story(cluster: Cluster) -> None:
        chance = random.Random(seed)

        async def fault(request: Request) -> bool:
            if chance.random() < 0.15:
                raise Cut
            return chance.random() < 0.1  # carried out, and the answer is lost

        cluster.fake.fault = fault
        futures = [cluster.start(f"echo {number}; exit {number}")[1] for number in range(5)]
        outcomes = await asyncio.wait_for(asyncio.gather(*futures), 100)
        cluster.fake.fault = None
        assert [outcome.exit_code for outcome in outcomes] == [0, 1, 2, 3, 4]
        assert [outcome.result and outcome.result["stdout"] for outcome in outcomes] == [f"{n}\n" for n in range(5)]
        assert len(cluster.kubelet.started) == 5

    tell_fake(story)


def test_the_server_goes_away_and_comes_back(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("echo on; while [ ! -e go ]; do sleep 0.05; done; echo off")
        await cluster.until_printed(launch, b"on\n")
        await cluster.fake.stop_listening()
        await cluster.until(lambda: any("the engine does not answer since" in text for text in cluster.progress))
        assert await cluster.executor.check() is not None
        assert cluster.executor.engine is None
        assert not future.done()
        (cluster.kubelet.directory / "go").touch()
        await cluster.fake.listen()
        outcome = await ends(future)
        assert outcome.ok, outcome
        assert cluster.stored(launch) == b"on\noff\n"

    tell_fake(story)


def test_a_cancel_while_the_server_is_away_is_carried_out_later(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("echo on; sleep 300")
        await cluster.until_printed(launch, b"on\n")
        await cluster.fake.stop_listening()
        cluster.stop(launch, grace_s=1)
        await asyncio.sleep(0.5)
        assert not future.done()
        assert processes_with(cluster.mark)
        await cluster.fake.listen()
        outcome = await ends(future)
        assert outcome.termination is not None
        assert outcome.termination["verified"] is True
        assert not processes_with(cluster.mark)

    tell_fake(story)


def test_a_version_that_is_forgotten_is_listed_again(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("echo on; while [ ! -e go ]; do sleep 0.05; done")
        await cluster.until_printed(launch, b"on\n")
        await cluster.fake.stop_listening()
        (cluster.kubelet.directory / "go").touch()
        await cluster.until(lambda: not processes_with(cluster.mark))
        cluster.fake.store.version += 10
        cluster.fake.store.forget_history()
        await cluster.fake.listen()
        assert (await ends(future)).ok
        assert any(
            r.watches and int(r.query["resourceVersion"]) < cluster.fake.store.oldest for r in cluster.fake.requests
        )

    tell_fake(story)


def test_an_open_stream_that_falls_behind_is_told_410(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("echo on; sleep 0.5; echo off")
        await cluster.until_printed(launch, b"on\n")
        cluster.fake.store.version += 10
        cluster.fake.store.forget_history()
        outcome = await ends(future)
        assert outcome.ok, outcome
        assert cluster.stored(launch) == b"on\noff\n"

    tell_fake(story)


def test_logs_are_resumed_without_gap_or_double(tell_fake: Tell) -> None:
    """Lines with equal timestamps, in the middle of a line, many times."""
    command = "n=0; while [ $n -lt 100 ]; do printf 'part %d ' $n; sleep 0.01; echo end; echo same; n=$((n+1)); done"

    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start(command)
        while not future.done():
            await asyncio.sleep(0.1)
            await cluster.fake.cut_connections()
        outcome = await ends(future)
        assert outcome.ok, outcome
        assert cluster.stored(launch) == b"".join(b"part %d end\nsame\n" % number for number in range(100))

    tell_fake(story)


def test_a_stream_that_the_server_ends_is_begun_again(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.fake.log_pieces_max = 1
        launch, future = cluster.start("for n in 1 2 3 4; do echo line $n; sleep 0.3; done; sleep 300")
        await cluster.until_printed(launch, b"line 4\n")
        assert cluster.stored(launch) == b"line 1\nline 2\nline 3\nline 4\n"
        cluster.stop(launch, grace_s=1)
        assert (await ends(future)).stopped == "cancel"

    tell_fake(story)


def test_a_watch_that_meets_the_unexpected_goes_on(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        changed, pods = cluster.executor._changed, []

        def fail_once(namespace: str, found: Job | Pod, gone: bool) -> None:
            if isinstance(found, Pod):
                pods.append(found)
                if len(pods) == 1:
                    raise RuntimeError("of the test")
            changed(namespace, found, gone)

        setattr(cluster.executor, "_changed", fail_once)  # noqa: B010  # a fault that no server can make
        assert (await cluster.run("echo on; sleep 0.2")).ok
        assert len(pods) > 1

    tell_fake(story)


def test_a_rotated_log_is_said_to_have_a_gap(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; echo three")
        await cluster.until_printed(launch, b"one\n")
        await cluster.fake.stop_listening()
        (cluster.kubelet.directory / "go").touch()
        (pod,) = cluster.kubelet.pods.values()
        await cluster.until(lambda: pod.log.ended)
        pod.log.rotate(1)
        await cluster.fake.listen()
        outcome = await ends(future)
        assert outcome.result is not None
        assert cluster.stored(launch) == b"one\nthree\n"
        assert outcome.result["stdoutMissing"] == "the log was rotated before all of it was read"

    tell_fake(story)


def test_connections_are_used_again_until_the_server_closes_them(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        before = cluster.fake.accepted
        for _ in range(10):
            assert await cluster.executor.check() is None
        assert cluster.fake.accepted - before <= 1
        await cluster.fake.cut_connections()
        assert await cluster.executor.check() is None

    tell_fake(story)


def test_long_lists_come_in_pages(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.fake.page_max = 2
        begun = [cluster.start("echo on; sleep 300") for _ in range(5)]
        for launch, _ in begun:
            await cluster.until_printed(launch, b"on\n")
        items, _ = await cluster.api.list("pods", "default", {})
        assert len(items) == 5
        for launch, _ in begun:
            cluster.stop(launch, grace_s=1)
        await asyncio.wait_for(asyncio.gather(*(future for _, future in begun)), 60)

    tell_fake(story)


def test_a_token_that_was_replaced(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        file = cluster.directory / "token"
        file.write_text("of-the-test")
        config = kubeconfig(cluster.directory / "second", cluster.fake.port)
        config.write_text(config.read_text().replace("token: of-the-test", f"tokenFile: {file}"))
        executor = KubernetesExecutor({"KUBECONFIG": str(config)})
        await executor.open()
        assert await executor.check() is None
        cluster.fake.tokens = {"another", "of-the-test"}
        file.write_text("another")
        cluster.fake.tokens = {"another"}
        assert await executor.check() is None
        cluster.fake.tokens = {"a third", "of-the-test"}
        problem = await executor.check()
        assert problem is not None
        assert "Unauthorized" in problem
        assert executor.engine is None
        await executor.close()

    tell_fake(story)


def test_a_server_that_is_overloaded_is_asked_again(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        refused: list[Request] = []

        async def fault(request: Request) -> None:
            if request.method != "GET" and len(refused) < 4:
                refused.append(request)
                raise Refusal(429 if len(refused) % 2 else 503, "TooManyRequests", "try again")

        cluster.fake.fault = fault
        assert (await cluster.run("true")).ok
        assert len(refused) == 4

    tell_fake(story)


def test_what_the_server_refuses_for_good_fails_at_once(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        async def fault(request: Request) -> None:
            if request.method == "POST":
                raise Refusal(403, "Forbidden", "jobs.batch is forbidden: User cannot create")

        cluster.fake.fault = fault
        outcome = await cluster.run("true")
        assert (outcome.ok, outcome.error) == (
            False,
            "Kubernetes refuses it: jobs.batch is forbidden: User cannot create (HTTP 403)",
        )

    tell_fake(story)


def test_a_creation_that_arrives_late_is_removed(tell_fake: Tell) -> None:
    """The attempt was stopped, and nothing was there; then the request arrives, and makes a Job that is suspended."""

    async def story(cluster: Cluster) -> None:
        kept, kept_future = cluster.start("echo on; sleep 300")
        await cluster.until_printed(kept, b"on\n")
        late: list[Request] = []

        async def fault(request: Request) -> None:
            if request.method == "POST":
                late.append(request)
                raise Cut

        cluster.fake.fault = fault
        launch, future = cluster.start("echo never")
        await cluster.until(lambda: bool(late))
        cluster.stop(launch)
        assert (await ends(future)).stopped == "cancel"
        cluster.fake.fault = None
        await cluster.fake.store.create("jobs", "default", late[0].body)
        assert launch.handle is not None
        key = ("jobs", "default", launch.handle.name)
        await cluster.until(lambda: key not in cluster.fake.store.objects)
        assert len(cluster.kubelet.started) == 1
        cluster.stop(kept, grace_s=1)
        await ends(kept_future)

    tell_fake(story)


def test_a_pod_that_outlives_its_job_is_removed(tell_fake: Tell) -> None:
    """As after `kubectl delete --cascade=orphan`."""

    async def story(cluster: Cluster) -> None:
        given = {"image": IMAGE, "pod": {"terminationGracePeriodSeconds": 5}}
        command = "trap '' TERM; echo on; while :; do sleep 0.05; done"
        launch, future = cluster.start({"kubernetes": given, "run": command})
        await cluster.until_printed(launch, b"on\n")
        (job,) = cluster.fake.store.all("jobs")
        await cluster.fake.store.remove("jobs", job)
        outcome = await ends(future, 60)
        assert outcome.error == "its Job was removed, and not by Weft"
        assert cluster.fake.store.all("pods") == []
        assert not processes_with(cluster.mark)

    tell_fake(story)


def test_a_list_that_is_older_than_the_creation_is_not_believed(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        created = asyncio.Event()

        async def late(request: Request) -> None:
            if request.method == "POST":
                created.set()
            elif request.resource == "jobs" and request.name is None:
                await created.wait()
                await asyncio.sleep(0.1)  # the attempt knows its Job by now

        cluster.fake.late = late
        outcome = await cluster.run("sleep 0.3; echo done")
        assert outcome.ok, outcome

    tell_fake(story)


def test_a_pod_whose_node_does_not_answer_is_not_called_gone(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("trap 'exit 0' TERM; echo on; while :; do sleep 0.05; done")
        await cluster.until_printed(launch, b"on\n")
        cluster.kubelet.frozen = True
        cluster.stop(launch, grace_s=1)
        await cluster.until(lambda: any("on node weft-test-node is gone" in text for text in cluster.progress))
        await asyncio.sleep(2)
        assert not future.done()
        cluster.kubelet.frozen = False
        assert (await ends(future)).stopped == "cancel"

    tell_fake(story)


def test_a_quota_is_shown_while_it_waits(tell_fake: Tell) -> None:
    from weft.executors.kubernetes import executor as module

    async def story(cluster: Cluster) -> None:
        cluster.fake.controllers.quota = "pods is forbidden: exceeded quota"
        launch, future = cluster.start("true")
        await cluster.until(lambda: "FailedCreate: pods is forbidden: exceeded quota" in cluster.progress)
        cluster.stop(launch)
        await ends(future)

    before, module._EVENTS_EVERY_S = module._EVENTS_EVERY_S, 0.1
    try:
        tell_fake(story)
    finally:
        module._EVENTS_EVERY_S = before


def test_an_eviction_is_named(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("echo on; sleep 300")
        await cluster.until_printed(launch, b"on\n")
        (pod,) = cluster.fake.store.all("pods")
        status = {**pod["status"], "phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
        status.pop("containerStatuses")
        await cluster.fake.store.update("pods", pod, {**pod, "status": status})
        outcome = await ends(future)
        assert (outcome.ok, outcome.cause, outcome.exit_code) == (False, None, None)
        assert outcome.error == "Evicted: The node was low on memory."

    tell_fake(story)


def test_one_watch_of_each_kind_for_all_attempts(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        begun = [cluster.start("echo on; sleep 300") for _ in range(10)]
        for launch, _ in begun:
            await cluster.until_printed(launch, b"on\n")
        own = [r for r in cluster.fake.requests if r.watches and "labelSelector" in r.query]
        assert sorted(r.resource for r in own) == ["jobs", "pods"]
        for launch, _ in begun:
            cluster.stop(launch, grace_s=1)
        await asyncio.wait_for(asyncio.gather(*(future for _, future in begun)), 60)

    tell_fake(story)


def test_large_output_is_kept_within_its_cap(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        command = "head -c 10000000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo last"
        _launch, future = cluster.start(command, output_max=1 << 20)
        outcome = await ends(future, 120)
        assert outcome.ok, outcome
        assert outcome.result is not None
        assert outcome.result["stdoutBytes"] == 10000000 + 10000000 // 99 + 6
        assert outcome.result["stdoutKept"] == [1 << 19, 1 << 19]
        assert outcome.result["stdout"].endswith("last\n")

    tell_fake(story)


def test_no_cluster_at_all(tell_fake: Tell) -> None:
    async def story(cluster: Cluster) -> None:
        executor = KubernetesExecutor({"KUBECONFIG": str(cluster.directory / "none")})
        await executor.open()
        assert "cannot be read" in (await executor.check() or "")
        assert executor.engine is None
        await executor.close()
        other = cluster.launch({"kubernetes": {"image": IMAGE}})
        assert other.handle is not None

    tell_fake(story)
