"""The examples in docstrings, in the guide and under examples/ do what they say."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import WEFT, environment
from tests.docs.python import python_reference

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "python-sdk.md"
MODULES = [
    "weft.sdk.tasks",
    "weft.authoring.yaml_export",
    "weft.sdk.flows",
    "weft.executors.python_functions.current_attempt",
    "weft.executors.python_functions.once",
]
#: Not the plain functions that a definition in YAML calls.
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.stem.endswith("_tasks"))


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert (failed, tried > 0) == (0, True)


def test_the_reference_is_what_the_code_says() -> None:
    assert (ROOT / "docs" / "reference" / "python.md").read_text() == python_reference(), "run `make docs`"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def test_the_guides_flows_are_definitions(tmp_path: Path) -> None:
    """Each Python block of the guide that makes a flow is a file whose flows trace."""
    made = [block for block in blocks("python") if "@flow" in block]
    assert made
    for number, block in enumerate(made):
        file = tmp_path / f"guide_{number}.py"
        file.write_text(block)
        names = re.findall(r"@flow.*\ndef (\w+)", block)
        for name in names:
            done = subprocess.run(
                [*WEFT, "export", f"{file}:{name}"], cwd=tmp_path, env=environment(), capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr


def test_the_guide_shows_what_export_prints(tmp_path: Path) -> None:
    (tmp_path / "etl.py").write_text(blocks("python")[0])
    done = subprocess.run(
        [*WEFT, "export", "etl:nightly"], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.stdout == blocks("yaml")[0], done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_run(example: Path, tmp_path: Path) -> None:
    """As a program, whose last line it promises in its docstring."""
    module_text = example.read_text()
    promised = re.search(r"prints: (.*)", module_text)
    assert promised is not None
    (tmp_path / example.name).write_text(module_text)
    done = subprocess.run(
        [sys.executable, example.name], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == promised[1]
