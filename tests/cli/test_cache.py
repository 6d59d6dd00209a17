"""`cache` through `weft run`: what is a hit and what is not, and where it shows."""

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Weft

WORKFLOW = """\
name: kept
inputs: {day: {type: string, default: monday}, fail: {type: boolean, default: false}}
env: {COLOUR: "red"}
tasks:
  shell:
    run: |
      echo shell >> ran; test ${{ inputs.fail }} = false
      echo "on ${{ inputs.day }}"
      echo 'day=${{ inputs.day }}' > "$WEFT_OUTPUT"; echo 'seen=${{ inputs.day }}' > "$WEFT_CONTEXT"
    cache: true
  program: {argv: [sh, -c, "echo program >> ran"], cache: {ttl: 1h}}
  python: {python: "functions:double", with: {text: "${{ tasks.shell.output.day }}"}, cache: true}
  each:
    map: [a, b, c]
    python: functions:double
    with: {text: "${{ item }}"}
    cache: {key: "${{ item }}"}
  alike: {replicas: 2, run: "echo alike $WEFT_INDEX >> ran", cache: true}
output: {python: "${{ tasks.python.output }}", each: "${{ tasks.each.output }}"}
"""
FUNCTIONS = """\
def double(text):
    with open("ran", "a") as file:
        file.write(f"double {text}\\n")
    return text * 2
"""
TASKS = ["alike.0", "alike.1", "each.0", "each.1", "each.2", "program", "python", "shell"]
EVERYTHING = ["alike 0", "alike 1", "double a", "double b", "double c", "double monday", "program", "shell"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    return tmp_path


def ran(place: Path) -> list[str]:
    """What has run since the last call."""
    path = place / "ran"
    lines = sorted(path.read_text().splitlines()) if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def cached(lines: list[Any]) -> list[str]:
    return sorted(line["task"] for line in lines if line.get("kind") == "finished" and "cached" in line["data"])


def run(weft: Weft, *words: str) -> list[Any]:
    return weft("run", "w.yaml", "--json", *words).lines


def test_everything_is_kept_and_shows_as_cached(weft: Weft, look: Weft, place: Path) -> None:
    first = run(weft)
    assert (cached(first), ran(place)) == ([], EVERYTHING)
    second = run(weft)
    assert (cached(second), ran(place)) == (TASKS, [])
    assert second[-1]["output"] == first[-1]["output"] == {"python": "mondaymonday", "each": ["aa", "bb", "cc"]}
    shown = json.loads(look("show", "last", "--json").out)
    assert shown["context"] == {"seen": "monday"}, "what a cached task set in the context is set again"
    source = {"run": first[-1]["run"], "task": "shell", "attempt": 1}
    assert next(t["cached"] for t in shown["tasks"] if t["name"] == "shell") == source
    assert look("verify", "last").code == 0
    text = look("show", "last", "shell")
    assert f"cached: nothing ran; the result is that of shell, attempt 1, in run {source['run']}" in text.out
    assert "on monday" in text.out
    assert f"shell was cached, its output: weft logs {source['run']} shell" in look("logs", "last", "shell").err
    third = weft("run", "w.yaml")
    assert f"shell  succeeded  cached (run {source['run']})" in third.err
    assert [line.split()[3] for line in look("show", "last").out.splitlines() if " shell " in line] == ["succeeded"]


@pytest.mark.parametrize(
    ("before", "after", "again"),
    [
        ("", "", []),
        ("COLOUR: \"red\"", "COLOUR: \"blue\"", ["alike 0", "alike 1", "double monday", "program", "shell"]),
        ("echo program >>", "echo  program >>", ["program"]),
        ("default: monday", "default: friday", ["double friday", "shell"]),
        ("map: [a, b, c]", "map: [c, d, a]", ["double d"]),
        ("name: kept", "name: other", ["double a", "double b", "double c"]),
    ],
)  # fmt: skip
def test_what_a_result_depends_on(weft: Weft, place: Path, before: str, after: str, again: list[str]) -> None:
    run(weft)
    ran(place)
    (place / "w.yaml").write_text(WORKFLOW.replace(before, after))
    run(weft)
    assert ran(place) == again


def test_the_functions_source_counts_unless_there_is_a_key(weft: Weft, place: Path) -> None:
    run(weft)
    ran(place)
    # Not of the same length: Python takes old bytecode for a file of the same size that changed within a second.
    (place / "functions.py").write_text(FUNCTIONS.replace("text * 2", "text * 2 + text"))
    assert run(weft)[-1]["output"] == {"python": "mondaymondaymonday", "each": ["aa", "bb", "cc"]}
    assert ran(place) == ["double monday"]


def test_failures_are_not_kept(weft: Weft, place: Path) -> None:
    for _ in range(2):
        assert weft("run", "w.yaml", "-i", "fail=true").code == 1
        assert "shell" in ran(place)


def test_no_cache_runs_everything_and_keeps_it_anew(weft: Weft, place: Path) -> None:
    run(weft)
    ran(place)
    fresh = run(weft, "--no-cache")
    assert (cached(fresh), ran(place)) == ([], EVERYTHING)
    again = weft("rerun", "last", "--no-cache", "--json").lines
    assert (cached(again), ran(place)) == ([], EVERYTHING)
    hits = weft("rerun", "last", "--json").lines
    sources = {line["data"]["cached"]["run"] for line in hits if "cached" in line.get("data", {})}
    assert (sources, ran(place)) == ({again[-1]["run"]}, [])


def test_pruning(weft: Weft, place: Path) -> None:
    run(weft)
    ran(place)
    weft("prune", "--older", "0s")
    run(weft)
    assert ran(place) == [], "results outlive their runs"
    weft("prune", "--older", "0s", "--cache")
    run(weft)
    assert ran(place) == EVERYTHING


def test_another_directory_is_another_result(weft: Weft, place: Path) -> None:
    for name in ("one", "two"):
        (place / name).mkdir()
    (place / "d.yaml").write_text(
        "tasks:\n  a: {run: 'pwd >> ../ran', cwd: '${{ inputs.d }}', cache: true}\ninputs: {d: string}\n"
    )
    for name in ("one", "two", "one"):
        weft("run", "d.yaml", "-i", f"d={name}")
    assert [Path(line).name for line in ran(place)] == ["one", "two"]


def test_a_key_without_a_value_fails_the_task(weft: Weft, place: Path) -> None:
    (place / "k.yaml").write_text(
        "tasks:\n  a: echo '{}' > $WEFT_OUTPUT\n  b: {run: 'true', cache: {key: '${{ tasks.a.output.nothing }}'}}\n"
    )
    done = weft("run", "k.yaml")
    assert done.code == 1
    assert "b: " in done.err
    assert "nothing" in done.err
