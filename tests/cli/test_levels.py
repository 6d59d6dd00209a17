"""`mode: levels` with real processes: records that do not show who was faster or who was killed; moves by hand."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Weft, wait_for

PLAN = Path(__file__).parents[2] / "examples" / "plan.yaml"
Start = Callable[..., "subprocess.Popen[str]"]

#: `slow` waits until the test lets it go on; the others leave a mark when they have run.
LEVELS = """\
name: levels
mode: levels
output: ${{ tasks.last.output }}
tasks:
  first: echo '{"n":1}' > "$WEFT_OUTPUT"
  quick: {needs: [first], run: "echo quick >> ran; echo by=quick > $WEFT_CONTEXT; echo out"}
  slow:
    needs: [first]
    run: echo slow >> ran; while ! test -e go; do sleep 0.02; done; echo by=slow > $WEFT_CONTEXT
  many: {needs: [first], replicas: 3, run: 'echo "$WEFT_INDEX" > "$WEFT_OUTPUT"'}
  last:
    needs: [quick, slow]
    run: printf '"%s by %s"' ${{ tasks.many.output }} ${{ context.by }} > "$WEFT_OUTPUT"
  always: {when: always, run: echo tidy}
"""


def canonical(look: Weft) -> list[str]:
    done = look("events", "last", "--canonical")
    assert done.code == 0, done.err
    return done.out.splitlines()


def tasks(look: Weft) -> dict[str, dict[str, Any]]:
    return {task["name"]: task for task in look("show", "last", "--json").json["tasks"]}


def test_a_killed_owner_does_not_show(weft: Weft, start: Start, look: Weft, tmp_path: Path) -> None:
    """kill -9 in the middle of a level: the next owner begins that level again, and leaves the same bytes."""
    (tmp_path / "w.yaml").write_text(LEVELS)
    (tmp_path / "go").touch()
    assert weft("run", "w.yaml").code == 0
    undisturbed = canonical(look)
    assert [json.loads(line).get("task") for line in undisturbed] == [
        "first", None, "many", "many.0", "many.1", "many.2", "quick", "slow", None, "last", None, "always", None,
    ]  # fmt: skip
    (tmp_path / "go").unlink()
    (tmp_path / "ran").unlink()

    owner = start("run", "w.yaml")

    def all_but_slow_are_held() -> bool:
        held = [name for name, task in tasks(look).items() if task["held"]] if look("show", "last").code == 0 else []
        return sorted(held) == ["many", "many.0", "many.1", "many.2", "quick"]

    wait_for(lambda: (tmp_path / "ran").exists() and all_but_slow_are_held())
    assert look("verify", "last").code == 0
    assert "it has finished (succeeded)" in look("why", "last", "quick").out
    assert look("show", "last", "quick").out.splitlines()[0].split()[1:4] == ["quick", "held", "(succeeded)"]
    assert len(canonical(look)) == 2, "only the first level counts so far"
    owner.send_signal(signal.SIGKILL)
    owner.wait()

    (tmp_path / "go").touch()
    done = weft("resume", "last", "--json")
    assert done.code == 0, done.err
    assert done.lines[-1]["output"] == "[0,1,2] by slow"
    assert canonical(look) == undisturbed
    assert look("verify", "last").code == 0
    assert (tmp_path / "ran").read_text().split().count("quick") == 2, "what the lost owner held ran again"
    found = tasks(look)
    assert (found["quick"]["attempt"], found["quick"]["lost"], found["slow"]["lost"]) == (2, 0, 1)


def test_a_failed_level_leaves_nothing_and_is_resumed(weft: Weft, look: Weft, tmp_path: Path) -> None:
    text = LEVELS.replace("while ! test -e go; do sleep 0.02; done;", "test -e go || exit 3;")
    (tmp_path / "w.yaml").write_text(text)
    assert weft("run", "w.yaml").code == 1
    found = tasks(look)
    assert {name: task["state"] for name, task in found.items() if "many" not in name} == {
        "first": "succeeded", "quick": "cancelled", "slow": "failed", "last": "cancelled", "always": "succeeded",
    }  # fmt: skip
    assert look("show", "last", "--json").json["context"] == {}
    assert [json.loads(line)["level"] for line in canonical(look)] == [0, 0, 3, 3]
    assert look("verify", "last").code == 0
    (tmp_path / "go").touch()
    assert weft("resume", "last").code == 0
    resumed = canonical(look)
    assert look("verify", "last").code == 0
    assert weft("run", "w.yaml").code == 0
    assert canonical(look) == resumed
    assert tasks(look)["first"]["generation"] == 1


def test_by_hand(weft: Weft, look: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(LEVELS)
    (tmp_path / "go").touch()
    done = weft("run", "--step", "w.yaml")
    assert done.code == 0
    assert "levels is paused before level 2: 1 succeeded" in done.err
    assert "is paused before level 2" in look("why", "last", "last").out
    seen = []
    for _ in range(3):
        done = weft("advance", "last", "--task")
        assert done.code == 0
        assert "is paused within level 2" in done.err
        seen.append(sorted(name for name, task in tasks(look).items() if task["held"]))
    assert seen == [["many.0"], ["many.0", "many.1"], ["many", "many.0", "many.1", "many.2"]], "by name"
    assert "is paused before level 3" in weft("advance", "last").err
    assert weft("advance", "last", "--json").lines[-1]["awaiting_advance"] is True
    assert "levels succeeded" in weft("advance", "last").err
    assert look("verify", "last").code == 0
    manual_advance = canonical(look)
    assert weft("run", "w.yaml").code == 0
    assert canonical(look) == manual_advance
    refused = weft("advance", "last")
    assert (refused.code, refused.err.count("--step")) == (2, 1)


def test_step_needs_levels(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("- echo a\n")
    done = weft("run", "--step", "w.yaml")
    assert done.code == 2
    assert "has no levels to rest after" in done.err


def test_the_plan(weft: Weft, look: Weft) -> None:
    done = weft("run", "--json", str(PLAN))
    assert done.code == 0, done.err
    assert done.lines[-1]["output"] == {
        "draft": "3 parts from field notes", "sources": ["field notes", "herbarium"], "verdict": "accepted",
    }  # fmt: skip
    first = canonical(look)
    assert weft("run", "--max-parallel", "0", str(PLAN)).code == 0
    assert canonical(look) == first
    assert len(first) == 12


@pytest.mark.parametrize("mode", ["mode: levels", "ownership: run"])
def test_one_worker_owns_a_run(weft: Weft, start: Start, look: Weft, tmp_path: Path, mode: str) -> None:
    """Two workers share a store; each run belongs to one of them, and goes to the other when that one is killed."""
    names = [f"t{at}" for at in range(8)]
    body = "".join(f"  {name}: echo $WEFT_TASK >> ran; while ! test -e go; do sleep 0.02; done\n" for name in names)
    (tmp_path / "w.yaml").write_text(f"name: w\n{mode}\ntasks:\n{body}")
    workers = [start("worker", "--slots", "2", "--name", name) for name in ("one", "two")]
    assert weft("submit", "w.yaml").code == 0
    wait_for(lambda: (tmp_path / "ran").exists() and len((tmp_path / "ran").read_text().split()) == 2)
    owners = {task["node"] for task in tasks(look).values() if task["state"] == "running"}
    assert len(owners) == 1
    which = ["one", "two"].index(owners.pop())
    workers[which].send_signal(signal.SIGKILL)
    workers[which].wait()
    (tmp_path / "go").touch()
    wait_for(lambda: look("show", "last", "--json").json["run"]["state"] == "succeeded")
    assert {task["node"] for task in tasks(look).values()} == {["two", "one"][which]}
    assert look("verify", "last").code == 0
