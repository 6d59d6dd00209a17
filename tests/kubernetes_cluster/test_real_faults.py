"""What only a real control plane shows: an API server that is killed, TLS, and objects that it refuses."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Figure
from tests.executors.attempts import ends
from tests.executors.kubernetes.clusters import IMAGE, REAL, Cluster

pytestmark = pytest.mark.skipif(REAL is None, reason="only in `make test-kubernetes`, on a real control plane")
KILOBYTES_MAX = 50.0


def test_real_the_api_server_is_killed(tmp_path: Path, figure: Figure) -> None:
    """Twice, with attempts that go on meanwhile: nothing is run again, and no output is lost or doubled."""
    command = "n=0; while [ $n -lt 150 ]; do echo line $n; n=$((n+1)); sleep 0.1; done"

    async def story(cluster: Cluster) -> None:
        begun = [cluster.start(command) for _ in range(3)]
        for launch, _ in begun:
            await cluster.until_printed(launch, b"line 3\n")
        server = Path(os.environ["WEFT_TEST_APISERVER_PID"])
        for line in (b"line 10\n", b"line 80\n"):
            await cluster.until_printed(begun[0][0], line)
            os.kill(int(server.read_text()), signal.SIGKILL)
            await cluster.until(lambda: cluster.progress[-1].startswith("the engine does not answer since"))
        outcomes = await asyncio.wait_for(asyncio.gather(*(future for _, future in begun)), 120)
        assert all(outcome.ok for outcome in outcomes), outcomes
        for launch, _ in begun:
            assert cluster.stored(launch) == b"".join(b"line %d\n" % number for number in range(150))
        assert len(cluster.kubelet.started) == 3
        figure("kube-apiserver killed twice", "3 attempts went on, no line lost or doubled")

    asyncio.run(_run(story, tmp_path))


def test_real_a_running_attempt_is_small(tmp_path: Path, figure: Figure) -> None:
    """Over TLS, each with a stream of its own for its log; the kubelet and the node are processes of their own."""
    assert REAL is not None
    command = [sys.executable, "-m", "tests.kubernetes_cluster.serve_kubelet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as kubelet:
        assert kubelet.stdout is not None
        assert kubelet.stdin is not None
        assert kubelet.stdout.readline() == "ready\n"
        node = [sys.executable, "-m", "tests.executors.kubernetes.test_cost", REAL, str(tmp_path)]
        measured = subprocess.run(node, stdout=subprocess.PIPE, text=True, check=True, timeout=280)
        kubelet.stdin.close()
        kubelet.wait(60)
    kilobytes, threads = map(float, measured.stdout.split())
    figure("a running attempt over TLS", f"{kilobytes:.1f} KB of its node's memory, {threads:g} more threads")
    assert kilobytes < KILOBYTES_MAX
    assert threads == 0


def test_real_an_invalid_job_fails_at_once(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        outcome = await cluster.run(
            {"kubernetes": {"image": IMAGE, "resources": {"limits": {"cpu": "many"}}}, "run": "true"}
        )
        assert not outcome.ok
        assert "quantities must match" in (outcome.error or "")
        patch = {"containers": [{"name": "task", "volumeMounts": [{"name": "none", "mountPath": "/x"}]}]}
        outcome = await cluster.run({"kubernetes": {"image": IMAGE, "pod": patch}, "run": "true"})
        assert "HTTP 422" in (outcome.error or "")
        assert cluster.kubelet.started == []

    asyncio.run(_run(story, tmp_path))


def test_real_a_cancel_while_the_api_server_is_killed(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        launch, future = cluster.start("echo on; sleep 300")
        await cluster.until_printed(launch, b"on\n")
        os.kill(int(Path(os.environ["WEFT_TEST_APISERVER_PID"]).read_text()), signal.SIGKILL)
        cluster.stop(launch, grace_s=1)
        outcome = await ends(future, 120)
        assert outcome.termination is not None
        assert (outcome.stopped, outcome.termination["verified"]) == ("cancel", True)
        assert await cluster.objects_left() == []

    asyncio.run(_run(story, tmp_path))


async def _run(story: object, directory: Path) -> None:
    assert callable(story)
    async with Cluster(directory, True) as cluster:
        await story(cluster)
