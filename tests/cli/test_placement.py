"""Real workers with different labels and resources on one store: each task goes where it may run, and no further."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Weft, wait_for

Start = Callable[..., "subprocess.Popen[str]"]

WHERE = """\
name: where
tasks:
  any: "true"
  fast: {run: "true", replicas: 6, requires: {labels: [ssd]}}
  eu: {run: "true", replicas: 4, requires: {any_labels: [zone=eu, zone=us]}}
  calm: {run: "true", replicas: 4, requires: {not_labels: [gaming], any_labels: [ssd, gaming]}}
  there: {run: "true", requires: {node: plain}}
  docker: {run: "true", requires: {capabilities: docker, gpu: 1}}
  elsewhere: {run: "true", replicas: 4, requires: {not_nodes: [plain, gamer]}}
"""


def worker(start: Start, name: str, *words: str) -> "subprocess.Popen[str]":
    process = start("worker", "--name", name, "--json", *words)
    assert process.stderr is not None
    while json.loads(process.stderr.readline())["message"] != "ready":
        pass
    return process


def ended(look: Weft, run: str) -> bool:
    return all(one["state"] != "running" for one in look("ls", "--json").json["runs"] if one["id"] == run)


def nodes_of(look: Weft, run: str) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for task in look("tasks", run, "--json").json["tasks"]:
        assert task["state"] == "succeeded", task
        if task["elements"] is None:
            out.setdefault(task["name"].split(".")[0], set()).add(task["node"])
    return out


def test_each_task_goes_where_it_may_run(tmp_path: Path, start: Start, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text(WHERE)
    worker(start, "plain", "--gpus", "0")
    worker(start, "fast", "--label", "ssd", "--label", "zone=eu", "--capability", "docker", "--gpus", "1")
    worker(start, "gamer", "--label", "gaming", "--label", "ssd")
    run = look("submit", "w.yaml").out.strip()
    wait_for(lambda: ended(look, run))
    found = nodes_of(look, run)
    assert found.pop("any") <= {"plain", "fast", "gamer"}
    assert found.pop("fast") <= {"fast", "gamer"}
    assert found == {
        "eu": {"fast"}, "calm": {"fast"}, "there": {"plain"}, "docker": {"fast"}, "elsewhere": {"fast"},
    }  # fmt: skip
    assert look("verify", run).code == 0


# An element tells how many run beside it, then waits until it is let go or the room is as full as it can be.
CROWDED = """\
name: crowded
tasks:
  t:
    replicas: 12
    {limit}
    run: |
      touch "here.$WEFT_INDEX"
      ls here.* | wc -l >> counts
      sleep 0.05
      rm "here.$WEFT_INDEX"
"""


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ("pools: license", 3),
        ("requires: {memory: 1GiB}", 4),  # two nodes with 2 GiB each
        ("requires: {max_per_node: 1}", 2),
        ("requires: {gpu: 1}", 2),
    ],
)
def test_limits_hold_between_processes(tmp_path: Path, start: Start, look: Weft, limit: str, most: int) -> None:
    (tmp_path / "w.yaml").write_text(CROWDED.replace("{limit}", limit))
    assert look("pools", "set", "license", "3").code == 0
    for name in ("one", "two"):
        worker(start, name, "--slots", "8", "--memory", "2GiB", "--gpus", "1")
    run = look("submit", "w.yaml").out.strip()
    wait_for(lambda: ended(look, run))
    counts = [int(line) for line in (tmp_path / "counts").read_text().split()]
    assert len(counts) == 12
    assert max(counts) <= most
    assert look("verify", run).code == 0
    (pool,) = look("pools", "--json").json["pools"]
    assert pool.pop("budget")["usd"] is None
    assert pool == {"name": "license", "size": 3, "used": 0, "waiting": 0, "holders": []}


def test_a_freed_place_is_taken_by_another_process_at_once(tmp_path: Path, start: Start, look: Weft) -> None:
    """Not by the poll: that is a minute away."""
    (tmp_path / "weft.toml").write_text('poll = "60s"\n')
    (tmp_path / "a.yaml").write_text(
        "name: a\ntasks: {hold: {pools: p, run: 'while ! test -e open; do sleep 0.02; done', requires: {node: one}}}"
    )
    (tmp_path / "b.yaml").write_text("name: b\ntasks: {next: {pools: p, run: 'true', requires: {node: two}}}")
    look("pools", "set", "p", "1")
    for name in ("one", "two"):
        worker(start, name)
    first = look("submit", "a.yaml").out.strip()
    wait_for(lambda: look("pools", "--json").json["pools"][0]["used"] == 1)
    second = look("submit", "b.yaml").out.strip()
    answer = look("why", second, "next").out
    assert f"the pool p is full: 1 of 1 places are held by {first}/hold" in answer
    assert "one: it is not the node two" in answer
    assert look("pools").out.splitlines()[1].split() == ["p", "1/1", "1", f"{first}/hold"]
    (tmp_path / "open").touch()
    wait_for(lambda: ended(look, second))


def test_scored_placement_between_processes(tmp_path: Path, start: Start, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text(
        "name: w\nplacement: scored\ntasks:\n"
        "  t: {replicas: 6, run: 'sleep 0.1', prefers: {labels: [ssd]}}\n  after: {needs: [t], run: 'true'}\n"
    )
    worker(start, "fast", "--label", "ssd")
    worker(start, "slow")
    run = look("submit", "w.yaml").out.strip()
    wait_for(lambda: ended(look, run))
    events = [json.loads(line) for line in look("events", run, "--json").out.splitlines()]
    placed = [e for e in events if e["kind"] == "placed"]
    chosen = [e["data"]["on"] for e in placed[:6]]
    assert chosen[0] == "fast"  # ten points for its label; what both measured of their one machine differs by less
    assert set(chosen) == {"fast", "slow"}, "five points less for each that it was given: they share"
    assigned = {e["task"]: e["node"] for e in events if e["kind"] == "assigned"}
    assert assigned == {e["task"]: e["data"]["on"] for e in placed}, "each was claimed by the node that was picked"
    assert look("verify", run).code == 0


def test_a_run_of_its_own_is_placed_without_a_worker(tmp_path: Path, weft: Weft) -> None:
    (tmp_path / "w.yaml").write_text("name: w\nplacement: scored\nconcurrency: 1\ntasks: {a: 'true', b: 'true'}\n")
    done = weft("run", "w.yaml", "--json")
    assert done.code == 0
    kinds = [line["kind"] for line in done.lines if line["type"] == "event"]
    assert kinds.count("placed") == 2
    assert "reopened" not in kinds


#: what a task requires, and what `weft run` says to it
REFUSED: list[tuple[str, str]] = [
    ("requires: {memory: 900TiB}", "of memory, 900TiB needed"),
    ("requires: {gpu: 1000}", "GPU"),
    ("requires: {capabilities: [cuda]}", "it is not capable of cuda"),
    ("requires: {node: nobody}", "it is not the node nobody"),
    ("constraints: {nodeLabels: [x]}", "it has none of the labels x"),
]


@pytest.mark.parametrize(("limit", "why"), REFUSED)
def test_what_nobody_can_run_is_refused_at_once(tmp_path: Path, weft: Weft, limit: str, why: str) -> None:
    (tmp_path / "w.yaml").write_text(f"tasks:\n  good: 'true'\n  bad: {{run: 'true', {limit}}}\n")
    refused = weft("run", "w.yaml")
    assert refused.code == 2
    assert "no live node can run bad: this node: " in refused.err
    assert why in refused.err
    assert weft("ls").out == ""


def test_a_submission_does_not_depend_on_who_is_alive_this_second(tmp_path: Path, start: Start, look: Weft) -> None:
    """The only node with a GPU may be restarting: the run is taken with a warning, and waits for it."""
    (tmp_path / "w.yaml").write_text("tasks: {good: 'true', bad: {run: 'true', requires: {labels: [gpu]}}}\n")
    worker(start, "plain")
    done = look("submit", "w.yaml")
    assert done.code == 0
    assert "no live node can run bad: plain: it lacks the label gpu. It waits for a node that can" in done.err
    run = done.out.strip()
    assert "no live node may take it" in look("why", run, "bad").out
    shown = look("rerun", run, "--detach", "--json").json
    assert shown["workers"] == 1
    assert ["lacks the label gpu" in warning for warning in shown["warnings"]] == [True]
    assert look("rerun", run).code == 2, "here, by a node that cannot"
    worker(start, "fast", "--label", "gpu")
    assert look("submit", "w.yaml", "--json").json["warnings"] == []
    wait_for(lambda: ended(look, run))
    assert nodes_of(look, run)["bad"] == {"fast"}


def test_what_this_node_says_it_has_lets_it_run(tmp_path: Path, weft: Weft) -> None:
    (tmp_path / "w.yaml").write_text(
        "tasks: {a: {run: 'true', requires: {memory: 900TiB, gpu: 2, capabilities: cuda, labels: x}}}"
    )
    flags: dict[str, Any] = {"env": {"WEFT_CAPABILITIES": "cuda"}}
    assert weft("run", "w.yaml", "--memory", "1000TiB", "--gpus", "2", "--label", "x", **flags).code == 0


def test_a_pool_that_is_not_there_is_refused(tmp_path: Path, weft: Weft) -> None:
    (tmp_path / "w.yaml").write_text("tasks: {a: {run: 'true', pools: license}}")
    refused = weft("run", "w.yaml")
    assert refused.code == 2
    assert "a: there is no pool 'license'" in refused.err
    assert "weft pools set license SIZE" in refused.err
    assert weft("pools", "set", "license", "1").out == "the pool license is made, with 1 place\n"
    assert weft("run", "w.yaml").code == 0
    assert weft("pools", "set", "license", "0").out == "the pool license now has 0 places\n"


@pytest.mark.parametrize(
    "words", [("set",), ("set", "x"), ("set", "9x", "1"), ("set", "x", "-1"), ("set", "x", "many")]
)
def test_bad_pools(look: Weft, words: tuple[str, ...]) -> None:
    refused = look("pools", *words)
    assert refused.code == 2
    assert refused.err


def test_priorities_go_first(tmp_path: Path, start: Start, look: Weft) -> None:
    (tmp_path / "w.yaml").write_text("tasks: {a: 'echo $WEFT_RUN_ID >> order'}")
    runs = [look("submit", "w.yaml", "--priority", str(n)).out.strip() for n in (0, 10, 5)]
    worker(start, "one", "--slots", "1")
    wait_for(lambda: all(ended(look, run) for run in runs))
    assert (tmp_path / "order").read_text().split() == [runs[1], runs[2], runs[0]]
    assert look("submit", "w.yaml", "--priority", "11").code == 2


def test_a_dry_run_starts_nothing_and_says_where_tasks_could_run(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "name: w\ntasks:\n  a: touch made\n  b: {needs: [a], run: 'true', requires: {labels: [gpu]}}\n"
    )
    done = weft("run", "w.yaml", "--dry-run")
    assert done.code == 0, done
    assert done.out.splitlines() == [
        "level 0: 1 task", "  a  (shell)  on this node", "level 1: 1 task", "  b  (shell; after a)  on no live node",
    ]  # fmt: skip
    assert "it lacks the label gpu" in done.err
    assert not (tmp_path / "made").exists()
    assert weft("ls", "--json").out.strip().startswith('{\n  "runs": []')
    applied = weft("apply", "w.yaml", "--dry-run")
    assert "+name: w" in applied.out
    assert "would be current" in applied.out
    assert "w" not in weft("workflows").out
