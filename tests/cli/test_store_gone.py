"""The store is deleted or moved while it is in use: whoever works on it fails loudly, and leaves nothing running."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Weft, wait_for
from .test_interrupts import running

Start = Callable[..., "subprocess.Popen[str]"]
WORK = """\
tasks:
  a: "echo $$ >> pids; while ! test -e open; do sleep 0.02; done"
"""
FAULTS: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "moved": lambda home: home.rename(home.with_name("elsewhere")),
    "file": lambda home: (home / "weft.db").unlink(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_whose_store_is_gone_fails(tmp_path: Path, start: Start, fault: str) -> None:
    """Its last task succeeds after that: the run must not be called a success that nobody can look up."""
    (tmp_path / "w.yaml").write_text(WORK)
    process = start("run", "w.yaml")
    wait_for(lambda: running(tmp_path))
    FAULTS[fault](tmp_path / ".weft")
    (tmp_path / "open").touch()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert ".weft/weft.db was moved or deleted while it was in use" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", [["worker"], ["serve", "--port", "0"]], ids=lambda words: words[0])
def test_a_node_whose_store_is_gone_ends(tmp_path: Path, weft: Weft, start: Start, command: list[str]) -> None:
    """It finds out by itself, though nothing ends: with its next exchange or renewal."""
    (tmp_path / "w.yaml").write_text(WORK)
    assert weft("submit", "w.yaml").code == 0
    process = start(*command)
    wait_for(lambda: running(tmp_path))
    shutil.rmtree(tmp_path / ".weft")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert "was moved or deleted while it was in use" in err
    wait_for(lambda: not running(tmp_path))


def test_a_new_store_keeps_itself_out_of_repositories(tmp_path: Path, weft: Weft) -> None:
    assert weft("run", "--", "true").code == 0
    assert (tmp_path / ".weft" / ".gitignore").read_text() == "*\n"
    shutil.rmtree(tmp_path / ".weft")
    (tmp_path / ".weft").mkdir()
    assert weft("run", "--", "true").code == 0
    assert not (tmp_path / ".weft" / ".gitignore").exists(), "a directory that somebody made is theirs"
