"""Functions that an interpreter of their own calls: one with other packages, without Weft, or that is not there."""

import asyncio
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.executors.attempts import ends
from tests.executors.python.runners import Runners
from weft.executors.protocol import Outcome

SOURCE = """
    import sys
    from datetime import date

    def where(day: date):
        print("from", sys.prefix)
        import only_here
        return {"prefix": sys.prefix, "only": only_here.VALUE, "first": sys.path[0], "day": day.isoformat()}

    def here():
        return [sys.prefix, sys.path[0]]

    async def later(n: int):
        import asyncio
        import weft
        await asyncio.sleep(0)
        return [n, weft.variables()["WEFT_TASK"]]

    def packages():
        try:
            import msgspec
        except ImportError:
            return "none"
        return "msgspec"

    def needs_more():
        import weft_needs_msgspec

    def secret():
        import os
        return len(os.environ["TOKEN"])
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with one module of its own."""
    directory = tmp_path_factory.mktemp("other") / "venv"
    venv.create(directory, symlinks=True)
    packages = directory / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (packages / "only_here.py").write_text("VALUE = 'only here'\n")
    (packages / "weft_needs_msgspec.py").write_text("import weft.core.workflow\n")
    return directory


async def call(runners: Runners, python: str, function: str, **arguments: Any) -> Outcome:
    launch = runners.launch(f"tasks:{function}", arguments)
    launch.spec["interpreter"] = python
    _, future = runners.begin(launch)
    return await ends(future)


def run(directory: Path, *calls: tuple[str, str, dict[str, Any]], runners: int = 2) -> list[Outcome]:
    async def story() -> list[Outcome]:
        async with Runners(directory, SOURCE, runners=runners) as all_runners:
            return list(await asyncio.gather(*(call(all_runners, python, name, **a) for python, name, a in calls)))

    return asyncio.run(story())


def test_it_has_the_packages_and_the_path_of_its_interpreter(tmp_path: Path, other: Path) -> None:
    python = str(other / "bin" / "python")
    where, later, packages = run(
        tmp_path, (python, "where", {"day": "2026-01-01"}), (python, "later", {"n": 3}), (python, "packages", {})
    )
    assert where.error is None
    assert where.output == {
        "prefix": str(other), "only": "only here", "first": str(tmp_path), "day": "2026-01-01",
    }  # fmt: skip
    assert where.result is not None
    assert where.result["stdout"] == f"from {other}\n"
    assert later.output == [3, "t2"]
    assert packages.output == "none"  # those beside the node's own weft are for the node's interpreter


def test_one_runner_at_a_time_serves_both_interpreters(tmp_path: Path, other: Path) -> None:
    async def story() -> None:
        async with Runners(tmp_path, SOURCE, runners=1) as runners:
            theirs = await call(runners, str(other / "bin" / "python"), "here")
            assert theirs.output == [str(other), str(tmp_path)]
            own = await runners.run("here")
            assert own.output == [sys.prefix, str(tmp_path)]

    asyncio.run(story())


def test_what_is_missing_is_named(tmp_path: Path, other: Path) -> None:
    missing, no_program, not_python, lacking = run(
        tmp_path,
        (str(tmp_path / "venv" / "bin" / "python"), "where", {}),
        (str(tmp_path), "where", {}),
        ("/bin/false", "where", {}),
        (str(other / "bin" / "python"), "needs_more", {}),
    )
    assert missing.error is not None
    assert missing.error.startswith(f"its interpreter {tmp_path}/venv/bin/python does not exist on this node")
    assert missing.startable  # which says nothing about the node
    assert no_program.error is not None
    assert no_program.error.startswith(f"its interpreter {tmp_path} is no program")
    assert not_python.error == "no Python runner could be started with /bin/false: exit code 1"
    assert not_python.startable
    assert lacking.error == "ModuleNotFoundError: No module named 'msgspec'"


def test_a_module_that_needs_more_of_weft(tmp_path: Path, other: Path) -> None:
    (tmp_path / "heavy.py").write_text("import weft.core.workflow\ndef f(): ...\n")

    async def story() -> None:
        async with Runners(tmp_path, SOURCE) as runners:
            launch = runners.launch("heavy:f", {})
            launch.spec["interpreter"] = python = str(other / "bin" / "python")
            _, future = runners.begin(launch)
            outcome = await ends(future)
            assert outcome.error is not None
            assert outcome.error.endswith(f"{python} lacks a package that weft needs: install weft there as well")

    asyncio.run(story())


def test_an_attempt_with_secrets(tmp_path: Path, other: Path) -> None:
    async def story() -> None:
        async with Runners(tmp_path, SOURCE) as runners:
            launch = runners.launch("tasks:secret", {}, secrets={"TOKEN": "abcdefgh"})
            launch.spec["interpreter"] = str(other / "bin" / "python")
            _, future = runners.begin(launch)
            outcome = await ends(future)
            assert outcome.output == 8

    asyncio.run(story())
