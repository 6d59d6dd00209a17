"""Python functions of a definition, looked up on this machine when it is loaded, and never imported."""

import sys
import textwrap
import time
from pathlib import Path

import pytest

from weft.authoring.errors import DefinitionErrors
from weft.authoring.load import Loaded, load_file

FUNCTIONS = """
    import functools
    import weft
    from functools import lru_cache
    from weft import task

    raise SystemExit("this module must not be run")

    def extract(day, *, limit=10): ...
    async def transform(path: str, retries: int = 3) -> str: ...
    def anything(**options): ...
    def by_place(first, /, second): ...
    def optional_by_place(first=1, /, second=2): ...

    @task(retries=3)
    def decorated(day: str) -> str: ...
    @weft.task
    def plainly_decorated(day): ...
    @lru_cache(maxsize=1)
    def cached(day): ...
    @functools.wraps(extract)
    def wrapped(*args): ...

    if extract:
        def either(a): ...
    else:
        def either(b): ...
    class Thing: ...
    made = functools.partial(extract, 1)
    for looped in (): pass
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "etl.py").write_text(textwrap.dedent(FUNCTIONS))
    return tmp_path


def load(directory: Path, task: str, name: str = "flow.yaml") -> Loaded:
    path = directory / name
    path.write_text(f"tasks:\n  a: {task}\n")
    return load_file(path)


def complaint(directory: Path, task: str) -> str:
    with pytest.raises(DefinitionErrors) as caught:
        load(directory, task)
    return "\n".join(str(error) for error in caught.value.errors)


@pytest.mark.parametrize(
    "task",
    [
        "{python: etl:extract, with: {day: x}}",
        "{python: etl:extract, with: {day: '${{ run.id }}', limit: 3}}",
        "{python: etl.py:extract, with: {day: x}}",
        "{python: ./etl.py:extract, with: {day: x}}",
        "{python: etl:transform, with: {path: x}}",
        "{python: etl:anything, with: {what: ever}}",
        "{python: etl:anything}",
        "{python: etl:optional_by_place, with: {second: 1}}",
        "{python: etl:decorated, with: {day: x}}",
        "{python: etl:wrapped, with: {day: x}}",  # whatever the decorator made of it
        "{python: etl:either, with: {c: 1}}",
        "{python: etl:made, with: {limit: 1}}",
        "{python: etl:looped}",
        "{python: json:dumps, with: {obj: 1, indent: 2}}",
        "{python: math:sqrt, with: {x: 2}}",  # written in C
        "{python: time:sleep}",  # built in
        "{python: not_on_this_machine:anything, with: {a: 1}}",
        "{python: elsewhere/file.py:anything}",
        "{python: etl:nothing, cwd: '${{ run.id }}'}",  # where it will be looked for is not known
    ],
)
def test_what_fits_or_cannot_be_known_is_loaded(here: Path, task: str) -> None:
    assert load(here, task).workflow.tasks[0].kind == "python"
    assert "etl" not in sys.modules


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("{python: etl:extrct, with: {day: x}}", ["2:15: etl has no function 'extrct'", "did you mean etl:extract?"]),
        ("{python: etl.py:extrct}", ["etl.py has no function 'extrct'", "did you mean etl.py:extract?"]),
        ("{python: etl:Thing}", ["etl:Thing is a class, not a function"]),
        ("{python: etl:extract}", ["2:7: extract() needs day, which `with` does not pass", "add day to `with`"]),
        ("{python: etl:extract, with: {limit: 1}}", ["2:28: extract() needs day"]),
        ("{python: etl:extract, with: {dya: x}}", ["2:35: extract() has no parameter 'dya'", "did you mean day?"]),
        (
            "{python: etl:extract, with: {day: x, more: 1}}",
            ["2:43: extract() has no parameter 'more'", "its parameters are day, limit"],
        ),
        ("{python: etl:transform, with: {}}", ["transform() needs path"]),
        ("{python: etl:decorated, with: {dayy: x}}", ["decorated() has no parameter 'dayy'", "did you mean day?"]),
        ("{python: etl:plainly_decorated}", ["plainly_decorated() needs day"]),
        ("{python: etl:cached}", ["cached() needs day"]),
        (
            "{python: etl:by_place, with: {second: 1}}",
            ["takes first only by position", "remove the / from its parameters"],
        ),
        ("{python: json:dumpss, with: {obj: 1}}", ["did you mean json:dumps?"]),
    ],
)
def test_what_cannot_work_is_refused_with_its_place(here: Path, task: str, said: list[str]) -> None:
    text = complaint(here, task)
    for part in said:
        assert part in text
    assert text.count("flow.yaml:") == 1


def test_the_task_s_own_directory_is_searched(here: Path) -> None:
    (here / "sub").mkdir()
    (here / "sub" / "inner.py").write_text("def f(a): ...\n")
    assert load(here, "{python: inner:f, cwd: sub, with: {a: 1}}")
    assert "f() needs a" in complaint(here, "{python: inner:f, cwd: sub}")
    assert load(here, "{python: inner:g}"), "not found from here, so not blamed"


def test_simple_re_exports_are_followed(here: Path) -> None:
    package = here / "package"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("from .deep import f as g\nfrom .loop import h\nfrom os import path\n")
    (package / "deep" / "__init__.py").write_text("from ..plain import f\n")
    (package / "plain.py").write_text("def f(a): ...\n")
    (package / "loop.py").write_text("from . import h\n")
    (package / "stars.py").write_text("from .plain import *\n")
    (package / "late.py").write_text("def __getattr__(name): ...\n")
    assert load(here, "{python: package:g, with: {a: 1}}")
    assert "g() needs a" in complaint(here, "{python: package:g}")
    assert "f() needs a" in complaint(here, "{python: package.deep:f}")
    assert load(here, "{python: package:h}"), "it goes round in circles"
    assert load(here, "{python: package.stars:f}")
    assert load(here, "{python: package.late:f}")
    assert "has no function 'nothing'" in complaint(here, "{python: package.plain:nothing}")


def test_a_file_that_python_cannot_parse(here: Path) -> None:
    (here / "broken.py").write_text("def f(:\n")
    assert "broken.py, line 1: invalid syntax" in complaint(here, "{python: broken:f}")


def least(path: Path) -> float:
    """Of three times: processors that others use, too, take up to twice as long for the same."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        load_file(path)
        times.append(time.process_time() - begun)
    return min(times)


def test_all_mistakes_at_once_and_the_module_parsed_once(here: Path) -> None:
    count = 10_000
    (here / "big.py").write_text("".join(f"def f{i}(a, b=1): return a + b\n" for i in range(2_000)))
    lines = [f"  t{i}: {{python: 'big:f{i % 2000}', with: {{a: {i}}}}}" for i in range(count)]
    path = here / "flow.yaml"
    path.write_text("tasks:\n" + "\n".join(lines))
    load_file(path)
    whole = least(path)
    path.write_text("tasks:\n" + "\n".join(line.replace("big:", "not_here:") for line in lines))
    without = least(path)
    assert whole - without < 0.5 * without + 0.2, f"{whole:.2f} s with the check, {without:.2f} s without"
    path.write_text("tasks:\n" + "\n".join(line.replace("a:", "c:") for line in lines[:50]))
    with pytest.raises(DefinitionErrors) as caught:
        load_file(path)
    assert len(caught.value.errors) == 100


def test_another_interpreter_has_its_own_packages_and_syntax(here: Path) -> None:
    (here / "newer.py").write_text("def f(: pass\n")
    load(here, '{python: {call: "newer:f", venv: .venv}, with: {anything: 1}}')
    load(here, '{python: {call: "msgspec:nothing", venv: .venv}}')
    assert "has no function" in complaint(here, '{python: "msgspec:nothing"}')
    assert "extract() has no parameter 'dya'" in complaint(
        here, '{python: {call: "etl:extract", venv: .venv}, with: {day: 1, dya: 1}}'
    )
