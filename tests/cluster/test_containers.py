"""Containers of nodes that are killed, stand still, or cannot reach their engine: real workers, a real Podman."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster.conftest import Cluster
from tests.conftest import Figure
from tests.executors.container.conftest import podman as podman_fixture
from tests.executors.container.podman import Podman

podman = podman_fixture
BUSY = 3  # a machine that runs other tests, too
GONE_S = 5.0 * BUSY

LONG = """\
tasks:
  box:
    replicas: {count}
    retry: {{on_lost: {on_lost}}}
    grace: 1s
    container: {{image: weft-test, mount: rw}}
    run: |
      echo box.$WEFT_INDEX $WEFT_ATTEMPT >> journal
      trap '' TERM
      n=0; while ! test -e over; do sleep 0.1; n=$((n + 1)); echo line $n; done
"""
LOOP = "n=0; while ! test -e over; do sleep 0.1; n=$((n + 1)); echo line $n; done"


def names(podman: Podman, run_id: str) -> list[str]:
    """Of the run's containers, those that have ended too."""
    return sorted(name for name in podman.containers() if name.startswith(f"weft-{run_id}-"))


def alive(podman: Podman, run_id: str) -> list[str]:
    """Of the run's containers, those that run."""
    return [name for name, found in podman.containers().items() if run_id in name and found["State"] == "running"]


def running(cluster: Cluster, podman: Podman, run_id: str, attempt: int, count: int) -> Callable[[], bool]:
    wanted = sorted(f"weft-{run_id}-box.{index}-{attempt}" for index in range(count))
    return lambda: names(podman, run_id) == wanted and len(cluster.journal()) >= count * attempt


def test_containers_of_a_killed_node_are_gone_and_run_again_elsewhere(
    cluster: Cluster, podman: Podman, figure: Figure
) -> None:
    first = cluster.worker("one", "--slots", "20", WEFT_CONTAINER_SOCKET=podman.socket)
    run_id = cluster.submit(LONG.format(count=20, on_lost="true"))
    cluster.until(running(cluster, podman, run_id, 1, 20))
    first.kill()
    killed = time.monotonic()
    cluster.until(lambda: not alive(podman, run_id), GONE_S)
    stopped = time.monotonic() - killed
    cluster.until(lambda: not names(podman, run_id), GONE_S)
    removed = time.monotonic() - killed
    figure(
        "SIGKILL of a node with 20 containers",
        f"stopped after {stopped:.1f} s (goal 5), removed after {removed:.1f} s",
    )
    cluster.worker("two", "--slots", "20", WEFT_CONTAINER_SOCKET=podman.socket)
    cluster.until(running(cluster, podman, run_id, 2, 20))
    (cluster.directory / "over").touch()
    cluster.ended(run_id)
    cluster.sound(run_id, 20)
    assert cluster.outcomes()["lost"] == 20
    assert not names(podman, run_id)


def test_a_node_that_stood_still_finds_its_containers_removed_first(
    postgres_cluster: Cluster, podman: Podman
) -> None:
    """The other node removes them before it starts its own; what the first one reports is refused."""
    cluster = postgres_cluster
    first = cluster.worker("one", "--slots", "2", WEFT_CONTAINER_SOCKET=podman.socket)
    run_id = cluster.submit(LONG.format(count=2, on_lost="true"))
    cluster.until(running(cluster, podman, run_id, 1, 2))
    cluster.worker("two", "--slots", "2", WEFT_CONTAINER_SOCKET=podman.socket)
    first.send_signal(signal.SIGSTOP)
    try:
        cluster.until(running(cluster, podman, run_id, 2, 2))
    finally:
        first.send_signal(signal.SIGCONT)
    time.sleep(1.0)
    assert names(podman, run_id) == [f"weft-{run_id}-box.{index}-2" for index in range(2)]
    (cluster.directory / "over").touch()
    cluster.ended(run_id)
    cluster.sound(run_id, 2)
    assert max(cluster.journal().values()) == 1


def test_containers_are_adopted_with_their_output(cluster: Cluster, podman: Podman) -> None:
    first = cluster.worker("one", "--slots", "2", WEFT_CONTAINER_SOCKET=podman.socket)
    run_id = cluster.submit(LONG.format(count=1, on_lost="adopt"))
    cluster.until(running(cluster, podman, run_id, 1, 1))
    before = podman.inspect(f"weft-{run_id}-box.0-1")["Id"]
    cluster.until(lambda: len(output(cluster, run_id, 1)) > 10)
    first.kill()
    cluster.worker("two", "--slots", "2", WEFT_CONTAINER_SOCKET=podman.socket)
    cluster.until(lambda: cluster.connection.task(run_id, "box.0").attempt == 2)
    cluster.until(lambda: len(output(cluster, run_id, 2)) > 10)
    assert podman.inspect(f"weft-{run_id}-box.0-1")["Id"] == before
    (cluster.directory / "over").touch()
    cluster.ended(run_id)
    task = cluster.connection.task(run_id, "box.0")
    assert (task.state, task.attempt) == ("succeeded", 2), cluster.story()
    assert cluster.journal() == {"box.0 1": 1}
    lines = [line for attempt in (1, 2) for line in output(cluster, run_id, attempt)]
    assert lines == [f"line {n}" for n in range(1, len(lines) + 1)], lines
    assert len(lines) > 20
    assert not names(podman, run_id)


def output(cluster: Cluster, run_id: str, attempt: int) -> list[str]:
    """What anybody can read of an attempt."""
    opened = cluster.connection.open_output(run_id, "box.0", attempt, "stdout")
    data, at = b"", 0
    while piece := (found := opened.read(at)).data:
        data, at = data + piece, found.next
    opened.close()
    return data.decode().splitlines()


def test_an_engine_that_nobody_reaches_is_waited_for_until_a_person_decides(
    tmp_path: Path, podman: Podman, request: Any
) -> None:
    cluster = Cluster("sqlite", tmp_path)
    request.addfinalizer(cluster.close)
    first = cluster.worker("one", "--slots", "1", WEFT_CONTAINER_SOCKET=podman.socket)
    run_id = cluster.submit(LONG.format(count=1, on_lost="true"))
    cluster.until(running(cluster, podman, run_id, 1, 1))
    podman.pause_service(True)
    try:
        first.kill()
        cluster.worker("two", "--slots", "1", WEFT_CONTAINER_SOCKET=str(tmp_path / "nothing.sock"))
        cluster.until(lambda: "not verified" in cluster.connection.why(run_id, "box.0")[0].summary)
        assert cluster.call("cancel", run_id, "--no-wait")["state"] == "running"
        found = cluster.connection.why(run_id, "box.0")[0]
        assert "no live node reaches it" in found.details, found
        assert any("weft release" in line for line in found.details), found
        cluster.call("release", run_id, "box.0", "--reason", "it was scrapped")
        cluster.ended(run_id)
        assert cluster.connection.run(run_id).state == "cancelled"
        (event,) = [e for e in cluster.connection.events(run_id, limit=1000) if e.kind == "released"]
        assert event.data["reason"] == "it was scrapped"
    finally:
        podman.pause_service(False)


def test_a_cancel_leaves_no_container(postgres_cluster: Cluster, podman: Podman, figure: Figure) -> None:
    cluster, count = postgres_cluster, 30
    cluster.worker("one", "--slots", str(count), WEFT_CONTAINER_SOCKET=podman.socket)
    quiet = "sleep 600"  # so many loops would keep this machine busy
    run_id = cluster.submit(LONG.format(count=count, on_lost="true").replace(LOOP, quiet))
    cluster.until(lambda: len(cluster.journal()) >= count, 200)
    began = time.monotonic()
    cluster.call("cancel", run_id)
    figure("cancel of 30 containers that ignore SIGTERM", f"gone after {time.monotonic() - began:.1f} s (grace 1 s)")
    assert cluster.connection.run(run_id).state == "cancelled"
    assert not names(podman, run_id)
    gone = cluster.connection.task(run_id, "box.7")
    assert gone.reason is not None
    assert "its engine says that it is gone" in gone.reason
