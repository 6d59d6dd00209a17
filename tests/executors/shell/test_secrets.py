"""Shell attempts that have secrets: what they print passes the masker on its way to the file."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.executors.attempts import eventually, processes_with
from tests.executors.shells import Shell
from weft.executors.output import output_path

SECRET = "s3cr3t/of+ours"


def shown(tmp_path: Path, story: Any, **options: Any) -> None:
    async def main() -> None:
        async with Shell(tmp_path, **options) as shell:
            await story(shell)

    asyncio.run(main())


def stored(shell: Shell, task: str = "t1") -> bytes:
    return Path(output_path(shell.output_dir, task, 1, "stdout")).read_bytes()


def test_it_has_the_secret_and_its_output_does_not(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        command = 'echo "<$TOKEN>"; echo "$TOKEN" >&2; printf %s "${#TOKEN}" > "$WEFT_OUTPUT"'
        outcome = await shell.run(command, secrets={"TOKEN": SECRET})
        assert outcome.ok, outcome
        assert outcome.result is not None
        assert (outcome.result["stdout"], outcome.result["stderr"], outcome.output) == (
            "<***>\n",
            "***\n",
            len(SECRET),
        )
        assert stored(shell) == b"<***>\n"

    shown(tmp_path, story)


def test_a_secret_in_pieces_is_masked(tmp_path: Path) -> None:
    """Byte by byte, each with a write and a wait for the reader of its own: the file must have grown in between."""
    command = """
    printf 'begin '
    while ! grep -q begin output/t1.1.out 2> /dev/null; do :; done
    rest=$TOKEN
    while [ -n "$rest" ]; do printf %s "$(printf %.1s "$rest")"; rest=${rest#?}; sleep 0.002; done
    printf ' end'
    """

    async def story(shell: Shell) -> None:
        outcome = await shell.run(command, secrets={"TOKEN": SECRET})
        assert outcome.ok, outcome
        assert stored(shell) == b"begin *** end"

    shown(tmp_path, story)


def test_any_bytes_in_any_amount_within_the_cap(tmp_path: Path) -> None:
    """40 MiB of binary with the secret now and then, kept to 1 MiB on disk, and none of it the secret."""
    program = (
        "import os, sys\n"
        "block = bytes(range(256)) * 256 + os.environb[b'TOKEN']\n"
        "for _ in range(640): sys.stdout.buffer.write(block)"
    )

    async def story(shell: Shell) -> None:
        spec = {"argv": [sys.executable, "-c", program]}
        outcome = await shell.run(spec, secrets={"TOKEN": SECRET}, output_max=1 << 20)
        assert outcome.ok, outcome
        assert outcome.result is not None
        size = 640 * (65536 + 3)
        assert outcome.result["stdoutBytes"] == size
        path = output_path(shell.output_dir, "t1", 1, "stdout")
        assert os.stat(path).st_size == size
        assert os.stat(path).st_blocks * 512 <= 2 << 20
        assert SECRET.encode() not in Path(path).read_bytes()

    shown(tmp_path, story)


def test_the_end_lets_go_of_what_was_held_back(tmp_path: Path) -> None:
    """The beginning of a secret that never came is stored, and so is all that was in the pipe when it was killed."""

    async def story(shell: Shell) -> None:
        command = 'printf "%s" "$TOKEN s3cr"; echo now > here; exec sleep 100'
        launch, future = shell.start(command, secrets={"TOKEN": SECRET})
        await shell.until_file("here")
        shell.stop(launch, grace_s=0)
        outcome = await asyncio.wait_for(future, 30)
        assert outcome.stopped == "cancel"
        assert stored(shell) == b"*** s3cr"

    shown(tmp_path, story)


def test_others_do_not_inherit_it(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        outcome = await shell.run('echo "${TOKEN-none} ${OTHER-none}"', hidden=("TOKEN", "OTHER"), env={"OTHER": "x"})
        assert outcome.result is not None
        assert outcome.result["stdout"] == "none x\n"
        outcome = await shell.run('echo "${TOKEN-none}"')
        assert outcome.result is not None
        assert outcome.result["stdout"] == "inherited\n"

    shown(tmp_path, story, environment={**os.environ, "TOKEN": "inherited", "OTHER": "inherited"})


def test_answers_of_a_task_with_secrets_never_lie_in_the_store(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        command = 'echo "{\\"a\\": \\"$TOKEN\\"}" > "$WEFT_OUTPUT"; echo "$WEFT_OUTPUT"; find "$PWD" -type f | wc -l'
        outcome = await shell.run(command, secrets={"TOKEN": SECRET})
        assert outcome.output == {"a": SECRET}, "the executor's caller masks values"
        assert outcome.result is not None
        path, files = outcome.result["stdout"].splitlines()
        assert not path.startswith(str(tmp_path))
        assert not os.path.exists(path)
        assert files.strip() == "0"

    shown(tmp_path, story)


def test_the_input_file_is_private_and_goes_with_the_attempt(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        big = b'{"text":"' + b"x" * 300_000 + b'"}'
        outcome = await shell.run('stat -c "%a %s" "$WEFT_INPUT"; echo "$WEFT_INPUT"', input=big)
        assert outcome.result is not None
        facts, path = outcome.result["stdout"].splitlines()
        assert facts == f"600 {len(big)}"
        assert not os.path.exists(path)
        assert os.stat(os.path.dirname(path)).st_mode & 0o77 == 0
        outcome = await shell.run('echo "${WEFT_INPUT-none}"')
        assert outcome.result is not None
        assert outcome.result["stdout"] == "none\n"

    shown(tmp_path, story)


def test_a_dead_nodes_private_files_are_removed_by_the_next(tmp_path: Path) -> None:
    deserted = Path(os.environ.get("TMPDIR", "/tmp")) / f"weft-private-{os.getpid()}-test"
    deserted.mkdir(mode=0o700)
    (deserted / "lock").touch()
    (deserted / "1.input").write_text("left over")

    async def story(shell: Shell) -> None:
        outcome = await shell.run("true", input=b"{}")
        assert outcome.ok

    shown(tmp_path, story)
    assert not deserted.exists()


def test_a_spawner_that_dies_takes_a_masked_attempt_with_it(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        _, future = shell.start('echo now > here; while :; do echo "$TOKEN"; done', secrets={"TOKEN": SECRET})
        await shell.until_file("here")
        for pid in shell.executor.spawner_pids:
            os.kill(pid, signal.SIGKILL)
        outcome = await asyncio.wait_for(future, 30)
        assert not outcome.ok
        assert outcome.error == "the spawner died"
        assert eventually(lambda: not processes_with(shell.mark), 5)
        output = Path(shell.output_dir)
        assert all(SECRET.encode() not in path.read_bytes() for path in output.glob("*"))

    shown(tmp_path, story)
