"""The commands that look: readable for people, JSON for machines, exit code 3 for what is not there."""

import re
import subprocess
from pathlib import Path

import pytest

from .conftest import Weft

LOOKING = [
    ["ls"], ["ls", "--state", "failed"], ["tasks"], ["tasks", "last", "--state", "succeeded,failed"],
    ["show", "last"], ["graph", "branches.yaml"],
    ["show", "last", "bad"], ["show", "last", "many"], ["show", "last", "many.1"], ["why", "last"],
    ["why", "last", "after_bad"], ["verify", "last"], ["nodes"], ["nodes", "--ended"], ["dead", "list"],
    ["dead", "list", "last"], ["store", "info"], ["validate", "chain.yaml", "branches.yaml"],
    ["schema"], ["version"],
]  # fmt: skip
STREAMS = [["events", "last"], ["logs", "last"], ["logs", "last", "bad"], ["logs", "last", "many"]]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_one_json_value(call: Weft, words: list[str]) -> None:
    done = call(*words, "--json")
    assert done.code == 0, done.err
    assert isinstance(done.json, dict)
    plain = call(*words)
    assert plain.code == 0
    assert plain.out + plain.err
    assert "\x1b" not in plain.out


@pytest.mark.parametrize("words", STREAMS, ids=" ".join)
def test_one_json_value_per_line(call: Weft, words: list[str]) -> None:
    done = call(*words, "--json")
    assert done.code == 0
    assert done.lines
    assert call(*words).code == 0


@pytest.mark.parametrize(
    "words",
    [["show", "nope"], ["show", "last", "nope"], ["show", "last", "many.9"], ["tasks", "nope"], ["logs", "nope"],
     ["logs", "last", "nope"], ["logs", "last", "bad", "--attempt", "7"], ["logs", "last", "bad", "--attempt", "0"],
     ["events", "nope"], ["why", "nope"], ["why", "last", "nope"], ["verify", "nope"], ["cancel", "nope"],
     ["cancel", "last", "nope"], ["resume", "nope"], ["rerun", "nope"], ["dead", "retry", "nope"],
     ["show", "../../etc"], ["show", ""], ["show", "LAST"]],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("json", [False, True])
def test_what_is_not_there(call: Weft, words: list[str], json: bool) -> None:
    done = call(*words, *(["--json"] if json else []))
    assert done.code == 3, done
    assert done.err.startswith("weft: ")
    if json:
        assert done.json["error"]["code"] == 3


def test_runs_are_paged_newest_first(call: Weft) -> None:
    first = call("ls", "--limit", "1", "--json").json
    second = call("ls", "--limit", "1", "--before", str(first["before"]), "--json").json
    assert [first["runs"][0]["name"], second["runs"][0]["name"]] == ["branches", "chain"]
    assert call("ls", "--name", "chain", "--json").json["runs"] == second["runs"]
    assert "--before" in call("ls", "--limit", "1").err


def test_tasks_are_paged_without_gap_or_repetition(call: Weft) -> None:
    names: list[str] = []
    after: int | None = 0
    while after is not None:
        page = call("tasks", "last", "--limit", "2", "--after", str(after), "--json").json
        names += [task["name"] for task in page["tasks"]]
        after = page["after"]
    assert sorted(names) == ["after_bad", "bad", "first", "good", "many", "many.0", "many.1", "many.2", "poor"]


def test_a_prefix_is_enough_and_an_ambiguous_one_is_named(call: Weft) -> None:
    full = call("ls", "--json").json["runs"][0]["id"]
    assert call("show", full[:6], "--json").json["run"]["id"] == full


def test_show_has_levels_states_tries_and_the_critical_path(call: Weft) -> None:
    text = call("show", "last").out
    assert "✗ branches  failed" in text
    assert re.search(r"✗ poor +dead letter +\S+ \S+ +2 ", text)
    assert re.search(r"\n2 +· after_bad +skipped|\n3 +· after_bad +skipped", text)
    assert "critical path" in text
    shown = call("show", "last", "--json").json
    by_name = {task["name"]: task for task in shown["tasks"]}
    assert (by_name["first"]["level"], by_name["good"]["level"], by_name["after_bad"]["level"]) == (0, 1, 2)
    assert all(by_name[name]["slack_ms"] == 0 for name in shown["critical_path"]["tasks"])
    assert [name for name, task in by_name.items() if task["critical"]] == shown["critical_path"]["tasks"]


def test_show_task_tells_each_attempt(call: Weft) -> None:
    text = call("show", "last", "poor").out
    assert "attempt 1  failed" in text
    assert "attempt 2  failed" in text
    assert "it broke" in call("show", "last", "bad").out


def test_logs_are_the_streams_themselves(call: Weft) -> None:
    done = call("logs", "last", "bad")
    assert (done.out, done.err) == ("some context\n", "it broke\n")
    assert call("logs", "last", "bad", "--stream", "stderr").out == ""
    everything = call("logs", "last").out.splitlines()
    assert "many.1    │ element 1" in everything
    assert "bad       │ some context" in everything
    assert "has not run" in call("logs", "last", "after_bad").err


def test_events_go_on_after_a_number(call: Weft) -> None:
    events = call("events", "last", "--json").lines
    rest = call("events", "last", "--json", "--after", str(events[2]["seq"])).lines
    assert rest == events[3:]
    assert len(call("events", "last", "--json", "--limit", "2").lines) == 2
    assert call("events", "last", "--follow", "--json").lines == events  # it has ended: nothing to wait for


def test_looking_makes_no_store(look: Weft, tmp_path: Path) -> None:
    for words in (["ls"], ["show", "last"], ["events", "x", "-f"], ["cancel", "x"], ["store", "info"], ["nodes"]):
        done = look(*words)
        assert done.code == 3
        assert "no store" in done.err
    assert not (tmp_path / ".weft").exists()


def test_the_store_is_found_upward(look: Weft, history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = str(history / ".weft" / "weft.db")
    there = look("ls", "--json", "--store", str(history / ".weft")).json
    assert there["runs"]
    assert there == look("--store", store, "ls", "--json").json
    below = history / "deep" / "down"
    below.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(below)
    assert there == look("ls", "--json").json
    monkeypatch.chdir("/")
    monkeypatch.setenv("WEFT_STORE", store)
    assert there == look("ls", "--json").json


def test_a_reader_that_has_seen_enough(history: Path) -> None:
    from .conftest import WEFT, environment

    script = f"set -o pipefail; {' '.join(WEFT)} events last | head -n 1"
    done = subprocess.run(["bash", "-c", script], cwd=history, env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_ls_finds_runs_by_label_input_time_and_text(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "inputs: {day: {default: monday}, n: {type: integer, default: 1}}\ntasks: {a: 'true'}\n"
    )
    first = weft("submit", "w.yaml", "--run-label", "team=blue", "-i", "day=friday").out.strip()
    second = weft("submit", "w.yaml", "--run-label", "team=red", "--run-label", "env=prod", "-i", "n=2").out.strip()

    def ids(*words: str) -> list[str]:
        return [run["id"] for run in weft("ls", "--json", *words).json["runs"]]

    assert ids() == [second, first]
    assert ids("--run-label", "team=blue") == [first]
    assert ids("--run-label", "team=red", "--run-label", "env=prod") == [second]
    assert ids("-i", "day=friday") == [first]
    assert ids("-i", "n=2") == [second]
    assert ids("--text", "FRIDAY") == [first]
    assert ids("--since", "1h") == [second, first]
    assert ids("--until", "1h") == []
    assert weft("ls", "--json", "--run-label", "env=prod").json["runs"][0]["labels"] == {"team": "red", "env": "prod"}
    assert "no runs like that" in weft("ls", "--text", "nothing").err
    assert weft("ls", "--trigger", "nightly").code == 3
    for wrong in (("--run-label", "team"), ("--run-label", "=x"), ("-i", "day"), ("--since", "soon"), ("--text", "")):
        assert weft("ls", *wrong).code == 2, wrong
    assert weft("submit", "w.yaml", "--run-label", "team").code == 2
