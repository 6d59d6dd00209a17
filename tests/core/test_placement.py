"""Who may take a task, who has room for it, and who is the best place: tables."""

import json
from typing import Any

import pytest

from tests.core.driver import Engine
from weft.core import commands as c
from weft.core.placement.eligibility import (
    Load,
    NodeFacts,
    best,
    costs,
    eligible,
    free,
    load_of,
    loads_of,
    no_room,
    score,
)

GIB = 2**30
NODE = NodeFacts(
    kinds=("python", "shell"), labels={"ssd": "", "zone": "eu"}, name="alpha", session="s1",
    capabilities=("docker",), memory=8 * GIB, disk=100 * GIB, gpus=2, gpu_memory=16 * GIB, cpus=1.5,
)  # fmt: skip
BARE = NodeFacts(kinds=("shell",), name="beta", session="s2")

#: what is required, and why `alpha` does not take it (nothing: it does)
ELIGIBLE: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"labels": ["ssd"]}, []),
    ({"labels": ["ssd", "zone=eu"]}, []),
    ({"cpus": 1.5}, []),
    ({"cpus": 2}, ["it has 1.5 CPUs, 2 needed"]),
    ({"labels": ["ssd", "gpu"]}, ["it lacks the label gpu"]),
    ({"labels": ["gpu", "zone=us"]}, ["it lacks the labels gpu, zone=us"]),
    ({"any_labels": ["gpu", "zone=eu"]}, []),
    ({"any_labels": ["gpu", "zone=us"]}, ["it has none of the labels gpu, zone=us"]),
    ({"not_labels": ["gaming"]}, []),
    ({"not_labels": ["gaming", "zone=eu"]}, ["it has the label zone=eu, to be avoided"]),
    ({"capabilities": ["docker"]}, []),
    ({"capabilities": ["cuda", "docker"]}, ["it is not capable of cuda"]),
    ({"executors": ["python", "shell"]}, []),
    ({"executors": ["container"]}, ["it has no executor for container"]),
    ({"memory": 8 * GIB}, []),
    ({"memory": 9 * GIB}, ["it has 8GiB of memory, 9GiB needed"]),
    ({"disk": 101 * GIB}, ["it has 100GiB of disk space, 101GiB needed"]),
    ({"gpu": 2}, []),
    ({"gpu": 3}, ["it has 2 GPUs, 3 needed"]),
    ({"gpu": 1, "gpu_memory": 16 * GIB}, []),
    ({"gpu": 1, "gpu_memory": 24 * GIB}, ["its GPUs have 16GiB, it needs 24GiB on each"]),
    ({"node": "alpha"}, []),
    ({"node": "s1"}, []),
    ({"node": "beta"}, ["it is not the node beta"]),
    ({"nodes": ["beta", "alpha"]}, []),
    ({"nodes": ["beta", "gamma"]}, ["it is none of the nodes beta, gamma"]),
    ({"not_nodes": ["beta"]}, []),
    ({"not_nodes": ["alpha"]}, ["it is a forbidden node"]),
    ({"not_nodes": ["s1"]}, ["it is a forbidden node"]),
    ({"max_per_node": 1, "of": "w/a"}, []),
    ({"prefers": ["nowhere"]}, []),
    ({"labels": ["gpu"], "gpu": 3}, ["it lacks the label gpu", "it has 2 GPUs, 3 needed"]),
]


@pytest.mark.parametrize(("requires", "reasons"), ELIGIBLE, ids=lambda value: str(value)[:40])
def test_eligible(requires: dict[str, Any], reasons: list[str]) -> None:
    assert eligible({"kind": "shell", "requires": requires}, NODE) == reasons


def test_a_node_that_says_nothing_of_itself_has_nothing() -> None:
    requires = {"memory": 1, "disk": 1, "gpu": 1, "gpu_memory": 1, "capabilities": ["docker"]}
    assert eligible({"kind": "python", "requires": requires}, BARE) == [
        "it has no executor for python tasks", "it is not capable of docker", "it does not know its memory",
        "it does not know its disk space", "it has no GPU", "its GPUs have none, it needs 1B on each",
    ]  # fmt: skip


def test_what_was_given_to_a_session_is_for_nobody_else() -> None:
    assert eligible({"kind": "shell", "session": "s1"}, NODE) == []
    assert eligible({"kind": "shell", "session": "s2"}, NODE) == ["it was given to another node"]


def test_room_is_counted_down() -> None:
    one = {"memory": 3 * GIB, "gpu": 1, "cpus": 0.7, "max_per_node": 2, "of": "w/a"}
    assert costs(one) == {"memory": 3 * GIB, "gpu": 1, "cpus": 700, "each:w/a": 1}
    assert costs({"labels": ["x"]}) == {}
    left = free(NODE, [one], [one, one, {"memory": GIB}, {}])
    assert left == {"memory": GIB, "disk": 100 * GIB, "gpu": 0, "cpus": 100, "each:w/a": 0}
    assert no_room(one, left) == [
        "1GiB of memory are free now, 3GiB needed", "0.1 of its CPUs are free now, 0.7 needed",
        "0 of its GPUs are free now, 1 needed",
        "it runs 2 of this task already (max_per_node)",
    ]  # fmt: skip
    assert no_room(one, free(NODE, [one], [one])) == []
    other = {"max_per_node": 1, "of": "w/b"}
    assert no_room(other, free(NODE, [other], [one, one])) == []


IDLE = Load()
#: what is required, the node, its load, its score
SCORES: list[tuple[dict[str, Any], NodeFacts, Load, float]] = [
    ({}, NODE, IDLE, 85.0),
    ({"gpu": 1}, NODE, IDLE, 100.0),
    ({"gpu": 1}, NODE, Load(gpu=1.0), 85.0),
    ({}, NODE, Load(gpu=1.0), 85.0),
    ({}, NODE, Load(cpu=1.0), 55.0),
    ({}, NODE, Load(memory=0.5), 70.0),
    ({}, NODE, Load(disk_io=1.0), 70.0),
    ({}, NODE, Load(network=1.0), 75.0),
    ({}, NODE, Load(running=3), 70.0),
    ({"prefers": ["ssd"]}, NODE, IDLE, 95.0),
    ({"prefers": ["ssd", "zone=eu", "gpu"]}, NODE, IDLE, 105.0),
    ({"prefers": ["ssd"]}, BARE, IDLE, 85.0),
    ({}, NODE, Load(running=20, cpu=1.0, memory=1.0, disk_io=1.0, network=1.0), -100.0),
]


@pytest.mark.parametrize(("requires", "node", "load", "points"), SCORES)
def test_score(requires: dict[str, Any], node: NodeFacts, load: Load, points: float) -> None:
    assert score(requires, node, load) == points


MEASURED = {
    "cores": 4, "load": 1.0, "memory_total": 1000, "memory_free": 250, "disk_read_per_s": 30_000_000,
    "disk_written_per_s": 10_000_000, "net_received_per_s": 10**9, "net_sent_per_s": 0,
    "gpus": [{"memory_total": 100, "memory_free": 60}, {"memory_total": 100, "memory_free": 0}],
}  # fmt: skip


def test_what_a_node_measured_becomes_shares() -> None:
    assert load_of(MEASURED) == {"cpu": 0.25, "memory": 0.75, "disk_io": 0.2, "network": 1.0, "gpu": 0.7}
    assert Load(0, **load_of({})) == IDLE, "what was not measured counts as idle"
    assert load_of({"cores": 2, "load": 9.5})["cpu"] == 1.0


def test_a_node_that_has_not_measured_yet_counts_as_the_others_do() -> None:
    shown = {"a": {"cores": 2, "load": 2.0}, "b": {"cores": 2, "load": 1.0}}
    loads = loads_of(shown, ["a", "b", "new"])
    assert (loads["a"]["cpu"], loads["b"]["cpu"], loads["new"]["cpu"]) == (1.0, 0.5, 0.75)
    assert Load(0, **loads_of({}, ["new"])["new"]) == IDLE


def test_the_leader_gives_a_task_to_the_node_whose_machine_is_less_busy() -> None:
    engine = Engine()
    for session, load in (("a", 3.9), ("b", 0.1)):
        engine.node(session)
        assert engine.store.renew(session, 60_000, json.dumps({"cores": 4, "load": load}))
    engine.submit({"name": "w", "placement": "scored", "tasks": {"t": {"inline": "x"}}})
    assert engine.commit(c.Place(engine.term())).changed == 1
    assert engine.exchange("a").claims == []
    assert len(engine.exchange("b").claims) == 1


def test_the_best_place() -> None:
    assert best({}, []) is None
    assert best({}, [(BARE, IDLE), (NODE, IDLE)]) is NODE, "of equals, the smaller session id"
    assert best({}, [(NODE, Load(running=1)), (BARE, IDLE)]) is BARE
    assert best({"prefers": ["ssd"]}, [(NODE, Load(running=1)), (BARE, IDLE)]) is NODE
