"""The long form as people bring it: lint and test, build, deploy on success, notify on failure."""

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Weft

BUILD = Path(__file__).parents[2] / "examples" / "build-and-deploy.json"


def ends(weft: Weft, look: Weft, directory: Path, commands: dict[str, str], on_failure: str) -> dict[str, Any]:
    """Runs the example with other commands for some of its tasks; the tasks as they ended."""
    definition = json.loads(BUILD.read_text())
    definition["on_failure"] = on_failure
    for task in definition["tasks"]:
        if task["key"] in commands:
            task["spec"]["command"] = commands[task["key"]]
    (directory / "w.json").write_text(json.dumps(definition))
    code = weft("run", "w.json").code
    shown = look("show", "last", "--json").json
    assert code == (0 if shown["run"]["state"] == "succeeded" else 1)
    assert look("verify", "last").code == 0
    return {task["name"]: task for task in shown["tasks"]}


@pytest.mark.parametrize("on_failure", ["halt", "continue"])
@pytest.mark.parametrize(("commands", "expected"), [
    ({}, {"build": "succeeded", "deploy": "succeeded", "notify-failure": "skipped"}),
    ({"test": "echo '12 passed, 3 failures'"},
     {"build": "succeeded", "deploy": "skipped", "notify-failure": "skipped"}),
    ({"build": "exit 2"}, {"build": "failed", "deploy": "skipped", "notify-failure": "succeeded"}),
    ({"lint": "exit 1"}, {"lint": "failed", "notify-failure": "succeeded"}),
    ({"test": "echo '3 failures'; exit 1"}, {"test": "failed", "notify-failure": "succeeded"}),
], ids=["all good", "tests say no", "build fails", "lint fails", "test fails"])  # fmt: skip
def test_build_and_deploy(
    weft: Weft, look: Weft, tmp_path: Path, commands: dict[str, str], expected: dict[str, str], on_failure: str
) -> None:
    tasks = ends(weft, look, tmp_path, commands, on_failure)
    assert {name: tasks[name]["state"] for name in expected} == expected
    if "lint" in commands:
        assert tasks["build"]["state"] == ("skipped" if on_failure == "continue" else "cancelled")
        assert tasks["deploy"]["state"] == "skipped"
