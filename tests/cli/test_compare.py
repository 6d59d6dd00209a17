"""run NAME, show --definition and diff: what is applied, what ran, and how two runs differ."""

from pathlib import Path

import pytest

from tests.cli.conftest import Weft


def test_an_applied_workflow_runs_by_name_where_it_was_applied(weft: Weft, tmp_path: Path) -> None:
    home = tmp_path / "flows"
    home.mkdir()
    (home / "w.yaml").write_text(
        "name: nightly\ninputs: {who: {default: all}}\ntasks: {a: 'pwd; echo ${{ inputs.who }}'}\n"
    )
    assert weft("apply", "flows/w.yaml").code == 0
    done = weft("run", "nightly", "-i", "who=me")
    assert (done.code, done.out) == (0, f"{home}\nme\n")
    assert weft("submit", "nightly").code == 0
    (tmp_path / "nightly").write_text("- echo from a file\n")
    assert weft("run", "nightly").out == "from a file\n"


def test_a_name_that_is_neither_names_both(weft: Weft, tmp_path: Path) -> None:
    said = "there is no file nightly, and no applied workflow of that name"
    without_store = weft("run", "nightly")
    assert (without_store.code, said in without_store.err) == (3, True)
    (tmp_path / "w.yaml").write_text("name: nightly\ntasks: {a: 'true'}\n")
    assert weft("run", "w.yaml").code == 0
    assert said in weft("run", "nightly").err, "a workflow that only ran was not applied"
    assert weft("apply", "w.yaml").code == 0
    assert "did you mean 'nightly'?" in weft("run", "nightyl").err
    assert weft("run", "missing.yaml").code == 2


def test_the_definition_of_a_run_can_be_run_again(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("name: w\ntasks: {a: echo one, b: {needs: [a], run: echo two}}\n")
    assert weft("run", "w.yaml").code == 0
    shown = weft("show", "last", "--definition")
    assert weft("validate", "-", input=shown.out.encode()).code == 0
    found = weft("show", "last", "--definition", "--json").json
    assert found["definition"]["tasks"]["b"] == {"run": "echo two", "needs": ["a"]}
    assert weft("show", "last", "a", "--definition").code == 2


@pytest.fixture
def runs(weft: Weft, tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "w.yaml").write_text(
        "name: w\ninputs: {n: 1, m: {default: x}}\ntasks: {a: exit 3, b: 'true', gone: 'true'}\n".replace(
            "n: 1", "n: {default: 1}"
        )
    )
    (tmp_path / "v.yaml").write_text(
        "name: w\ninputs: {n: {default: 2}, m: {default: x}}\ntasks: {a: 'true', b: 'true', new: 'true'}\n"
    )
    assert [weft("run", "w.yaml").code, weft("run", "v.yaml").code] == [1, 0]
    new, old = (run["id"] for run in weft("ls", "--json").json["runs"])
    return old, new


def test_two_runs_are_compared(weft: Weft, runs: tuple[str, str]) -> None:
    found = weft("diff", *runs, "--json").json
    assert (found["old"]["id"], found["new"]["id"]) == runs
    assert found["inputs"] == {"n": [1, 2]}
    assert "-    run: exit 3" in found["definition"]
    by_name = {task["task"]: task for task in found["tasks"]}
    assert (by_name["a"]["old_state"], by_name["a"]["new_state"], by_name["a"]["changed"]) == (
        "failed",
        "succeeded",
        True,
    )
    assert (by_name["new"]["old_state"], by_name["gone"]["new_state"]) == (None, None)
    assert by_name["b"]["changed"] is False
    assert by_name["b"]["new_ms"] >= 0
    text = weft("diff", *runs).out
    assert "n: 1" in text
    assert "exit 3" in text
    assert "\nb " not in text
    assert "\nb " in weft("diff", *runs, "--all").out


def test_a_run_does_not_differ_from_itself(weft: Weft, runs: tuple[str, str]) -> None:
    old, _ = runs
    text = weft("diff", old, old).out
    assert "same definition" in text
    assert "same inputs" in text
    assert "all tasks ended alike" in text
    assert weft("diff", old, "zzzz").code == 3
