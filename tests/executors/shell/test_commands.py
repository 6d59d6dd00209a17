"""Ordinary attempts: what a command sees, and what is reported of it."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.executors.shells import Shell
from weft.executors.linux import boottime
from weft.executors.output import output_path
from weft.executors.protocol import Outcome
from weft.executors.shell.executor import BadCommand, command


def run(tmp_path: Path, what: str | dict[str, Any], **changes: Any) -> Outcome:
    async def main() -> Outcome:
        async with Shell(tmp_path) as shell:
            return await shell.run(what, **changes)

    return asyncio.run(main())


def test_a_command_that_succeeds(tmp_path: Path) -> None:
    before = boottime()
    outcome = run(tmp_path, "echo hello; echo oops >&2")
    assert outcome.ok
    assert outcome.exit_code == 0
    assert outcome.result == {"exitCode": 0, "stdout": "hello\n", "stderr": "oops\n"}
    assert outcome.error is None
    assert outcome.stopped is None
    assert outcome.killed == 0
    assert outcome.output is msgspec.UNSET
    assert outcome.context is None
    assert outcome.started is not None
    assert before <= outcome.started <= outcome.ended <= boottime()


def test_output_stays_in_files_and_silence_leaves_none(tmp_path: Path) -> None:
    run(tmp_path, "echo kept")
    directory = str(tmp_path / "output")
    assert Path(output_path(directory, "t1", 1, "stdout")).read_text() == "kept\n"
    assert not Path(output_path(directory, "t1", 1, "stderr")).exists()
    assert sorted(os.listdir(directory)) == ["t1.1.out"]


@pytest.mark.parametrize("code", [1, 2, 127, 255])
def test_exit_codes(tmp_path: Path, code: int) -> None:
    outcome = run(tmp_path, f"exit {code}")
    assert not outcome.ok
    assert outcome.exit_code == code
    assert outcome.error == f"exit code {code}"
    assert outcome.startable
    assert outcome.result is not None
    assert outcome.result["exitCode"] == code


def test_death_by_signal(tmp_path: Path) -> None:
    outcome = run(tmp_path, "kill -KILL $$")
    assert (outcome.ok, outcome.exit_code, outcome.error) == (False, 128 + 9, "killed by SIGKILL")


def test_the_first_failing_command_ends_sh(tmp_path: Path) -> None:
    outcome = run(tmp_path, "false\necho not reached")
    assert outcome.exit_code == 1
    assert outcome.result is not None
    assert outcome.result["stdout"] == ""


def test_bash_has_pipefail(tmp_path: Path) -> None:
    assert run(tmp_path, {"run": "false | true", "shell": "bash"}).exit_code == 1
    assert run(tmp_path, {"run": "false | true", "shell": "sh"}).exit_code == 0


def test_a_shell_of_ones_own(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"run": "import sys; print(sys.argv[0])", "shell": ["python3", "-c"]})
    assert outcome.result is not None
    assert outcome.result["stdout"] == "-c\n"


def test_argv_is_one_argument_each(tmp_path: Path) -> None:
    words = ["printf", "%s|", "a b", "$HOME", "`id`", "", "*", "ünï\n"]
    outcome = run(tmp_path, {"argv": words})
    assert outcome.result is not None
    assert outcome.result["stdout"] == "|".join(words[2:]) + "|"


def test_a_command_is_looked_up_in_the_attempts_own_path(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "mytool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    outcome = run(tmp_path, {"argv": ["mytool"]}, env={"PATH": f"/nowhere:{tool.parent}"})
    assert outcome.result is not None
    assert outcome.result["stdout"] == "found\n"


@pytest.mark.parametrize("argv", [["no-such-command"], ["./no/such/file"], ["/no/such/file"]])
def test_command_not_found(tmp_path: Path, argv: list[str]) -> None:
    outcome = run(tmp_path, {"argv": argv})
    assert (outcome.ok, outcome.exit_code, outcome.startable) == (False, 127, True)
    assert outcome.error == f"command not found: {argv[0]}"
    assert outcome.started is None
    assert not os.listdir(tmp_path / "output")


def test_a_file_that_is_not_executable(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a program")
    outcome = run(tmp_path, {"argv": ["./data"]})
    assert (outcome.exit_code, outcome.error) == (126, "not executable: ./data")


def test_a_script_without_an_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert "interpreter" in str(run(tmp_path, {"argv": ["./script"]}).error)
    script.write_text("echo no first line\n")
    outcome = run(tmp_path, {"argv": ["./script"]})
    assert outcome.exit_code == 126
    assert "#!" in str(outcome.error)


def test_the_directory(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    default, other = run(tmp_path, "pwd -P"), run(tmp_path, "pwd -P", cwd=str(there))
    assert default.result is not None
    assert other.result is not None
    assert default.result["stdout"] == f"{tmp_path.resolve()}\n"
    assert other.result["stdout"] == f"{there.resolve()}\n"


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    outcome = run(tmp_path, "true", cwd=str(tmp_path / "gone"))
    assert not outcome.ok
    assert outcome.exit_code is None
    assert outcome.startable
    assert outcome.error == f"cannot enter the directory {tmp_path}/gone: no such file or directory"


def test_a_directory_made_anew_between_two_attempts(tmp_path: Path) -> None:
    async def main() -> None:
        async with Shell(tmp_path) as shell:
            there = tmp_path / "build"
            there.mkdir()
            await shell.run("true", cwd=str(there))
            await shell.run("rmdir build && mkdir build && touch build/new")
            outcome = await shell.run("ls", cwd=str(there))
            assert outcome.result is not None
            assert outcome.result["stdout"] == "new\n"

    asyncio.run(main())


def test_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_NODE", "node")
    monkeypatch.setenv("CHANGED", "node")
    monkeypatch.setenv("WEFT_STORE", "secret of the node")
    given = {"CHANGED": "task", "WEFT_TASK": "t1", "ODD": "a=b\n'\"$x ü", "WEFT_TOKEN": "for a server"}
    outcome = run(tmp_path, "env", env=given)
    assert outcome.result is not None
    text = outcome.result["stdout"]
    assert "FROM_NODE=node\n" in text
    assert "CHANGED=task\n" in text
    assert "ODD=a=b\n'\"$x ü\n" in text
    assert "WEFT_TASK=t1\n" in text
    assert "WEFT_STORE" not in text
    assert "WEFT_TOKEN=for a server\n" in text


def test_what_a_command_inherits(tmp_path: Path) -> None:
    """No signal is ignored or blocked, stdin is empty, and no descriptor of Weft's is open."""
    outcome = run(tmp_path, "grep -E 'Sig(Ign|Blk)' /proc/self/status")
    assert outcome.result is not None
    _, blocked, _, ignored = outcome.result["stdout"].split()
    assert int(blocked, 16) == 0
    # glibc's posix_spawn has its own two internal signals (32 and 33) ignored in what it starts.
    assert int(ignored, 16) & ~(0b11 << 31) == 0
    program = (
        "import os, sys\n"
        "print(repr(sys.stdin.read()), os.getsid(0) == os.getpid(), os.readlink('/proc/self/fd/0'))\n"
        "print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])\n"
    )
    outcome = run(tmp_path, {"argv": ["python3", "-c", program]})
    assert outcome.result is not None
    assert outcome.result["stdout"].splitlines() == ["'' True /dev/null", "[0, 1, 2]"]


def test_broken_pipes_end_a_command_as_they_should(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"run": "yes | head -n 1", "shell": "bash"})
    assert outcome.exit_code == 128 + signal.SIGPIPE


@pytest.mark.parametrize(
    ("spec", "env"),
    [
        ({"run": "a\0b"}, {}),
        ({"argv": ["true", "\0"]}, {}),
        ({"run": "true"}, {"A": "\0"}),
        ({"run": "true"}, {"": "x"}),
    ],
)
def test_what_no_process_can_be_given(tmp_path: Path, spec: dict[str, Any], env: dict[str, str]) -> None:
    outcome = run(tmp_path, spec, env=env)
    assert not outcome.ok
    assert outcome.started is None
    assert str(outcome.error).startswith("cannot start")


def test_a_value_that_is_too_long(tmp_path: Path) -> None:
    outcome = run(tmp_path, "true", env={"BIG": "x" * 200_000})
    assert outcome.exit_code == 126
    assert "too long" in str(outcome.error)


@pytest.mark.parametrize(
    "spec", [{}, {"argv": []}, {"argv": "ls"}, {"argv": [1]}, {"run": 3}, {"run": "x", "shell": "zsh"}]
)
def test_specs_that_are_no_command(tmp_path: Path, spec: dict[str, Any]) -> None:
    with pytest.raises(BadCommand):
        command(spec)
    assert not run(tmp_path, spec).ok


def test_an_output_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = run(tmp_path, "true", output_dir=str(tmp_path / "file" / "output"))
    assert not outcome.ok
    assert not outcome.startable
    assert str(outcome.error).startswith("cannot create the output files")


def test_many_at_once_end_once_each(tmp_path: Path) -> None:
    async def main() -> None:
        async with Shell(tmp_path) as shell:
            futures = [shell.start(f"echo {n}; exit {n % 3}")[1] for n in range(200)]
            outcomes = await asyncio.wait_for(asyncio.gather(*futures), 60)
            assert [o.exit_code for o in outcomes] == [n % 3 for n in range(200)]
            assert [o.result["stdout"] for o in outcomes if o.result] == [f"{n}\n" for n in range(200)]
            assert len(shell.outcomes) == 200

    asyncio.run(main())


def test_starts_of_one_turn_leave_in_one_message(tmp_path: Path) -> None:
    async def main() -> None:
        async with Shell(tmp_path, spawners=1) as shell:
            await shell.run("true")
            outbox = shell.executor._links[0]._outbox
            sent = []
            real = outbox._socket
            assert real is not None
            send = real.send

            class Counting:
                def send(self, data: bytes) -> int:
                    sent.append(len(data))
                    return send(data)

            outbox._socket = Counting()  # type: ignore[assignment]
            futures = [shell.start("true")[1] for _ in range(20)]
            await asyncio.sleep(0)
            outbox._socket = real
            assert len(sent) == 1
            await asyncio.wait_for(asyncio.gather(*futures), 30)

    asyncio.run(main())
