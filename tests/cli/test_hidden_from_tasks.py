"""What tasks of the node's own user can read of the node and of each other: nothing that is a secret."""

import asyncio
import ctypes
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import WEFT, Weft, environment
from tests.executors.shells import Shell
from weft.executors import linux

pytestmark = pytest.mark.skipif(not linux.IS_LINUX, reason="other systems do not have /proc")

TOKEN = "the-servers-own-token"
SECRET = "the-secret-of-another-task"

DEFINITION = """\
name: peek
tasks:
  holder: {python: "tasks:hold", secrets: [OTHER]}
  peek: {python: "tasks:peek"}
  walk:
    run: |
      while ! test -s peeked; do sleep 0.02; done
      spawner=$PPID; node=$(awk '/^PPid/{print $2}' /proc/$spawner/status)
      for pid in $spawner $node; do
        for file in environ mem; do
          head -c 4096 /proc/$pid/$file > /dev/null 2>&1 && echo "can read $file of $(cat /proc/$pid/comm) $pid"
        done
      done
      env; true
"""
TASKS = """\
import os, time
from pathlib import Path

def hold():
    Path("holder").write_text(str(os.getpid()))
    while not Path("peeked").exists():
        time.sleep(0.02)
    return len(os.environ["OTHER"])

def peek():
    while not Path("holder").exists() or not Path("holder").read_text():
        time.sleep(0.02)
    seen = [os.environ.get("OTHER"), os.environ.get("WEFT_TOKEN")]
    for pid in (Path("holder").read_text(), str(os.getppid())):
        try:
            seen.append(Path("/proc", pid, "environ").read_text())
        except PermissionError:
            seen.append("denied")
    Path("peeked").write_text("yes")
    return seen
"""


def without_capabilities() -> None:
    """Root may read everything, by capabilities that are given up here for whatever this process becomes."""
    PR_CAPBSET_DROP = 24
    libc = ctypes.CDLL(None)
    capability = 0
    while os.geteuid() == 0 and libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1


def test_tasks_cannot_read_the_servers_secrets(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(DEFINITION)
    (tmp_path / "tasks.py").write_text(TASKS)
    done = subprocess.run(
        [*WEFT, "run", "w.yaml", "--python-runners", "2", "--slots", "3"], cwd=tmp_path, timeout=120, check=False,
        capture_output=True, text=True, env=environment(WEFT_TOKEN=TOKEN, OTHER=SECRET),
        preexec_fn=without_capabilities,
    )  # fmt: skip
    assert done.returncode == 0, done
    assert weft("show", "last", "holder", "--json").json["attempts"][0]["result"]["output"] == len(SECRET)
    assert weft("show", "last", "peek", "--json").json["attempts"][0]["result"]["output"] == [
        None, None, "denied", "denied",
    ]  # fmt: skip
    walked = weft("logs", "last", "walk").out
    assert "can read" not in walked
    assert TOKEN not in walked
    assert SECRET not in walked


def test_spawner_and_runners_start_with_a_scrubbed_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_TOKEN", TOKEN)
    monkeypatch.setenv("OTHER", SECRET)

    async def story() -> None:
        async with Shell(tmp_path) as shell:
            for pid in shell.executor.spawner_pids:
                try:
                    found = Path(f"/proc/{pid}/environ").read_bytes()
                except PermissionError:
                    continue  # not root: nor can a task read it
                assert not [name for name in found.split(b"\0") if name and not name.startswith((b"LD_", b"DYLD_"))]

    asyncio.run(story())


def test_a_user_that_cannot_be_run_as_is_refused_at_the_start(weft: Weft) -> None:
    for words in (["worker"], ["serve", "--port", "0"], ["run", "--", "true"]):
        result = weft(*words, env={"WEFT_RUN_AS": "no-such-user"})
        assert result.code == 2, (words, result)
        assert "run_as: there is no user 'no-such-user' on this machine" in result.err
