"""Attempts that run as a user of their own, which only root can have."""

import asyncio
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.executors.attempts import ends, eventually, is_alive
from tests.executors.python.runners import Runners
from tests.executors.shells import Shell
from weft.executors.protocol import Outcome
from weft.executors.run_as import BadUser, find_user
from weft.executors.shell.executor import ShellExecutor

NOBODY = pwd.getpwnam("nobody")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start tasks as another user")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that everybody may enter and write to, which pytest's are not."""
    made = Path(tempfile.mkdtemp(prefix="run-as-"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


def shown(directory: Path, output: Path, story: Callable[[Shell], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Shell(directory, user=find_user("nobody")) as shell:
            shell.output_dir = str(output / "output")  # below a directory that is root's alone
            await story(shell)

    asyncio.run(main())


def stdout(outcome: Outcome) -> Any:
    assert outcome.result is not None, outcome
    return outcome.result["stdout"]


@needs_root
def test_a_task_runs_as_that_user_and_its_files_work(place: Path, tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        outcome = await shell.run(
            "id -un; id -Gn; echo $HOME $USER; echo more >> /dev/stdout; echo k=v > $WEFT_CONTEXT\n"
            "echo '{\"a\": 1}' > $WEFT_OUTPUT.new; mv $WEFT_OUTPUT.new $WEFT_OUTPUT; cat $WEFT_INPUT",
            input=b"{}",
        )
        assert outcome.ok, outcome
        assert stdout(outcome) == f"nobody\nnogroup\n{NOBODY.pw_dir} nobody\nmore\n{{}}"
        assert (outcome.output, outcome.context) == ({"a": 1}, {"k": "v"})
        outcome = await shell.run("echo $S >> /dev/stdout", secrets={"S": "s3cr3t"})
        assert stdout(outcome) == "***\n"
        outcome = await shell.run(f"cat {shell.output_dir}/t1.1.out")
        assert not outcome.ok
        outcome = await shell.run("pwd", cwd=str(tmp_path))
        assert outcome.error == f"cannot enter the directory {tmp_path} as nobody: permission denied"
        outcome = await shell.run({"argv": ["no-such-program"]})
        assert (outcome.error, outcome.exit_code) == ("command not found: no-such-program", 127)
        assert [entry for entry in os.scandir(shell.executor.private.path) if entry.is_dir()] == []

    shown(place, tmp_path, story)


@needs_root
@pytest.mark.parametrize("link", ["ln -s", "ln"])
def test_the_node_reads_no_file_for_a_task_that_it_could_not_read_itself(
    place: Path, tmp_path: Path, link: str
) -> None:
    """Neither through a link, nor after the task has put another directory in the place of its own."""
    theirs = place / "theirs"
    theirs.mkdir()
    theirs.chmod(0o755)
    (theirs / "secret").write_text('"the node\'s"')
    (theirs / "secret").chmod(0o600)

    async def story(shell: Shell) -> None:
        outcome = await shell.run(f"{link} {theirs}/secret $WEFT_OUTPUT")
        assert not outcome.ok
        assert "the node's" not in str(outcome)
        outcome = await shell.run(f'd=$(dirname $WEFT_OUTPUT); mv $d $d.away || rmdir $d; ln -s {theirs} "$d"; true')
        assert "the node's" not in str(outcome)
        assert (theirs / "secret").exists()

    shown(place, tmp_path, story)


@needs_root
def test_a_stop_ends_all_of_it(place: Path, tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        command = (
            "trap '' TERM; (setsid sh -c 'echo $$ > fled; exec sleep 60') & echo $$ > leader; sleep 60 & wait; wait"
        )
        launch, future = shell.start(command)
        pids = [int(await shell.until_file(name)) for name in ("fled", "leader")]
        assert all(os.stat(f"/proc/{pid}").st_uid == NOBODY.pw_uid for pid in pids)
        shell.stop(launch, grace_s=0.05)
        outcome = await ends(future)
        assert outcome.stopped == "cancel"
        assert not any(map(is_alive, pids))
        _, future = shell.start("setsid sh -c 'echo $$ > orphan; exec sleep 60' & while ! test -s orphan; do :; done")
        outcome = await ends(future)
        assert outcome.ok
        assert outcome.killed == 1
        assert eventually(lambda: not is_alive(int((place / "orphan").read_text())), 5)

    shown(place, tmp_path, story)


def interpreter() -> str:
    """One that `nobody` can start; the tests' own may be in a home directory."""
    for path in (sys.executable, "/usr/bin/python3"):
        command = [path, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(command, user=NOBODY.pw_uid, group=NOBODY.pw_gid, check=False).returncode == 0:
                return path
        except OSError:
            continue
    pytest.skip("there is no Python here that nobody can start")


@needs_root
def test_functions_run_as_that_user(place: Path, tmp_path: Path) -> None:
    source = (
        "import os\n"
        "def me():\n    print('printed')\n    return [os.getuid(), os.environ['HOME'], os.environ['WEFT_TASK']]\n"
        "async def me_too():\n    print('printed')\n    return os.getuid()\n"
    )

    async def main() -> None:
        runners = Runners(place, source, python=interpreter())
        runners.shell = ShellExecutor(str(place), {**os.environ, "MARK": runners.mark}, user=find_user("nobody"))
        runners.executor._shell = runners.shell
        runners.output_dir = str(tmp_path / "output")
        async with runners:
            outcome = await runners.run("me")
            assert outcome.output == [NOBODY.pw_uid, NOBODY.pw_dir, "t1"], outcome
            assert stdout(outcome) == "printed\n"
            outcome = await runners.run("me_too")
            assert (outcome.output, stdout(outcome)) == (NOBODY.pw_uid, "printed\n")

    (place / "tasks.py").touch(0o644)
    asyncio.run(main())


def test_a_user_that_there_is_not_and_a_node_that_is_not_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadUser, match="there is no user 'no-such-user' on this machine"):
        find_user("no-such-user")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(BadUser, match="only root can start tasks as nobody"):
        find_user("nobody")
