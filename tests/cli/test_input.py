"""Single kinds of input that ended in a traceback, or in an exit code that said nothing was wrong."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from weft.cli.terminal.terminal import Terminal

from .conftest import Result, Weft, environment

SHELL = Path("/bin/sh")


@pytest.fixture
def mine(history: Path, tmp_path: Path) -> Path:
    """A copy of that store: others look at what ran there last."""
    return Path(shutil.copytree(history, tmp_path / "mine"))


def shell(directory: Path, command: str, **env: str) -> Result:
    """`weft` in a shell's command is the real one: closed streams are what they are to a process that starts."""
    text = command.replace("weft ", f"{sys.executable} -m weft ")
    done = subprocess.run(
        [SHELL, "-c", text], cwd=directory, env=environment(**env), capture_output=True, check=False, timeout=60
    )
    result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in result.err, result
    assert "Exception ignored" not in result.err, result
    return result


def test_streams_that_are_closed_change_nothing(mine: Path) -> None:
    """No file of the store gets the number of a stream, and what is printed goes nowhere."""
    closed = "<&- >&- 2>&-; echo $?"
    done = shell(mine, f"weft ls {closed}; weft run chain.yaml {closed}; weft verify last")
    assert (done.code, done.out.splitlines()[:2]) == (0, ["0", "0"]), done
    assert "agree" in done.out


def test_a_message_that_nobody_reads_keeps_its_exit_code(mine: Path) -> None:
    done = shell(mine, "weft show uuu 2>&-; echo $?; weft show uuu 2>/dev/full; echo $?")
    assert done.out.split() == ["3", "3"]


def test_a_reader_that_has_seen_enough_is_no_error(mine: Path) -> None:
    done = shell(mine, "(weft events; echo $? >code) | true; cat code")
    assert (done.out, done.err) == ("0\n", "")


@pytest.mark.parametrize("command", ["ls --json", "run chain.yaml --json", "submit chain.yaml"])
def test_output_that_cannot_be_written_is_said(mine: Path, command: str) -> None:
    done = shell(mine, f"weft {command} >/dev/full")
    assert done.code == 4
    assert done.err.endswith("weft: standard output cannot be written: No space left on device\n")


def test_bytes_that_are_not_utf8(weft: Weft, tmp_path: Path) -> None:
    for words in (["show", "\udcffabc"], ["run", "caf\udce9.yaml"], ["run", "--", "echo", "\udcff"], ["\udcff"]):
        done = weft(*words)
        assert (done.code, "an argument is not UTF-8: " in done.err) == (2, True), done
    assert "caf\\xe9.yaml" in weft("validate", "caf\udce9.yaml", "--json").json["error"]["message"]
    done = weft("ls", env={"WEFT_STORE": "\udcff"})
    assert (done.code, "WEFT_STORE: expected a path in UTF-8" in done.err) == (2, True)
    done = weft("ls", "--store", "~/x", env={"HOME": "/\udcff"})
    assert (done.code, "--store: expected a path in UTF-8" in done.err) == (2, True)
    broken = Path(os.fsdecode(bytes(tmp_path) + b"/\xff"))
    broken.mkdir()
    done = shell(tmp_path, "cd $(printf '\\377') && weft ls --json")
    assert (done.code, "the working directory's path is not UTF-8" in done.err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "--before", str(2**63)],
        ["ls", "--limit", "9" * 5000],
        ["tasks", "--after", str(-(2**64))],
        ["events", "--after", "1_000"],
        ["pools", "set", "p", "0000000009999999999"],
        ["prune", "--older", "9" * 5000],
        ["events", "--since", "0001-01-01T00:00:00"],
        ["token", "create", "--expires", "9" * 5000],
        ["ls", "--store", "~no-such-user/x"],
        ["worker", "--gpus", "0000000009999999999"],
        ["nodes", "show", "x", "--store", "pipe"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_values_out_of_bounds_are_refused(weft: Weft, tmp_path: Path, words: list[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    if words[0] != "pools":
        weft("run", "--", "true")
    done = weft(*words, "--json")
    assert done.code == 2, done
    assert done.json["error"]["code"] == 2
    assert len(done.err) < 1000, "it is not repeated in full"


def test_an_element_beyond_all_numbers_is_not_found(call: Weft) -> None:
    for task in ("many.99999999999999999999", "many.٣", "many.-1"):
        for command in ("show", "logs", "why", "cancel"):
            assert call(command, "last", task).code == 3, (command, task)


def test_an_interrupt_while_a_library_is_imported_takes_effect_after_it(weft: Weft, tmp_path: Path) -> None:
    """One that makes something else of it, as pydantic does."""
    (tmp_path / "uvicorn.py").write_text(
        "import os, signal\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    open('imported', 'w').close()\n"
        "except KeyboardInterrupt:\n    raise ValueError('cannot build this') from None\n"
    )
    done = weft("mcp")
    assert (done.code, done.err) == (130, "")
    assert (tmp_path / "imported").exists()


def test_a_terminal_of_any_width() -> None:
    for text, columns in (("9" * 5000, 100), ("80", 80), ("0", 100), ("٣", 3), ("-1", 100)):
        assert Terminal(io.StringIO(), "auto", {"COLUMNS": text}).size()[0] == columns


def test_a_store_that_may_not_be_looked_at(look: Weft, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs the right to be another user")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0)
    words = ["ls", "--store", str(locked / "weft.db")]
    assert look(*words).code == 3
    os.seteuid(65534)
    try:
        done = look(*words)
    finally:
        os.seteuid(0)
    assert (done.code, "cannot be looked at: Permission denied" in done.err) == (2, True), done
