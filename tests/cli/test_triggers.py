"""apply, triggers, workflows and `worker --dir`, as people type them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Weft, wait_for

CLOCK = """\
name: clock
inputs: {at: string}
triggers:
  - {name: nightly, cron: "0 2 * * *", timezone: Europe/Berlin, inputs: {at: "${{ trigger.time }}"}}
  - {name: tick, every: 1s, inputs: {at: "${{ trigger.time }}"}}
tasks: {a: "echo ${{ inputs.at }}"}
"""


def put(directory: Path, name: str, text: str) -> None:
    (directory / name).write_text(text)


def test_apply_and_look(look: Weft, tmp_path: Path) -> None:
    put(tmp_path, "clock.yaml", CLOCK)
    first = look("apply", "clock.yaml")
    assert first.code == 0
    assert "clock" in first.out
    assert "added: nightly, tick" in first.out
    assert "weft worker" in first.err
    again = look("apply", "clock.yaml", "--json").json["applied"][0]
    assert (again["existing"], again["added"]) == (True, [])
    listed = look("triggers", "--json").json["triggers"]
    assert [(one["id"], one["paused"]) for one in listed] == [("clock/nightly", False), ("clock/tick", False)]
    assert "Europe/Berlin" in look("triggers").out
    times = look("triggers", "next", "nightly", "-n", "3", "--json").json["next"]
    assert len(times) == 3
    assert all("T02:00:00+0" in one["time"] for one in times)
    assert look("triggers", "next", "nightly").out.count("T02:00:00") == 5


def test_pause_resume_and_fire(look: Weft, tmp_path: Path) -> None:
    put(tmp_path, "clock.yaml", CLOCK)
    look("apply", "clock.yaml")
    assert look("triggers", "pause", "tick").out == "clock/tick is paused\n"
    assert "already" in look("triggers", "pause", "clock/tick").out
    put(tmp_path, "clock.yaml", CLOCK.replace("echo", "echo the time is"))
    look("apply", "clock.yaml")
    assert [one["paused"] for one in look("triggers", "--json").json["triggers"]] == [False, True], "pauses survive"
    fired = look("triggers", "fire", "tick", "--json").json
    assert fired["outcome"] == "started"
    assert look("show", fired["run"], "--json").json["run"]["name"] == "clock"
    skipped = look("triggers", "fire", "tick")
    assert f"skipped, run {fired['run']} of it has not ended" in skipped.out
    shown = look("triggers", "show", "tick")
    assert "started" in shown.out
    assert "skipped" in shown.out
    assert "goes on from now" in look("triggers", "resume", "tick").out


def test_what_is_wrong_is_said(look: Weft, tmp_path: Path) -> None:
    put(tmp_path, "bad.yaml", "tasks: {a: 'true'}\ntriggers: [{cron: nonsense}]\n")
    bad = look("apply", "bad.yaml")
    assert bad.code == 2
    assert "bad.yaml:2:19" in bad.err
    put(tmp_path, "clock.yaml", CLOCK)
    assert look("apply", "clock.yaml", "bad.yaml").code == 2
    assert look("triggers").code == 3, "nothing was stored"
    look("apply", "clock.yaml")
    assert look("triggers", "pause", "clock/tik").code == 3
    assert "clock/tick" in look("triggers", "pause", "clock/tik").err
    assert "could be any of" in look("triggers", "pause", "clock").err
    assert look("triggers", "pause").code == 2
    assert look("triggers", "fire", "tick", "--body", "{").code == 2
    assert look("triggers", "list", "--body", "1").code == 2
    put(tmp_path, "other.yaml", CLOCK)
    assert "both define the workflow clock" in look("apply", "clock.yaml", "other.yaml").err
    (tmp_path / "empty").mkdir()
    assert "no definitions" in look("apply", "empty").err


def test_run_activates_nothing(weft: Weft, look: Weft, tmp_path: Path) -> None:
    put(tmp_path, "clock.yaml", CLOCK)
    assert weft("run", "clock.yaml", "-i", "at=now").code == 0
    assert look("triggers", "--json").json["triggers"] == []
    assert look("workflows", "--json").json["current"] == {}


def test_versions_and_how_they_differ(look: Weft, tmp_path: Path) -> None:
    put(tmp_path, "w.yaml", "name: w\ntasks: {a: echo one}\n")
    look("apply", "w.yaml")
    assert look("workflows", "w", "--diff").code == 3
    put(tmp_path, "w.yaml", "name: w\ntasks: {a: echo two}\n")
    look("apply", "w.yaml")
    found = look("workflows", "w", "--json").json
    assert len(found["versions"]) == 2
    assert found["current"] in [one["hash"] for one in found["versions"]]
    diff = look("workflows", "w", "--diff", "--json").json
    assert "-    run: echo one" in diff["lines"]
    assert "+    run: echo two" in diff["lines"]
    turned = look("workflows", "w", "--diff", diff["new"][:8], diff["old"][:8]).out
    assert "+    run: echo one" in turned
    assert look("workflows", "w", "--diff", "zz").code == 3
    assert look("workflows", "nobody").code == 3
    assert "w" in look("workflows").out


def test_a_worker_keeps_a_directory_applied(
    look: Weft, start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    (tmp_path / "flows").mkdir()
    put(tmp_path / "flows", "clock.yaml", CLOCK)
    put(tmp_path / "flows", "bad.yaml", "tasks: {}\n")
    put(tmp_path / "flows", "notes.txt", "no definition")
    look("apply", "flows/clock.yaml")  # so that there is a store to look at
    start("worker", "--dir", "flows")

    def fired() -> list[dict[str, object]]:
        found: list[dict[str, object]] = look("triggers", "show", "tick", "--json").json["fires"]
        return [one for one in found if one["outcome"] == "started"]

    wait_for(lambda: len(fired()) >= 2)
    put(tmp_path / "flows", "clock.yaml", CLOCK.replace("name: tick", "name: tock"))
    wait_for(lambda: [one["name"] for one in look("triggers", "--json").json["triggers"]] == ["nightly", "tock"])
    put(tmp_path / "flows", "bad.yaml", "name: good\ntasks: {a: 'true'}\n")
    wait_for(lambda: "good" in [one["name"] for one in look("workflows", "--json").json["workflows"]])
    run = json.loads(look("ls", "--json").out)["runs"][0]
    assert run["source"] == str(tmp_path / "flows")
