"""Values that are too large for a variable, and outputs that are too large for the store."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Weft

PIPELINE = """\
name: pipeline
output: "${{ tasks.make.output }}"
tasks:
  make: {python: "big:make", with: {count: 300000}}
  count: {python: "big:count", with: {values: "${{ tasks.make.output.values }}"}}
  file:
    with: {all: "${{ tasks.make.output }}", few: [1, "${{ tasks.make.output.values.length }}"]}
    run: |
      python3 -c 'import json, sys
      given = json.load(open(sys.argv[1]))
      print(len(given["all"]["values"]), given["few"])' "$WEFT_INPUT"
  small: echo ${{ tasks.make.output.name }} ${{ tasks.make.result.artifact.bytes }}
"""
FUNCTIONS = """\
def make(count):
    return {"name": "numbers", "values": list(range(count))}

def count(values):
    return len(values)
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "big.py").write_text(FUNCTIONS)
    return tmp_path


def artifacts(directory: Path) -> list[Path]:
    return sorted((directory / ".weft" / "artifacts").rglob("*.json"))


def test_a_large_output_goes_to_a_file_and_later_tasks_read_it(weft: Weft, pipeline: Path) -> None:
    result = weft("run", "p.yaml")
    assert result.code == 0, result
    (path,) = artifacts(pipeline)
    data = path.read_bytes()
    assert hashlib.sha256(data).hexdigest() == path.stem
    assert json.loads(data) == {"name": "numbers", "values": list(range(300000))}
    attempt = weft("show", "last", "make", "--json").json["attempts"][0]["result"]
    assert "output" not in attempt
    assert attempt["artifact"]["path"] == str(path)
    assert attempt["artifact"]["bytes"] == len(data)
    assert weft("show", "last", "count", "--json").json["attempts"][0]["result"]["output"] == 300000
    assert weft("logs", "last", "file").out == "300000 [1, 300000]\n"
    assert weft("logs", "last", "small").out == f"numbers {len(data)}\n"
    run = weft("show", "last", "--json").json
    assert run["output"] == {"$artifact": attempt["artifact"]}
    assert f"in the artifact {path} ({len(data):,} bytes)" in weft("show", "last", "make").out
    assert weft("verify", "last").code == 0
    assert (pipeline / ".weft" / "weft.db").stat().st_size < 1 << 20
    assert weft("prune", "--older", "0s").code == 0
    assert artifacts(pipeline) == []
    assert not path.parent.exists()


def test_an_embedded_run_gets_the_value_itself(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import weft as package

    monkeypatch.chdir(pipeline)
    with package.open(store=pipeline / ".weft" / "weft.db") as here:
        value = here.finish(here.start(pipeline / "p.yaml"))
    assert value["values"][-1] == 299999


def test_a_rule_cannot_read_it_and_says_so(weft: Weft, pipeline: Path) -> None:
    (pipeline / "w.yaml").write_text(
        "on_failure: continue\n"
        "tasks:\n"
        '  make: {python: "big:make", with: {count: 300000}}\n'
        "  asks: {run: 'true', if: 'tasks.make.output.values.length > 3'}\n"
        "  asks_less: {run: 'true', if: 'tasks.make.result.artifact.bytes > 3 && tasks.make.exitCode === 0'}\n"
        '  waits: {wait: {until: "${{ tasks.make.output.name }}"}}\n'
    )
    assert weft("run", "w.yaml").code == 1
    tasks = {task["name"]: task for task in weft("tasks", "last", "--json").json["tasks"]}
    assert tasks["asks_less"]["state"] == "succeeded"
    for name, head in (("asks", "if: "), ("waits", "wait: ")):
        assert tasks[name]["state"] == "failed"
        assert tasks[name]["reason"].startswith(f"{head}this output is in the artifact")
        assert "conditions, wait and workflows can't read files" in tasks[name]["reason"]


MAPS = """\
mode: {mode}
tasks:
  make: {{python: "big:rows", with: {{count: 60}}}}
  each:
    map: "${{{{ tasks.make.output.rows }}}}"
    python: "big:width"
    with: {{row: "${{{{ item }}}}"}}
  batches: {{map: "${{{{ tasks.make.output.rows }}}}", batch: 25, run: "true"}}
  sum: {{python: "big:add", with: {{values: "${{{{ tasks.each.output }}}}"}}}}
"""
ROWS = """\
def rows(count):
    return {"rows": [{"n": n, "text": str(n) * 20_000} for n in range(count)]}

def width(row):
    return len(row["text"]) // len(str(row["n"]))

def add(values):
    return sum(values)
"""


@pytest.mark.parametrize("mode", ["eager", "levels"])
def test_a_map_over_more_than_one_mebibyte_works(weft: Weft, tmp_path: Path, mode: str) -> None:
    (tmp_path / "w.yaml").write_text(MAPS.format(mode=mode))
    (tmp_path / "big.py").write_text(ROWS)
    result = weft("run", "w.yaml")
    assert result.code == 0, result
    assert artifacts(tmp_path)[0].stat().st_size > 2 << 20
    assert weft("show", "last", "sum", "--json").json["attempts"][0]["result"]["output"] == 60 * 20_000
    tasks = {task["name"]: task for task in weft("tasks", "last", "--json").json["tasks"]}
    assert "batches.2" in tasks
    assert "batches.3" not in tasks
    assert weft("verify", "last").code == 0


def test_a_map_over_large_outputs_of_elements_and_into_workflows_works(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "big.py").write_text(
        "def rows(count):\n    return ['x' * 30_000] * count\n\ndef total(values):\n    return len(values)\n"
    )
    (tmp_path / "child.yaml").write_text(
        "name: child\ninputs: {text: {type: string}, n: {type: integer}}\noutput: '${{ inputs.n }}'\n"
        "tasks:\n  one: {run: 'true'}\n"
    )
    (tmp_path / "w.yaml").write_text(
        "tasks:\n"
        '  make: {replicas: 2, python: "big:rows", with: {count: 40}}\n'
        '  each: {map: "${{ tasks.make.output }}", python: "big:total", with: {values: "${{ item }}"}}\n'
        '  nested: {map: "${{ tasks.make.output[0].slice(0, 3) }}", workflow: child.yaml,'
        ' with: {text: "${{ item }}", n: "${{ index }}"}}\n'
        '  gather: {run: "true", with: {all: "${{ tasks.each.output }}", n: "${{ tasks.nested.output }}"},'
        " needs: [each, nested]}\n"
    )
    result = weft("run", "w.yaml")
    assert result.code == 0, result
    outputs = [
        weft("show", "last", name, "--json").json["attempts"][0]["result"]["output"] for name in ("each.0", "each.1")
    ]
    assert outputs == [40, 40]


def test_a_map_names_the_artifact_that_it_cannot_read(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "big.py").write_text(ROWS)
    (tmp_path / "w.yaml").write_text(
        "tasks:\n"
        '  make: {python: "big:rows", with: {count: 60}}\n'
        "  lose: {needs: [make], run: mv .weft/artifacts .weft/away}\n"
        '  each: {needs: [lose], map: "${{ tasks.make.output.rows }}", run: "true"}\n'
    )
    assert weft("run", "w.yaml", env={"WEFT_NAME": "here"}).code == 1
    reason = weft("show", "last", "each", "--json").json["task"]["reason"]
    assert reason.startswith("map: this output is in the artifact")
    assert "written on node here, and node here cannot read" in reason
    (tmp_path / ".weft" / "away").rename(tmp_path / ".weft" / "artifacts")
    assert weft("resume", "last").code == 0
    assert weft("show", "last", "each.59", "--json").json["task"]["state"] == "succeeded"


def test_a_missing_artifact_is_named_with_the_node_that_wrote_it(weft: Weft, pipeline: Path) -> None:
    (pipeline / "w.yaml").write_text(
        "tasks:\n"
        '  make: {python: "big:make", with: {count: 300000}}\n'
        "  lose: {needs: [make], run: rm -r .weft/artifacts}\n"
        "  fine: {needs: [lose], run: 'echo ${{ tasks.make.exitCode }}'}\n"
        '  count: {needs: [fine], retry: 3, python: "big:count", with: {values: "${{ tasks.make.output.values }}"}}\n'
    )
    result = weft("run", "w.yaml", env={"WEFT_NAME": "here"})
    assert result.code == 1
    assert weft("logs", "last", "fine").out == "0\n", "what does not ask for the output does not miss it"
    task = weft("show", "last", "count", "--json").json["task"]
    assert task["attempt"] == 1
    assert "written on node here, and node here cannot read" in task["reason"]
    assert "No such file or directory; share one directory between them (setting artifacts)" in task["reason"]


@pytest.mark.parametrize(
    "task", ['{python: "big:make", with: {count: 9000}}', "{run: 'seq -s, 9000 > $WEFT_OUTPUT'}"]
)
def test_what_cannot_be_stored_fails_its_attempt(weft: Weft, pipeline: Path, task: str) -> None:
    """Over artifact_max; and where no directory can be made."""
    (pipeline / "w.yaml").write_text(
        f"tasks:\n  make: {task}\n".replace("seq -s, 9000", "seq -s, 9000 | sed s/^/[/ | sed s/$/]/")
    )
    small = {"WEFT_RESULT_MAX": "4KiB"}
    result = weft("run", "w.yaml", env=small)
    assert result.code == 0, result
    result = weft("run", "w.yaml", env={**small, "WEFT_ARTIFACT_MAX": "8KiB"})
    assert result.code == 1
    reason = weft("show", "last", "make", "--json").json["task"]["reason"]
    assert "8,192" in reason or "8 KiB" in reason, reason
    (pipeline / "blocked").write_text("a file")
    result = weft("run", "w.yaml", env={**small, "WEFT_ARTIFACTS": str(pipeline / "blocked")})
    assert result.code == 1
    assert "could not be stored as an artifact" in result.err
    assert f"{pipeline}/blocked" in result.err


def test_a_large_context_is_refused(weft: Weft, pipeline: Path) -> None:
    (pipeline / "w.yaml").write_text("- printf 'x=%s' \"$(seq -s, 9000)\" > $WEFT_CONTEXT\n")
    assert weft("run", "w.yaml").code == 0
    result = weft("run", "w.yaml", env={"WEFT_RESULT_MAX": "4KiB"})
    assert result.code == 1
    assert "is over result_max (4,096): give it as output instead" in result.err


@pytest.mark.parametrize(
    "task",
    [
        'run: "echo ${{ tasks.make.output.name }}"',
        'argv: [echo, "${{ tasks.make.output.name }}"]',
        'run: "true", env: {X: "${{ tasks.make.output.name }}"}',
    ],
)
def test_what_is_too_large_for_a_variable_says_what_to_do(weft: Weft, tmp_path: Path, task: str) -> None:
    (tmp_path / "w.yaml").write_text(
        "tasks:\n"
        "  make: printf 'name=%s' \"$(seq -s, 40000)\" > $WEFT_OUTPUT\n"
        f"  use: {{retry: 3, {task}}}\n"
        '  file: {with: {name: "${{ tasks.make.output.name }}"}, run: wc -c < $WEFT_INPUT}\n'
    )
    assert weft("run", "w.yaml").code == 1
    shown = weft("show", "last", "use", "--json").json["task"]
    assert shown["attempt"] == 1
    assert "at most 98,304 fit into the environment" in shown["reason"]
    assert "put it under `with`, and read it from the JSON file $WEFT_INPUT" in shown["reason"]
