"""Nodes leave in peace: nothing fails because of it, and nothing is counted against a task."""

import json
import signal
import time
from typing import Any

from tests.cluster.conftest import Cluster
from tests.conftest import Figure

HOLDS = "tasks: {waits: {run: 'while ! test -e open; do sleep 0.05; done'}, after: {needs: [waits], run: 'true'}}\n"
# The last ones go on until every worker has been replaced, however fast the machine is.
LOAD = """\
tasks:
  many:
    replicas: 150
    run: |
      echo $WEFT_INDEX >> journal
      sleep 0.1
      test $WEFT_INDEX -lt 100 || while ! test -e rolled; do sleep 0.05; done
"""


def test_a_drained_node_finishes_and_leaves(cluster: Cluster) -> None:
    one = cluster.worker("one")
    run_id = cluster.submit(HOLDS)
    cluster.until(lambda: cluster.connection.task(run_id, "waits").state == "running")
    shown = cluster.call("drain", "one", "--deadline", "60s")
    assert (shown["node"], shown["already"], shown["left"]) == ("one", False, None)
    node = cluster.connection.node("one")
    assert (node.state, node.health, node.running) == ("draining", "draining", 1)
    assert one.poll() is None
    (cluster.directory / "open").touch()
    assert one.wait(30) == 0
    assert cluster.connection.task(run_id, "waits").state == "succeeded"
    assert cluster.connection.task(run_id, "after").state == "queued", "it claimed nothing more"
    assert cluster.connection.node("one").state == "left"
    assert cluster.outcomes() == {"succeeded": 1}
    assert "drained, and left" in (cluster.directory / "log").read_text()
    assert cluster.call("drain", "one") == 3, "there is nobody to drain any more"


def test_what_still_runs_at_the_deadline_goes_back(cluster: Cluster) -> None:
    cluster.worker("one")
    run_id = cluster.submit(HOLDS)
    cluster.until(lambda: cluster.connection.task(run_id, "waits").state == "running")
    shown = cluster.call("drain", "one", "--deadline", "300ms", "--wait")
    assert shown["left"] is True
    assert cluster.processes["one"].wait(20) == 0
    task = cluster.connection.task(run_id, "waits")
    assert (task.state, task.failures, task.lost) == ("queued", 0, 0)
    assert cluster.outcomes() == {"returned": 1}
    (cluster.directory / "open").touch()
    cluster.worker("two")
    cluster.ended(run_id)
    assert cluster.connection.run(run_id).state == "succeeded"
    assert cluster.connection.verify(run_id).ok


def test_sigterm_drains_and_a_second_one_kills(cluster: Cluster) -> None:
    one = cluster.worker("one", "--drain", "60s")
    run_id = cluster.submit(HOLDS)
    cluster.until(lambda: cluster.connection.task(run_id, "waits").state == "running")
    one.send_signal(signal.SIGTERM)
    cluster.until(lambda: cluster.connection.node("one").state == "draining")
    one.send_signal(signal.SIGTERM)
    assert one.wait(20) == 0
    assert cluster.outcomes() == {"returned": 1}, "killed by us, so not its fault"
    assert cluster.connection.task(run_id, "waits").failures == 0


def test_a_rolling_restart_under_load_loses_nothing(cluster: Cluster, figure: Figure) -> None:
    """Three workers are replaced one by one while they work: by SIGTERM, and by `weft drain`."""
    for name in ("a1", "b1", "c1"):
        cluster.worker(name, "--slots", "2", "--drain", "100ms")
    run_id = cluster.submit(LOAD)
    journal = cluster.directory / "journal"
    cluster.until(lambda: journal.exists() and len(journal.read_text().split()) > 5)
    for name in ("a", "b", "c"):
        old = cluster.processes[f"{name}1"]
        cluster.worker(f"{name}2", "--slots", "2")
        if name == "b":
            cluster.call("drain", f"{name}1", "--deadline", "50ms", "--wait")
        else:
            old.terminate()
        assert old.wait(30) == 0, cluster.story()
    assert not cluster.connection.run(run_id).finished
    (cluster.directory / "rolled").touch()
    cluster.ended(run_id)
    run = cluster.connection.run(run_id)
    assert (run.state, run.succeeded) == ("succeeded", 150), cluster.story()
    outcomes = cluster.outcomes()
    assert outcomes["succeeded"] == 150
    assert set(outcomes) <= {"succeeded", "returned"}, outcomes
    counted = cluster.query("SELECT sum(failures), sum(lost) FROM tasks")
    assert [tuple(row) for row in counted] == [(0, 0)]
    assert cluster.connection.verify(run_id).ok
    figure(
        f"3 nodes drained and replaced under load ({cluster.kind})",
        f"150 tasks, {outcomes.get('returned', 0)} attempts handed back, 0 failed, 0 lost",
    )


def test_the_cluster_s_events_are_followed(cluster: Cluster) -> None:
    follow = cluster.weft("events", "--follow", "--json", "--after", "0")
    assert follow.stdout is not None
    cluster.worker("one", "--label", "zone=eu")
    run_id = cluster.submit("tasks: {first: 'true', second: {needs: [first], run: 'true'}}\n")
    cluster.ended(run_id)
    cluster.call("drain", "one", "--wait")
    shown: list[dict[str, Any]] = []
    deadline = time.monotonic() + 30
    while not shown or shown[-1]["kind"] != "node_left":
        assert time.monotonic() < deadline, shown
        shown.append(json.loads(follow.stdout.readline()))
    follow.kill()
    follow.communicate()
    kinds = [event["kind"] for event in shown]
    for kind in ("node_joined", "leader_elected", "submitted", "assigned", "run_finished", "drain_started"):
        assert kind in kinds, kinds
    assert {e["run"] for e in shown if e["kind"] == "node_joined"} == {None}
    assert {e["node"] for e in shown if e["kind"] == "assigned"} == {"one"}

    def listed(*words: str) -> list[tuple[str, str | None]]:
        process = cluster.weft("events", "--json", *words)
        out, _ = process.communicate(timeout=60)
        return [(event["kind"], event["task"]) for event in map(json.loads, out.splitlines())]

    assert listed("--task", "second") == [("assigned", "second"), ("finished", "second")]
    assert listed(run_id, "--kind", "finished") == [("finished", "first"), ("finished", "second")]
    assert ("submitted", None) not in listed("--node", "one")
    assert ("node_joined", None) in listed("--node", "one")
    assert listed("--since", "2100-01-01") == []
    assert listed("--until", "1h") == []
    assert len(listed("--since", "1h")) == len(shown)


def test_a_node_is_shown_with_what_it_has(cluster: Cluster) -> None:
    cluster.worker("one", "--slots", "3", "--label", "zone=eu")
    cluster.until(lambda: cluster.connection.node("one").resources)
    shown = cluster.call("nodes", "show", "one")
    assert (shown["slots"], shown["labels"], shown["stale_reports"]) == (3, {"zone": "eu"}, 0)
    assert shown["resources"]["cores"] >= 1
    assert 0 < shown["resources"]["memory_free"] <= shown["resources"]["memory_total"]
    assert shown["resources"]["disk_free"] > 0
    cluster.until(lambda: cluster.leader() == "one")
    process = cluster.weft("nodes")
    heads, row = process.communicate(timeout=60)[0].splitlines()
    assert heads.split()[:6] == ["node", "session", "role", "state", "leader", "slots"]
    assert row.split()[:1] == ["one"]
    assert shown["session"][:8] in row
    assert "healthy" in row
    assert "term 1" in row
    assert "0/3" in row
    prefix = cluster.call("nodes", "show", shown["session"][:6])
    assert prefix["session"] == shown["session"]
    assert cluster.call("nodes", "show", "nobody") == 3
