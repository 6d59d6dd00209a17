"""`workspace: run`: one directory per run, in which its tasks start, and for how long it is there."""

from pathlib import Path

import pytest

from weft.node.attempts.workspaces import WorkspaceError, Workspaces

from .conftest import Weft

FLOW = """\
workspace: run
inputs: {wanted: {type: string, default: here}}
tasks:
  write: test -z "$(ls)" && echo here > here && mkdir sub && echo "$WEFT_SOURCE" > sub/source
  plain: {needs: [write], python: "functions:plain"}
  later: {needs: [write], python: "functions:later"}
  read: {needs: [plain, later], cwd: sub, run: 'cat source ../plain; test "$(dirname "$PWD")" = "$WEFT_WORKSPACE"'}
  check: {needs: [read], run: "test -f ${{ inputs.wanted }}"}
"""
FUNCTIONS = """
import os
import weft

def plain():
    with open("plain", "w") as file:
        file.write("from a function")
    return os.getcwd()

async def later():
    return [os.getcwd(), weft.variables()["WEFT_WORKSPACE"]]
"""


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "flow.yaml").write_text(FLOW)
    return tmp_path


def test_tasks_share_it_and_it_goes_with_a_success(weft: Weft, flow: Path) -> None:
    ended = weft("run", "flow.yaml", "--json")
    assert ended.code == 0, ended.err + ended.out
    root = flow / ".weft" / "workspaces" / "weft.db"
    assert list(root.iterdir()) == []
    workspace = f"{root}/{weft('ls', '--json').json['runs'][0]['id']}"
    assert weft("show", "last", "plain", "--json").json["attempts"][-1]["result"]["output"] == workspace
    assert weft("show", "last", "later", "--json").json["attempts"][-1]["result"]["output"] == [str(flow), workspace]
    assert weft("logs", "last", "read").out.splitlines() == [str(flow), "from a function"]


def test_a_resume_finds_it_and_prune_removes_it(weft: Weft, flow: Path) -> None:
    assert weft("run", "flow.yaml", "-i", "wanted=more").code == 1
    (workspace,) = (flow / ".weft" / "workspaces" / "weft.db").iterdir()
    assert sorted(entry.name for entry in workspace.iterdir()) == ["here", "plain", "sub"]
    assert weft("resume", "last").code == 1
    (workspace / "more").touch()
    assert weft("resume", "last").code == 0
    assert not workspace.exists()
    assert weft("run", "flow.yaml", "-i", "wanted=more").code == 1
    (workspace,) = (flow / ".weft" / "workspaces" / "weft.db").iterdir()
    assert weft("prune", "--older", "0s").code == 0
    assert not workspace.exists()


def test_only_those_that_nobody_needs_go(tmp_path: Path) -> None:
    states = {"a": "running", "b": "succeeded", "c": "failed", "d": "cancelled", "e": "pending"}
    workspaces = Workspaces(
        tmp_path / "root", lambda ids: {run_id: states[run_id] for run_id in ids if run_id in states}
    )
    assert workspaces.remove_ended() == []
    for run_id in (*states, "gone"):
        workspaces.make(run_id)
        (tmp_path / "root" / run_id / "file").touch()
    (tmp_path / "root" / ".b-1234").mkdir()  # of a node that was killed while it removed one
    workspaces.make("a")
    assert workspaces.remove_ended() == ["b", "gone"]
    assert sorted(entry.name for entry in (tmp_path / "root").iterdir()) == ["a", "c", "d", "e"]
    assert (tmp_path / "root" / "a" / "file").exists()


def test_one_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "root").touch()
    with pytest.raises(WorkspaceError, match=r"its workspace .* cannot be made: Not a directory"):
        Workspaces(tmp_path / "root", lambda ids: {}).make("r")
