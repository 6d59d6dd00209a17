"""Flows by name on the command line, flows of a main program, and files that must not start runs while they load."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.cli.conftest import Result, environment
from weft.authoring.flow_files import names_a_flow
from weft.authoring.load import load_file

ETL = """\
from weft import flow, shell, task

print("loading")

@task
def extract(day: str) -> list[str]:
    return [day]

@flow
def nightly(day: str = "today") -> str:
    made = shell('echo "day=$DAY" > "$WEFT_OUTPUT"', env={"DAY": day}, name="made")
    return made.day

@flow
def typed(day: str) -> list[str]:
    return extract(day)

if __name__ == "__main__":
    import json
    print(json.dumps(typed.definition()["tasks"]))
    print(nightly.run(day="main"))
"""


@pytest.fixture
def etl(tmp_path: Path) -> Path:
    (tmp_path / "etl.py").write_text(ETL)
    package = tmp_path / "pipelines_of_mine" / "deep"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "flows.py").write_text(ETL)
    return tmp_path


def weft(cwd: Path, *words: str) -> Result:
    done = forked.run(words, cwd, environment())
    result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in result.err, result.err
    return result


def test_what_is_the_name_of_a_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert all(names_a_flow(name) for name in ("a:b", "a.b.c:d", "x.py:f", "dir/x.py:f", "x.py", "a:"))
    assert not any(names_a_flow(name) for name in ("a.yaml", "a", "-", "a.json", "c:/x.yaml", "a.b"))
    (tmp_path / "a:b").write_text("")
    assert not names_a_flow("a:b")


@pytest.mark.parametrize("name", ["etl.py:nightly", "etl:nightly", "pipelines_of_mine.deep.flows:nightly"])
def test_a_flow_runs_by_its_name(etl: Path, name: str) -> None:
    done = weft(etl, "run", name, "--input", "day=monday", "--json")
    assert done.code == 0, done.err
    summary = done.lines[-1]
    assert (summary["state"], summary["output"]) == ("succeeded", "monday")
    assert "loading" in done.err


def test_from_another_directory(etl: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = weft(elsewhere, "run", f"{etl}/etl.py:nightly")
    assert done.code == 0, done.err
    exported = weft(elsewhere, "export", f"{etl}/etl.py:typed").out
    assert "python: etl.py:extract" in exported


def test_export_prints_what_loads_to_the_same_definition(etl: Path) -> None:
    done = weft(etl, "export", "pipelines_of_mine.deep.flows:typed")
    assert done.code == 0
    (etl / "typed.yaml").write_text(done.out)
    as_json = weft(etl, "export", "pipelines_of_mine.deep.flows:typed", "--json")
    assert load_file(etl / "typed.yaml").document == as_json.json
    assert as_json.json["tasks"]["extract"]["python"] == "pipelines_of_mine.deep.flows:extract"
    assert weft(etl, "export", "typed.yaml").out == done.out


def test_validate_and_graph_take_flows(etl: Path) -> None:
    done = weft(etl, "validate", "etl:typed", "etl:nightly")
    assert done.out == "etl:typed: ok, 1 task in 1 level\netl:nightly: ok, 1 task in 1 level\n"
    assert "extract" in weft(etl, "graph", "etl.py:typed").out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("etl.py", "name one: etl.py:nightly"),
        ("etl:", "name one: etl:nightly"),
        ("etl.py:nigthly", "did you mean 'nightly'?"),
        ("etl:extract", "extract is a Task, not a flow"),
        ("elt:nightly", "there is no module 'elt'"),
        ("pipelines_of_mine.shallow:x", "there is no module 'pipelines_of_mine.shallow'"),
        ("elt.py:nightly", "elt.py: there is no such file"),
        ("wrong.py:f", "wrong.py:3:1: NameError: name 'nope' is not defined"),
        ("wrong:f", "wrong.py:3:1: NameError: name 'nope' is not defined"),
        ("syntax.py:f", "syntax.py:1:7: not Python:"),
        ("needy.py:f", "needy.py:1:1: ModuleNotFoundError: No module named 'not_there'"),
        ("needy:f", "needy.py:1:1: ModuleNotFoundError: No module named 'not_there'"),
        ("exits.py:f", "ended the program while it was loaded"),
        ("unguarded.py:f", "unguarded.py:8:1: f.run() is called while its file is imported, outside of if __name__"),
        ("unguarded:f", 'put it under if __name__ == "__main__":'),
    ],
)
def test_what_is_wrong_with_a_name_or_its_module(etl: Path, name: str, said: str) -> None:
    (etl / "wrong.py").write_text("import sys\n\nnope\n")
    (etl / "syntax.py").write_text("def f(:\n")
    (etl / "needy.py").write_text("import not_there\n")
    (etl / "exits.py").write_text("import sys\nsys.exit(3)\n")
    (etl / "unguarded.py").write_text(
        "from weft import flow, shell\n\n@flow\ndef f() -> None:\n    shell('true')\n\n\nf.run()\n"
    )
    done = weft(etl, "run", name)
    assert done.code == 2, done
    assert said in done.err
    assert not (etl / ".weft").exists()


def test_a_main_program_names_its_functions_by_file(etl: Path) -> None:
    done = subprocess.run([sys.executable, "etl.py"], cwd=etl, capture_output=True, text=True, check=True)
    _, tasks, output = done.stdout.splitlines()
    assert json.loads(tasks)["extract"]["python"] == "etl.py:extract"
    assert output == "main"
    assert (etl / ".weft" / "weft.db").exists()
    done = subprocess.run(
        [sys.executable, "-m", "pipelines_of_mine.deep.flows"], cwd=etl, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[1])["extract"]["python"] == "pipelines_of_mine.deep.flows:extract"


def test_functions_typed_into_a_session_are_refused() -> None:
    code = "from weft import flow, task\n@task\ndef f(): ...\n@flow\ndef g():\n    f()\ng.definition()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "g is defined in an interactive session" in done.stderr


def test_a_file_named_like_a_module_of_python(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("from weft import flow, shell\n@flow\ndef f() -> None:\n    shell('true')\n")
    script = Path(sys.executable).with_name("weft")
    done = subprocess.run([script, "export", "json.py:f", "--json"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == "f"


def test_import_weft_costs_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import weft; assert weft.__version__;"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['weft']\n"
    code = "import sys; from weft import flow, task, shell; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("yaml", "apsw", "asyncio", "msgspec", "weft.core.definition.read", "weft.store.sqlite.driver"):
        assert heavy not in done.stdout.split(), heavy


def test_everything_that_is_exported_is_there() -> None:
    import weft

    for name in weft._HOMES:
        assert getattr(weft, name) is not None
        assert name in dir(weft)
        exported = getattr(weft, name)
        if isinstance(exported, type) and issubclass(exported, BaseException):
            assert f"{exported.__module__}.{exported.__qualname__}" == f"weft.{name}", "as tracebacks show it"
    with pytest.raises(AttributeError):
        weft.nothing  # type: ignore[attr-defined]  # noqa: B018
