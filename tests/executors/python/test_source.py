"""The source that a cached result depends on: found as Python would find it, without importing anything."""

from pathlib import Path

import pytest

from weft.executors.python_functions.source import FunctionSources

MODULE = """
import nothing_that_is_there

def other(): return 1

@wraps(
    other)
def work(x):
    return x

async def later():
    pass

from elsewhere import borrowed
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(MODULE)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "inner.py").write_text("def f():\n    return 1\n")
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "deep.py").write_text("def g(): pass")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("tasks:work", "@wraps(\n    other)\ndef work(x):\n    return x"),
        ("tasks.py:work", "@wraps(\n    other)\ndef work(x):\n    return x"),
        ("tasks:later", "async def later():\n    pass"),
        ("tasks:borrowed", MODULE),
        ("package.inner:f", "def f():\n    return 1"),
        ("spaces.deep:g", "def g(): pass"),
        ("math:sqrt", None),
        ("no_such_module:f", None),
        ("package.nothing:f", None),
        ("no_such_file.py:f", None),
    ],
)
def test_of(root: Path, text: str, source: str | None) -> None:
    assert FunctionSources().of(text, str(root)) == source


def test_only_the_functions_own_text_counts_and_changes_are_seen(root: Path) -> None:
    sources = FunctionSources()
    before = sources.of("tasks:work", str(root))
    (root / "tasks.py").write_text(MODULE.replace("return 1", "return 2"))
    assert sources.of("tasks:work", str(root)) == before
    (root / "tasks.py").write_text(MODULE.replace("return x", "return x + 1"))
    assert sources.of("tasks:work", str(root)) != before
    (root / "tasks.py").write_text("def work(: broken")
    assert sources.of("tasks:work", str(root)) == "def work(: broken"


def test_packages_of_this_interpreter_say_nothing_about_another(root: Path) -> None:
    sources = FunctionSources()
    assert sources.of("textwrap:dedent", str(root)) is not None
    assert sources.of("textwrap:dedent", str(root), installed=False) is None
    assert sources.of("package.inner:f", str(root), installed=False) == "def f():\n    return 1"
