"""Maps, waits, context and run output with real commands, through `weft run`, `weft signal` and `weft show`."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Weft, wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"
Start = Callable[..., "subprocess.Popen[str]"]

MAP = """\
name: fan
inputs: {n: {type: integer, default: 7}, bad: {type: array, default: []}}
output: {all: "${{ tasks.double.output }}", length: "${{ tasks.gather.stdout.trim() }}"}
tasks:
  list: |
    seq 1 ${{ inputs.n }} | sed 's/.*/"it'"'"'s &"/' | paste -sd, | sed 's/^/[/; s/$/]/' > "$WEFT_OUTPUT"
  double:
    map: ${{ tasks.list.output }}
    run: |
      case '${{ inputs.bad }}' in *"[$WEFT_INDEX]"*) exit 3;; esac
      printf '{"item": "%s", "index": %s}' "${{ item }}" ${{ index }} > "$WEFT_OUTPUT"
  gather: echo ${{ tasks.double.output.length }}
"""


def write(directory: Path, text: str) -> str:
    (directory / "w.yaml").write_text(text)
    return "w.yaml"


def summary(weft: Weft, *words: str) -> dict[str, Any]:
    done = weft("run", "--json", *words)
    last: dict[str, Any] = done.lines[-1]
    assert last["type"] == "summary", done.err
    return last


@pytest.mark.parametrize("n", [0, 1, 7])
def test_one_to_many_to_one(weft: Weft, look: Weft, tmp_path: Path, n: int) -> None:
    got = summary(weft, write(tmp_path, MAP), "-i", f"n={n}")
    expected = [{"item": f"it's {at + 1}", "index": at} for at in range(n)]
    assert got["output"] == {"all": expected, "length": str(n)}
    assert (got["state"], got["total"]) == ("succeeded", n + 2)
    assert look("verify", "last").code == 0


def test_tolerated_failures_leave_null(weft: Weft, tmp_path: Path) -> None:
    text = MAP.replace("    map:", "    tolerate: 30%\n    map:")
    got = summary(weft, write(tmp_path, text), "-i", "bad=[[1],[4]]")
    assert got["state"] == "succeeded"
    assert [None if e is None else e["index"] for e in got["output"]["all"]] == [0, None, 2, 3, None, 5, 6]


def test_beyond_what_is_tolerated_the_rest_is_cancelled(weft: Weft, look: Weft, tmp_path: Path) -> None:
    text = MAP.replace("    map:", "    tolerate: 1\n    max_parallel: 1\n    map:")
    got = summary(weft, write(tmp_path, text), "-i", "bad=[[0],[2]]")
    assert (got["state"], got["failed"], got["succeeded"], got["cancelled"]) == ("failed", 2, 2, 5)
    assert (got["output"], got["output_error"]) == (None, None)
    states = {task["name"]: task["state"] for task in look("show", "last", "--json").json["tasks"]}
    assert states == {
        "list": "succeeded", "double": "failed", "gather": "cancelled", "double.0": "failed", "double.1": "succeeded",
        "double.2": "failed", **{f"double.{index}": "cancelled" for index in range(3, 7)},
    }  # fmt: skip


def test_elements_of_a_matrix_are_shown_with_their_values(weft: Weft, look: Weft, tmp_path: Path) -> None:
    text = """
inputs: {python: {type: array, default: ["3.12", "3.13"]}}
output: ${{ tasks.test.output }}
tasks:
  test:
    matrix: {os: [linux, mac], python: "${{ inputs.python }}", exclude: [{os: mac, python: "3.12"}]}
    run: |
      echo "here $WEFT_INDEX"
      printf '"%s %s"' ${{ item.os }} ${{ item.python }} > "$WEFT_OUTPUT"
  each: {map: "${{ tasks.test.output }}", label: "after ${{ item }}", run: "true"}
"""
    done = weft("run", write(tmp_path, text))
    assert "test.1 (os=linux, python=3.13)  succeeded" in done.err
    shown = look("show", "last", "--json").json
    assert shown["output"] == ["linux 3.12", "linux 3.13", "mac 3.13"]
    assert {task["name"]: task["label"] for task in shown["tasks"]} == {
        "test": None, "test.0": "os=linux, python=3.12", "test.1": "os=linux, python=3.13",
        "test.2": "os=mac, python=3.13", "each": None, "each.0": "after linux 3.12", "each.1": "after linux 3.13",
        "each.2": "after mac 3.13",
    }  # fmt: skip
    for words in (
        ("show", "last"),
        ("tasks", "last"),
        ("logs", "last"),
        ("events", "last"),
        ("show", "last", "test.2"),
    ):
        assert "test.2 (os=mac, python=3.13)" in look(*words).out, words
    labels = [event.get("label") for event in look("events", "last", "--json").lines if event["task"] == "test.2"]
    assert labels == ["os=mac, python=3.13"] * 2
    assert look("verify", "last").code == 0


def test_a_label_without_a_value_fails_the_map(weft: Weft, look: Weft, tmp_path: Path) -> None:
    text = """
inputs: {cities: {type: array, default: [{city: Bern}, {}]}}
tasks:
  m: {map: "${{ inputs.cities }}", label: "${{ item.city }}", run: "true"}
"""
    assert summary(weft, write(tmp_path, text))["state"] == "failed"
    assert look("show", "last", "m", "--json").json["task"]["reason"].startswith("label: the result is undefined")


def test_batches_are_arrays_and_argv_takes_them(weft: Weft, tmp_path: Path) -> None:
    text = """
output: ${{ tasks.m.output }}
tasks:
  m:
    map: [1, "a b", {k: "${{ run.name }}"}, null, 5]
    batch: 2
    argv: [sh, -c, 'printf %s "$1" > "$WEFT_OUTPUT"', sh, "${{ item }}"]
"""
    assert summary(weft, write(tmp_path, text))["output"] == [[1, "a b"], [{"k": "w"}, None], [5]]


def test_no_more_than_max_parallel_run_at_a_time(weft: Weft, tmp_path: Path) -> None:
    """Each element counts who is there with it; three may be, and a fourth never."""
    text = """
output: ${{ tasks.m.output }}
tasks:
  m:
    map: [0, 1, 2, 3, 4, 5, 6, 7]
    max_parallel: 3
    run: |
      mkdir -p here; touch here/$WEFT_INDEX; ls here | wc -l > "$WEFT_OUTPUT"; sleep 0.05; rm here/$WEFT_INDEX
"""
    counts = summary(weft, write(tmp_path, text), "--slots", "8")["output"]
    assert max(counts) <= 3
    assert max(counts) > 1


def test_a_map_over_no_array_fails_with_the_reason(weft: Weft, tmp_path: Path) -> None:
    done = weft(
        "run", write(tmp_path, "tasks: {a: 'echo x=1 > \"$WEFT_OUTPUT\"', m: {map: '${{ tasks.a.output }}', run: x}}")
    )
    assert done.code == 1
    assert "map: an array is needed, this is an object" in done.err


WAIT = """\
name: release
output: ${{ tasks.ship.stdout.trim() }}
tasks:
  build: echo built
  approve: {needs: [build], wait: {signal: approve}}
  meanwhile: {needs: [build], run: "sleep 0.1; touch meanwhile"}
  ship: echo shipped by ${{ tasks.approve.output.by }}
"""


def test_a_run_held_by_a_wait_says_how_to_signal(weft: Weft, look: Weft, start: Start, tmp_path: Path) -> None:
    process = start("run", write(tmp_path, WAIT), "--slots", "1")
    assert process.stderr is not None
    asked = ""
    while "waits for the signal approve: " not in asked:
        asked = process.stderr.readline()
        assert asked, "the run ended before it had asked"
    assert (tmp_path / "meanwhile").exists()  # the wait held no slot
    run_id = re.search(r"weft signal (\w+) approve", asked)
    assert run_id is not None
    shown = look("show", "last").out
    assert f"for approve: weft signal {run_id[1]} approve [--data JSON | --reject REASON]" in shown
    assert look("signal", "last", "approve", "--data", '{"by": "ada"}').code == 0
    assert process.wait(20) == 0
    assert 'output: "shipped by ada"' in process.stderr.read()
    assert look("show", "last", "--json").json["output"] == "shipped by ada"
    assert 'output   "shipped by ada"' in look("show", "last").out
    again = look("signal", "last", "approve", "--data", '{ "by":"ada" }')
    assert (again.code, again.out) == (0, f"signal approve of run {run_id[1]} was sent already\n")
    assert look("signal", "last", "approve", "--data", "1").code == 2


def test_a_signal_sent_before_anything_runs_is_kept(weft: Weft, look: Weft, tmp_path: Path) -> None:
    run_id = look("submit", write(tmp_path, WAIT)).out.strip()
    sent = look("signal", run_id, "approve", "--data", '{"by": "bob"}')
    assert "it is kept until its wait is reached" in sent.out
    done = weft("resume", run_id)
    assert done.code == 0
    assert 'output: "shipped by bob"' in done.err


def test_the_name_of_the_task_does_as_well(look: Weft, tmp_path: Path) -> None:
    text = "tasks: {hold: {wait: {signal: go}}, go: {wait: {signal: other}}}"
    look("submit", write(tmp_path, text))
    for name, signal in (("hold", "go"), ("go", "go"), ("other", "other")):
        assert look("signal", "last", name).code == 0
        sent = [
            line["data"]["signal"] for line in look("events", "last", "--json").lines if line["kind"] == "signalled"
        ]
        assert sent[-1] == signal
    assert look("show", "last", "--json").json["run"]["state"] == "succeeded"


def test_rejected(weft: Weft, look: Weft, tmp_path: Path) -> None:
    look("submit", write(tmp_path, WAIT))
    assert look("signal", "last", "approve", "--reject", "not on Fridays", "--json").json["already"] is False
    done = weft("resume", "last")
    assert done.code == 1
    assert "approve  failed  rejected: not on Fridays" in done.err
    shown = look("show", "last", "--json").json
    assert {task["name"]: task["state"] for task in shown["tasks"]}["ship"] == "cancelled"


@pytest.mark.parametrize(("words", "code", "said"), [
    (["nope"], 3, "knows no signal 'nope'; it waits for approve"),
    (["approve", "--data", "ada"], 2, """--data '"ada"'"""),
    (["approve", "--data", "NaN"], 2, "not JSON"),
    (["approve", "--data", "1", "--reject", "x"], 2, "exclude each other"),
])  # fmt: skip
def test_bad_signals(look: Weft, tmp_path: Path, words: list[str], code: int, said: str) -> None:
    look("submit", write(tmp_path, WAIT))
    done = look("signal", "last", *words)
    assert done.code == code
    assert said in done.err
    assert "signalled" not in look("events", "last").out


def test_times_and_timeouts(weft: Weft, tmp_path: Path) -> None:
    text = """
output: "${{ [tasks.given.output, tasks.late.state] }}"
on_failure: continue
tasks:
  short: {wait: {for: 50ms}}
  until: {wait: {until: "2020-01-01T00:00:00Z"}, needs: [short]}
  given: {wait: {signal: a, timeout: 100ms, default: {by: nobody}}, needs: [until]}
  late: {wait: {signal: b, timeout: 100ms}, needs: [until], allow_failure: true}
"""
    got = summary(weft, write(tmp_path, text))
    assert (got["state"], got["output"]) == ("succeeded", [{"by": "nobody"}, "failed"])
    assert got["took_ms"] < 5_000


def test_cancelled_while_it_waits(look: Weft, start: Start, tmp_path: Path) -> None:
    process = start("run", write(tmp_path, WAIT))
    wait_for(lambda: look("tasks", "--state", "waiting").out)
    assert look("cancel", "last").code == 0
    assert process.wait(20) == 1


def test_context_from_first_to_last(weft: Weft, look: Weft, tmp_path: Path) -> None:
    text = """
name: shared
context: {who: ada, n: 1}
env: {WHO: "${{ context.who }}"}
tasks:
  set: echo '{"n":2,"list":[1,2]}' > "$WEFT_CONTEXT"
  read:
    needs: [set]
    if: context.n === 2
    run: test "$WHO" = ada; echo "got=${{ workflow.context.list }} $WHO" > "$WEFT_CONTEXT"
"""
    assert weft("run", write(tmp_path, text)).code == 0
    expected = {"who": "ada", "n": 2, "list": [1, 2], "got": "[1,2] ada"}
    assert look("show", "last", "--json").json["context"] == expected
    assert 'context  got="[1,2] ada", list=[1, 2], n=2, who="ada"' in look("show", "last").out


def test_conflicting_writers_are_seen_and_the_last_name_wins(weft: Weft, look: Weft, tmp_path: Path) -> None:
    text = "tasks: {b: 'echo k=b > \"$WEFT_CONTEXT\"', a: 'sleep 0.2; echo k=a > \"$WEFT_CONTEXT\"'}"
    assert weft("run", write(tmp_path, text)).code == 0
    assert look("show", "last", "--json").json["context"] == {"k": "b"}
    conflicts = [line for line in look("events", "last", "--json").lines if line["kind"] == "context_conflict"]
    assert [line["data"] for line in conflicts] == [{"key": "k", "writers": ["a", "b"]}]


def test_an_output_that_has_no_value_is_told(weft: Weft, tmp_path: Path) -> None:
    done = weft("run", write(tmp_path, "{output: '${{ tasks.a.output.x }}', tasks: {a: echo}}"))
    assert done.code == 0
    assert "it has no output: output: " in done.err
    assert "it has no output" not in weft("run", write(tmp_path, "tasks: {a: echo}")).err


def test_maps_and_waits_in_graphs(look: Weft, tmp_path: Path) -> None:
    text = MAP + "  ok: {wait: {signal: ok}}\n  lit: {map: [1, 2, 3], batch: 2, run: x}\n"
    name = write(tmp_path, text)
    drawn = look("graph", name).out
    assert re.search(r"double ×\?$", drawn, re.M)
    assert re.search(r"lit ×2$", drawn, re.M)
    assert "ok  (waits for ok)" in drawn
    assert '"double ×?"' in look("graph", name, "--format", "mermaid").out
    assert '[label="double ×?"]' in look("graph", name, "--format", "dot").out
    nodes = {node["name"]: node for node in json.loads(look("graph", name, "--json").out)["graph"]}
    assert (nodes["double"]["mapped"], nodes["list"]["mapped"]) == (True, False)
    assert (nodes["ok"]["kind"], nodes["ok"]["wait"]) == ("wait", {"signal": "ok"})


def test_the_examples(weft: Weft, look: Weft) -> None:
    assert summary(weft, str(EXAMPLES / "words.yaml"))["output"] == {"counts": [6, 5, 0, 6], "texts": 4}
    for words, code, said in (
        (["--data", '{"by": "ada"}'], 0, '"1.2.0 published, approved by ada"'),
        (["--reject", "not yet"], 1, "withdraw  succeeded"),
    ):
        look("submit", str(EXAMPLES / "approval.yaml"))
        assert look("signal", "last", "approve", *words).code == 0
        done = weft("resume", "last")
        assert (done.code, said in done.err) == (code, True), done.err
