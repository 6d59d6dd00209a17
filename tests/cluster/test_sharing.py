"""Many nodes, one store: they share the work, each task runs once and where it may, and no wall clock matters."""

import json
import time
from collections import Counter
from pathlib import Path

from tests.cluster.conftest import Cluster
from tests.conftest import Figure
from weft.authoring.load import load_value
from weft.core.commands import Submit
from weft.core.definition.document import encode_document

JOURNAL = "echo $WEFT_TASK $WEFT_INDEX $WEFT_ATTEMPT >> journal"
LATE_MS = 60_000  # of an event's time against the store's clock: far below the hour that a wall clock is off

#: Read by Python at its start: from then on this process, and nobody else, believes in another hour.
WRONG_CLOCK = """\
import datetime, os, time
OFF_S = float(os.environ["CLOCK_OFF_S"])
right, right_ns, genuine = time.time, time.time_ns, datetime.datetime
time.time = lambda: right() + OFF_S
time.time_ns = lambda: right_ns() + int(OFF_S * 1e9)
class Off(genuine):
    @classmethod
    def now(cls, tz=None):
        return genuine.now(tz) + datetime.timedelta(seconds=OFF_S)
datetime.datetime = Off
open(f"clock-of-{os.getpid()}", "w").write(str(round(time.time() - right())))
"""


def test_a_leader_and_two_workers_share_a_graph(postgres_cluster: Cluster, figure: Figure) -> None:
    cluster = postgres_cluster
    cluster.workers("boss", "--role", "leader", "--slots", "0")
    cluster.workers("one two", "--role", "worker", "--slots", "4")
    cluster.until(lambda: cluster.leader() == "boss")
    tasks = {
        f"t{i}": {"run": f"{JOURNAL}; sleep 0.05", "needs": [f"t{i - 10}"] if i >= 10 else []} for i in range(60)
    }
    began = time.monotonic()
    run_id = cluster.submit(json.dumps({"name": "shared", "tasks": tasks}))
    cluster.ended(run_id)
    took = time.monotonic() - began
    cluster.sound(run_id, 60)
    nodes = Counter(e.node for e in cluster.connection.events(run_id, kinds=["assigned"]))
    assert set(nodes) == {"one", "two"}
    assert cluster.outcomes() == {"succeeded": 60}
    shares = ", ".join(f"{name} {count}" for name, count in sorted(nodes.items()) if name)
    figure("1 leader, 2 workers share a graph", f"60 tasks in {took:.1f} s ({shares}), 60 attempts, 0 lost")


def test_five_workers_race_for_one_task(postgres_cluster: Cluster, figure: Figure) -> None:
    """Twenty times: each time one wins."""
    cluster = postgres_cluster
    cluster.workers("a b c d e", "--slots", "1")
    loaded = load_value({"name": "race", "tasks": {"only": {"run": JOURNAL}}})
    document, hash = encode_document(loaded.document), loaded.workflow.hash
    runs = [f"race-{number}" for number in range(20)]
    for run_id in runs:
        cluster.connection.submit(Submit(run_id, hash, "race", document, "{}", source=str(cluster.directory)))
    for run_id in runs:
        cluster.ended(run_id)
        assert cluster.connection.verify(run_id).ok
    assert cluster.outcomes() == {"succeeded": 20}
    assert cluster.journal() == {"only 1": 20}
    winners = {e.node for run_id in runs for e in cluster.connection.events(run_id, kinds=["assigned"])}
    figure("5 workers race for 1 task, 20 times", f"20 attempts, 0 lost, won by {len(winners)} of them")


def test_two_clusters_on_one_database_never_run_anything_twice(
    postgres_cluster: Cluster, tmp_path: Path, figure: Figure
) -> None:
    """The same names, two that insist on leading, and neither side knows of the other."""
    other_directory = tmp_path / "other"
    other_directory.mkdir()
    other = Cluster("postgres", other_directory, postgres_cluster.store)
    try:
        for side in (postgres_cluster, other):
            side.workers("boss", "--role", "leader", "--slots", "0")
            side.workers("one two", "--slots", "3")
        run_ids = [
            side.submit(f"tasks: {{many: {{replicas: 100, run: '{JOURNAL}'}}}}\n")
            for side in (postgres_cluster, other)
        ]
        for run_id in run_ids:
            postgres_cluster.ended(run_id)
        attempts = postgres_cluster.query("SELECT count(*), count(DISTINCT task_id) FROM all_attempts")
        assert [tuple(row) for row in attempts] == [(200, 200)], postgres_cluster.story()
        for side, run_id in zip((postgres_cluster, other), run_ids, strict=True):
            journal = side.journal()
            assert (len(journal), set(journal.values())) == (100, {1}), journal
            assert postgres_cluster.connection.verify(run_id).ok
        elected = postgres_cluster.connection.events(None, kinds=["leader_elected"])
        terms = [e.data["term"] for e in elected]
        assert terms == sorted(set(terms)), "a term is one node's"
        sessions = {e.session for r in run_ids for e in postgres_cluster.connection.events(r, kinds=["assigned"])}
        figure("two clusters on one database", f"200 tasks, 200 starts by {len(sessions)} nodes, 0 twice")
    finally:
        other.close()


def test_each_task_runs_where_it_may(postgres_cluster: Cluster, figure: Figure) -> None:
    cluster = postgres_cluster
    cluster.worker("fast", "--label", "ssd", "--label", "zone=eu", "--memory", "8GiB")
    cluster.worker("tools", "--capability", "docker", "--gpus", "1", "--memory", "1GiB")
    cluster.worker("games", "--label", "gaming", "--memory", "1GiB")
    may: dict[str, tuple[dict[str, object], set[str]]] = {
        "label": ({"labels": ["ssd"]}, {"fast"}),
        "value": ({"labels": ["zone=eu"]}, {"fast"}),
        "any": ({"any_labels": ["ssd", "gaming"]}, {"fast", "games"}),
        "avoid": ({"not_labels": ["gaming"]}, {"fast", "tools"}),
        "capability": ({"capabilities": ["docker"]}, {"tools"}),
        "gpu": ({"gpu": 1}, {"tools"}),
        "memory": ({"memory": "4GiB"}, {"fast"}),
        "target": ({"node": "games"}, {"games"}),
        "allowed": ({"nodes": ["fast", "tools"]}, {"fast", "tools"}),
        "forbidden": ({"not_nodes": ["fast", "tools"]}, {"games"}),
        "spread": ({"max_per_node": 1}, {"fast", "tools", "games"}),
    }
    tasks = {
        name: {"replicas": 5, "run": f"{JOURNAL}; sleep 0.1", "requires": asked} for name, (asked, _) in may.items()
    }
    run_id = cluster.submit(json.dumps({"name": "placed", "tasks": tasks}))
    cluster.ended(run_id)
    cluster.sound(run_id, 5 * len(may))
    ran: dict[str, set[str]] = {name: set() for name in may}
    for event in cluster.connection.events(run_id, kinds=["assigned"]):
        assert event.task is not None
        assert event.node is not None
        ran[event.task.partition(".")[0]].add(event.node)
    for name, (_, nodes) in may.items():
        assert ran[name] <= nodes, (name, ran[name])
    assert ran["spread"] == {"fast", "tools", "games"}, "one at a time on each"
    figure("placement over 3 nodes", f"{5 * len(may)} tasks with {len(may)} demands, all where they may run")


def test_a_wall_clock_that_is_an_hour_off_changes_nothing(
    postgres_cluster: Cluster, tmp_path: Path, figure: Figure
) -> None:
    """The one that leads is an hour ahead, another an hour behind; what is due in 300 ms is, by the store's clock."""
    cluster = postgres_cluster
    shim = tmp_path / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(WRONG_CLOCK)
    ahead = cluster.worker("ahead", "--slots", "1", PYTHONPATH=str(shim), CLOCK_OFF_S="3600")
    cluster.until(lambda: cluster.leader() == "ahead")
    behind = cluster.worker("behind", "--slots", "1", PYTHONPATH=str(shim), CLOCK_OFF_S="-3600")
    cluster.worker("right", "--slots", "1")
    shown = [int((tmp_path / f"clock-of-{process.pid}").read_text()) for process in (ahead, behind)]
    assert shown == [3600, -3600], "or the test would show nothing"
    began_ms = cluster.connection.now()
    run_id = cluster.submit(
        "defaults: {timeout: 60s}\ntasks:\n"
        f"  many: {{replicas: 30, run: '{JOURNAL}; sleep 0.1'}}\n"
        f"  again: {{run: '{JOURNAL}; test $WEFT_ATTEMPT = 2', retry: {{max: 1, backoff: 300ms}}}}\n"
        "  later: {wait: {for: 300ms}}\n"
        f"  ahead: {{needs: [later], run: 'sleep 4; {JOURNAL}', requires: {{node: ahead}}}}\n"
        f"  behind: {{needs: [later], run: 'sleep 4; {JOURNAL}', requires: {{node: behind}}}}\n"
    )
    cluster.ended(run_id)
    ended_ms = cluster.connection.now()
    run = cluster.connection.run(run_id)
    assert (run.state, run.succeeded) == ("succeeded", 34), cluster.story()
    assert cluster.connection.verify(run_id).ok
    assert cluster.outcomes() == {"succeeded": 34, "failed": 1}, "nothing timed out, and no lease was lost"
    assert set(cluster.journal().values()) == {1}
    events = cluster.connection.events(None, limit=10_000)
    assert all(began_ms - LATE_MS < e.at < ended_ms + LATE_MS for e in events)
    assert [(e.kind, e.node) for e in events if e.kind.startswith(("leader", "node_d"))] == [
        ("leader_elected", "ahead")
    ]
    assert {n.health for n in cluster.connection.nodes()} == {"healthy"}
    figure(
        "wall clocks 1 h ahead (the leader) and 1 h behind", "34 tasks, 1 retry as asked, 0 lost, 1 term, 0 timeouts"
    )
