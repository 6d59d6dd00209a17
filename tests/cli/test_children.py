"""Workflows that run others, with real processes: results, names, cancel, ^C, kill -9 and resume."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

from .conftest import Weft, wait_for
from .test_interrupts import pids, running

Start = Callable[..., "subprocess.Popen[str]"]

PARENT = """\
name: parent
inputs: {who: {type: string, default: you}}
output: {said: "${{ tasks.sub.output }}", by: "${{ tasks.sub.result.run }}"}
tasks:
  first: echo parent >> journal
  sub: {needs: [first], workflow: ./sub/child.yaml, with: {who: "${{ inputs.who }}"}}
"""
CHILD = """\
name: child
inputs: {who: string}
output: hello ${{ inputs.who }}
tasks:
  a: pwd > here; echo a >> ../journal
  b: {needs: [a], run: echo b >> ../journal}
"""
HOLDS = """\
tasks:
  holds: "echo $$ >> ../pids; while ! test -e ../open; do sleep 0.02; done; echo ok >> ../journal"
"""
STUBBORN = """\
tasks:
  holds: {run: "trap '' TERM; echo $$ >> ../pids; while :; do sleep 0.1; done", grace: 100ms}
  next: {needs: [holds], run: "true"}
"""


@pytest.fixture
def family(tmp_path: Path) -> Callable[[str, str], Path]:
    """Two files, the child's in a directory of its own."""

    def write(parent: str, child: str) -> Path:
        (tmp_path / "sub").mkdir(exist_ok=True)
        (tmp_path / "parent.yaml").write_text(parent)
        (tmp_path / "sub" / "child.yaml").write_text(child)
        return tmp_path

    return write


Family = Callable[[str, str], Path]


def test_a_child_runs_beside_its_file_and_its_output_comes_back(weft: Weft, look: Weft, family: Family) -> None:
    directory = family(PARENT, CHILD)
    done = weft("run", "parent.yaml", "--input", "who=ada", "--json")
    assert done.code == 0, done.err
    output = done.lines[-1]["output"]
    assert output["said"] == "hello ada"
    assert (directory / "journal").read_text().split() == ["parent", "a", "b"]
    assert (directory / "sub" / "here").read_text().strip() == str(directory / "sub")
    shown = look("show", "last")
    assert output["by"] in shown.out
    child = look("show", output["by"])
    assert f"by sub of run {look('ls', '--json').json['runs'][0]['id']}" in child.out
    assert [run["name"] for run in look("ls", "--json").json["runs"]] == ["parent"]
    everything = look("ls", "--all", "--json").json["runs"]
    assert [(run["name"], run["parent"] is None) for run in everything] == [("child", False), ("parent", True)]
    assert look("verify", "last").code == 0
    assert look("logs", output["by"], "a").code == 0
    assert output["by"] in look("logs", "last", "sub").err
    assert look("prune", "--older", "0s", "--json").json["removed"] == [run["id"] for run in everything]


def test_a_name_means_the_version_that_was_there(weft: Weft, look: Weft, family: Family) -> None:
    """Its file is known from its run, and so is its directory, from wherever the name is used."""
    directory = family(PARENT.replace("./sub/child.yaml", "child"), CHILD)
    refused = weft("submit", "parent.yaml")
    assert refused.code == 2
    assert "sub runs the workflow 'child', which the store does not know" in refused.err
    assert look("ls", "--json").json["runs"] == []
    assert weft("run", "sub/child.yaml", "--input", "who=one").code == 0
    run = weft("submit", "parent.yaml").out.strip()
    (directory / "sub" / "child.yaml").write_text(CHILD.replace("hello", "bye"))
    assert weft("run", "sub/child.yaml", "--input", "who=two").code == 0
    assert weft("resume", run).code == 0
    assert look("show", run, "--json").json["output"]["said"] == "hello you"
    assert (directory / "journal").read_text().split()[-3:] == ["parent", "a", "b"]
    again = weft("rerun", run, "--json").lines[-1]
    assert again["output"]["said"] == "hello you"
    assert weft("run", "parent.yaml", "--json").lines[-1]["output"]["said"] == "bye you"
    (directory / "near.yaml").write_text("tasks: {a: {workflow: chidl}}")
    assert "did you mean 'child'?" in weft("run", "near.yaml").err
    (directory / "inputs.yaml").write_text("tasks: {a: {workflow: child, with: {whom: x}}}")
    wrong = weft("run", "inputs.yaml")
    assert wrong.code == 2
    assert "no input 'whom'" in wrong.err
    assert "'who' (string) is missing" in wrong.err


def test_names_that_run_each_other_are_refused_with_their_path(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: a\ntasks: {x: 'true'}")
    (tmp_path / "b.yaml").write_text("name: b\ntasks: {x: {workflow: a}}")
    assert weft("run", "a.yaml").code == 0
    assert weft("run", "b.yaml").code == 0
    (tmp_path / "a.yaml").write_text("name: a\ntasks: {x: {workflow: b}}")
    refused = weft("run", "a.yaml")
    assert refused.code == 2
    assert "these workflows run each other: a -> b -> a" in refused.err


def test_a_failure_leads_to_the_child_and_resume_goes_on_there(weft: Weft, look: Weft, family: Family) -> None:
    directory = family(PARENT, CHILD.replace("echo b >> ../journal", "test -e ../open && echo b >> ../journal"))
    failed = weft("run", "parent.yaml")
    assert failed.code == 1
    child = look("ls", "--all", "--json").json["runs"][0]["id"]
    assert f"weft show {child}" in failed.err
    assert f"run {child} failed: b: exit code 1" in failed.err
    refused = weft("resume", child)
    assert refused.code == 2
    assert "was started by a task of another run" in refused.err
    (directory / "open").touch()
    assert weft("resume", "last").code == 0
    assert (directory / "journal").read_text().split() == ["parent", "a", "b"]
    assert look("verify", "last").code == 0


def test_kill_9_in_the_middle_and_resume(weft: Weft, look: Weft, family: Family, start: Start) -> None:
    directory = family(PARENT, HOLDS)
    (directory / "parent.yaml").write_text(
        "tasks: {sub: {workflow: ./sub/child.yaml}, after: {needs: [sub], run: 'true'}}"
    )
    process = start("run", "parent.yaml")
    wait_for(lambda: pids(directory))
    assert "as run" in look("why", "last", "sub").out
    assert "weft why" in look("why", "last", "sub").out
    process.kill()
    process.wait()
    wait_for(lambda: not running(directory))
    (directory / "open").touch()
    assert weft("resume", "last").code == 0
    assert (directory / "journal").read_text().split() == ["ok"]
    assert look("verify", "last").code == 0
    assert len(look("ls", "--all", "--json").json["runs"]) == 2


def test_control_c_hands_the_child_back(weft: Weft, look: Weft, family: Family, start: Start) -> None:
    directory = family("tasks: {sub: {workflow: ./sub/child.yaml}}", STUBBORN)
    process = start("run", "parent.yaml")
    wait_for(lambda: pids(directory))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert running(directory) == []
    child = look("ls", "--all", "--json").json["runs"][0]["id"]
    states = {t["name"]: t["state"] for t in look("tasks", child, "--json").json["tasks"]}
    assert states == {"holds": "queued", "next": "pending"}
    assert look("verify", "last").code == 0


@pytest.mark.parametrize("what", [["last"], ["last", "sub"]], ids=["the run", "the task"])
def test_cancel_leaves_nothing_running(weft: Weft, look: Weft, family: Family, start: Start, what: list[str]) -> None:
    directory = family("tasks: {sub: {workflow: ./sub/child.yaml}, after: {needs: [sub], run: 'true'}}", STUBBORN)
    process = start("run", "parent.yaml")
    wait_for(lambda: pids(directory))
    cancelled = weft("cancel", *what, "--json")
    assert cancelled.json["state"] == "cancelled"
    assert running(directory) == []
    assert process.wait(20) == 1
    assert {run["state"] for run in look("ls", "--all", "--json").json["runs"]} == {"cancelled"}
    assert look("verify", "last").code == 0


def test_cancel_without_any_node_ends_the_whole_family(weft: Weft, look: Weft, family: Family, start: Start) -> None:
    directory = family("tasks: {sub: {workflow: ./sub/child.yaml}}", STUBBORN)
    process = start("run", "parent.yaml")
    wait_for(lambda: pids(directory))
    process.kill()
    process.wait()
    assert weft("cancel", "last", "--json").json["state"] == "cancelled"
    assert {run["state"] for run in look("ls", "--all", "--json").json["runs"]} == {"cancelled"}
    assert look("verify", "last").code == 0


def test_a_signal_that_a_child_waits_for_is_asked_for(weft: Weft, family: Family, start: Start) -> None:
    directory = family("tasks: {sub: {workflow: ./sub/child.yaml}}", "tasks: {approve: {wait: {signal: go}}}")
    process = start("run", "parent.yaml")
    assert process.stderr is not None
    line = next(line for line in process.stderr if "weft signal" in line)
    assert "sub/approve waits for the signal go" in line
    assert weft(*line.partition("weft ")[2].split()[:3], cwd=directory).code == 0
    assert process.wait(20) == 0


def test_the_example(weft: Weft) -> None:
    done = weft("run", str(ROOT / "examples" / "nested.yaml"), "--input", "version=2.1", "--json")
    assert done.code == 0, done.err
    assert done.lines[-1]["output"] == [f"{where}.example.org/2.1" for where in ("north", "south", "west")]


def test_validate_runs_no_code_of_a_file(weft: Weft, tmp_path: Path) -> None:
    """Not even that of flows in the files that its tasks run."""
    (tmp_path / "loud.py").write_text("open('ran', 'w')\n")
    (tmp_path / "inner.yaml").write_text("tasks: {a: {workflow: 'loud:flow'}}")
    (tmp_path / "outer.yaml").write_text("tasks: {a: {workflow: inner.yaml}, b: {workflow: 'loud.py:flow'}}")
    done = weft("validate", "outer.yaml")
    assert done.out == "outer.yaml: ok, 2 tasks in 1 level; not checked without --import: loud:flow, loud.py:flow\n"
    assert weft("validate", "outer.yaml", "--json").json["files"][0]["not_imported"] == ["loud:flow", "loud.py:flow"]
    assert not (tmp_path / "ran").exists()
    done = weft("validate", "--import", "outer.yaml")
    assert (done.code, (tmp_path / "ran").exists()) == (2, True)
    assert "no flow 'flow'" in done.err
