"""flow.run() on a terminal: a line that counts tasks, and says at the end how the run ended."""

import os
import pty
import subprocess
import sys
from pathlib import Path

PROGRAM = """\
import time
from weft import flow, task

@task
def slow(n: int) -> int:
    time.sleep(0.6)
    return n + 1

@task
def bad(n: int) -> int:
    raise ValueError("broken")

@flow
def counting():
    return slow(slow(1))

@flow
def failing():
    return bad(slow(1))

if __name__ == "__main__":
    import sys
    print({"counting": counting, "failing": failing}[sys.argv[1]].run())
"""


def run(directory: Path, name: str, *, terminal: bool) -> tuple[int, str, str]:
    """(exit code, standard output, standard error): a terminal, or a pipe."""
    (directory / "program.py").write_text(PROGRAM)
    ours, theirs = pty.openpty() if terminal else os.pipe()
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
    process = subprocess.Popen(
        [sys.executable, "program.py", name], cwd=directory, env={**kept, "TERM": "xterm", "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 65536):
            seen += piece
    except OSError:  # a terminal whose other side is closed
        pass
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    return process.returncode, out.decode(), seen.decode()


def test_a_terminal_shows_how_far_the_run_is(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "counting", terminal=True)
    assert (code, out) == (0, "3\n"), err
    assert "counting running: 0/2 tasks" in err
    assert "counting running: 1/2 tasks" in err
    assert "counting succeeded: 2/2 tasks, " in err.rsplit("\r\x1b[K", 1)[-1]


def test_a_failure_is_counted_and_still_raised(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "failing", terminal=True)
    assert code == 1
    assert "failing failed: 2/2 tasks, 1 failed, " in err
    assert "RunFailed" in err


def test_without_a_terminal_nothing_is_written(tmp_path: Path) -> None:
    assert run(tmp_path, "counting", terminal=False) == (0, "3\n", "")
