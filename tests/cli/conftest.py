"""Ways to call `weft`: as a process of its own (what behaves), or inside this one (what only reads, and quickly)."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import forked

WEFT = [sys.executable, "-m", "weft"]
TIMEOUT_S = 60

BRANCHES = """\
name: branches
on_failure: continue
tasks:
  first: echo one
  good: {needs: [first], run: "echo good; echo quietly >&2"}
  bad: {needs: [first], run: "echo some context; echo it broke >&2; exit 3"}
  after_bad: {needs: [bad], run: echo never}
  poor: {run: "exit 4", retry: {max: 1, backoff: 10ms}}
  many: {needs: [first], replicas: 3, run: echo element $WEFT_INDEX}
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def environment(**more: str) -> dict[str, str]:
    """This process's, without what would change how weft behaves."""
    dropped = ("WEFT_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "TERM": "xterm-256color", "PYTHONUTF8": "1", **more}


Weft = Callable[..., Result]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def weft(tmp_path: Path) -> Weft:
    """Runs the command in the test's directory."""

    def call(*words: str, cwd: Path | None = None, env: dict[str, str] | None = None, **more: Any) -> Result:
        done = forked.run(words, cwd or tmp_path, environment(**(env or {})), timeout=TIMEOUT_S, **more)
        result = Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        assert "Traceback" not in result.err, result.err
        return result

    return call


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts the command and lets it run; what is left of it at the test's end is killed."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str, **more: Any) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*WEFT, *words], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, **more,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose store has seen a few runs: the last one failed in parts, the one before succeeded."""
    directory = tmp_path_factory.mktemp("history")
    (directory / "branches.yaml").write_text(BRANCHES)
    (directory / "chain.yaml").write_text("- echo a\n- echo b\n")
    for name, code in (("chain.yaml", 0), ("branches.yaml", 1)):
        done = subprocess.run(
            [*WEFT, "run", name], cwd=directory, env=environment(), capture_output=True, check=False
        )
        assert done.returncode == code, done.stderr.decode()
    return directory


@pytest.fixture
def call(history: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Weft:
    """Runs a command inside this process, on the store of `history`. Only for commands that start no node."""
    return _inside(history, monkeypatch, capfd)


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Weft:
    """The same in the test's own directory."""
    return _inside(tmp_path, monkeypatch, capfd)


def _inside(directory: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Weft:
    from weft.cli.main import main

    monkeypatch.chdir(directory)
    for name in list(os.environ):
        if name.startswith("WEFT_"):
            monkeypatch.delenv(name)

    def run(*words: str) -> Result:
        capfd.readouterr()
        code = main(list(words))
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = capfd.readouterr()
        return Result(code, out, err)

    return run
