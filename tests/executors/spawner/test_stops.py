"""Stops, and ends that leave something behind: an attempt is over when nothing of it is left."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.executors.attempts import ends, eventually, is_alive, processes_with
from tests.executors.shells import CHILDREN, Shell
from weft.executors.linux import boottime

PYTHON = sys.executable
IGNORES_TERM = "trap '' TERM; echo up > up.$N; while :; do sleep 0.1; done"


def in_shell(tmp_path: Path, story: Any, **options: Any) -> None:
    async def main() -> None:
        async with Shell(tmp_path, **options) as shell:
            await story(shell)

    asyncio.run(main())


def nothing_left(shell: Shell) -> bool:
    return not processes_with(shell.mark)


def test_a_stop_is_sigterm_first(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        launch, future = shell.start("trap 'echo bye; exit 3' TERM; echo up > up; while :; do sleep 0.05; done")
        await shell.until_file("up")
        shell.stop(launch, "timeout", 10)
        outcome = await ends(future)
        assert (outcome.ok, outcome.stopped, outcome.exit_code, outcome.killed) == (False, "timeout", 3, 0)
        assert outcome.result is not None
        assert outcome.result["stdout"] == "bye\n"

    in_shell(tmp_path, story)


def test_a_stop_that_ends_with_exit_code_0_is_no_success(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        launch, future = shell.start("trap 'exit 0' TERM; echo up > up; while :; do sleep 0.05; done")
        await shell.until_file("up")
        shell.stop(launch, "timeout", 10)
        outcome = await ends(future)
        assert (outcome.ok, outcome.stopped, outcome.error) == (False, "timeout", "stopped (timeout)")

    in_shell(tmp_path, story)


def test_a_stop_that_comes_too_late_changes_nothing(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        launch, future = shell.start("echo $$ > pid")
        pid = int(await shell.until_file("pid"))
        assert eventually(lambda: not is_alive(pid), 10)  # ended, whether reported or not
        shell.stop(launch)
        outcome = await ends(future)
        assert (outcome.ok, outcome.stopped) == (True, None)
        shell.stop(launch)
        shell.executor.stop(12345, 1, "cancel", 1)

    in_shell(tmp_path, story)


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        launch, future = shell.start(IGNORES_TERM, env={"N": "1"})
        await shell.until_file("up.1")
        begun = boottime()
        shell.stop(launch, "cancel", 0.3)
        outcome = await ends(future)
        assert 0.3 <= boottime() - begun < 10
        assert (outcome.exit_code, outcome.error, outcome.stopped) == (137, "killed by SIGKILL", "cancel")
        assert outcome.killed >= 1
        assert nothing_left(shell)

    in_shell(tmp_path, story)


def test_no_grace_is_an_immediate_kill(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        launch, future = shell.start("sleep 300 & sleep 300")
        shell.stop(launch, "lease", 0)
        outcome = await ends(future, 30)
        assert outcome.stopped == "lease"
        assert nothing_left(shell)

    in_shell(tmp_path, story)


def test_a_second_stop_can_only_shorten_the_grace(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        launch, future = shell.start(IGNORES_TERM, env={"N": "1"})
        await shell.until_file("up.1")
        shell.stop(launch, "drain", 300)
        shell.stop(launch, "cancel", 0.1)
        shell.stop(launch, "cancel", 300)
        assert (await ends(future, 30)).stopped == "drain"

    in_shell(tmp_path, story)


def test_a_stop_right_after_the_start(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        pairs = [shell.start("sleep 300") for _ in range(40)]
        for launch, _ in pairs[::2]:
            shell.stop(launch, "cancel", 5)
        await asyncio.sleep(0)
        for launch, _ in pairs[1::2]:
            shell.stop(launch, "cancel", 5)
        outcomes = [await ends(future, 30) for _, future in pairs]
        assert all(o.stopped == "cancel" and not o.ok for o in outcomes)
        assert nothing_left(shell)

    in_shell(tmp_path, story)


def test_children_of_a_stopped_shell_have_the_grace_too(tmp_path: Path) -> None:
    """sh dies of SIGTERM at once; the program it waits for may still be cleaning up."""

    async def story(shell: Shell) -> None:
        inner = "trap 'sleep 0.4; echo done > cleaned; exit' TERM; echo up > up; while :; do sleep 0.05; done"
        launch, future = shell.start('sh -c "$INNER"; echo after', env={"INNER": inner})
        await shell.until_file("up")
        shell.stop(launch, "cancel", 10)
        outcome = await ends(future)
        assert (tmp_path / "cleaned").read_text() == "done\n"
        assert outcome.killed == 0
        assert nothing_left(shell)

    in_shell(tmp_path, story)


def test_a_stopped_process_is_stopped_all_the_same(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        launch, future = shell.start("echo up > up; kill -STOP $$")
        await shell.until_file("up")
        shell.stop(launch, "cancel", 10)
        assert (await ends(future, 30)).exit_code == 143

    in_shell(tmp_path, story)


@pytest.mark.parametrize("background", ["sleep 300 &", "setsid sleep 300 &", "(trap '' TERM HUP; exec sleep 300) &"])
def test_what_a_finished_leader_leaves_is_killed(tmp_path: Path, background: str) -> None:
    """It also holds the output files open, which must not hold up anything."""

    async def story(shell: Shell) -> None:
        outcome = await shell.run(f"echo out; {background} echo $! > pid")
        assert outcome.ok
        assert outcome.result is not None
        assert outcome.result["stdout"] == "out\n"
        assert outcome.killed == 1
        assert not is_alive(int(await shell.until_file("pid")))

    in_shell(tmp_path, story)


@pytest.mark.parametrize("clean", ["", "clean"])
def test_a_daemon_ends_with_its_attempt(tmp_path: Path, clean: str) -> None:
    async def story(shell: Shell) -> None:
        outcome = await shell.run(f"{PYTHON} {CHILDREN}/daemon.py pid {clean}; cat pid")
        assert outcome.ok
        assert outcome.killed == 1
        assert not is_alive(int((tmp_path / "pid").read_text()))

    in_shell(tmp_path, story)


def test_a_daemon_is_stopped_with_its_attempt(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        launch, future = shell.start(f"{PYTHON} {CHILDREN}/daemon.py pid clean; exec sleep 300")
        pid = int(await shell.until_file("pid"))
        shell.stop(launch, "cancel", 0.2)
        await ends(future)
        assert not is_alive(pid)

    in_shell(tmp_path, story)


def test_a_daemon_of_another_attempt_is_left_alone(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        launch, future = shell.start(f"{PYTHON} {CHILDREN}/daemon.py pid; exec sleep 300")
        pid = int(await shell.until_file("pid"))
        for _ in range(10):
            assert (await shell.run("true")).killed == 0
        assert is_alive(pid)
        shell.stop(launch, "cancel", 5)
        await ends(future)
        assert not is_alive(pid)

    in_shell(tmp_path, story, spawners=1)


def test_a_stray_of_unknown_origin_ends_with_the_last_that_may_have_made_it(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        other, other_future = shell.start("echo up > up; exec sleep 300")
        await shell.until_file("up")
        maker, maker_future = shell.start(f"{PYTHON} {CHILDREN}/daemon.py pid clean; exec sleep 300")
        pid = int(await shell.until_file("pid"))
        later = [shell.start("true")[1] for _ in range(4)]
        assert [(await ends(future)).killed for future in later] == [0] * 4
        shell.stop(maker, "cancel", 0)
        await ends(maker_future)
        shell.stop(other, "cancel", 0)
        await ends(other_future)
        assert not is_alive(pid)

    in_shell(tmp_path, story, spawners=1)


def test_fifty_processes_that_keep_changing_their_pid(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        launch, future = shell.start(f"exec {PYTHON} {CHILDREN}/comets.py ready")
        await shell.until_file("ready")
        assert eventually((tmp_path / "alive").exists, 5)
        begun = time.monotonic()
        shell.stop(launch, "cancel", 0.2)
        outcome = await ends(future, 30)
        assert outcome.killed >= 40
        assert time.monotonic() - begun < 15
        # A list of /proc cannot show what changes its pid that fast; but each would renew this file's time.
        (tmp_path / "alive").unlink()
        assert not eventually((tmp_path / "alive").exists, 0.3)

    in_shell(tmp_path, story)


def test_fifty_stops_at_once(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        text = "setsid sh -c \"trap '' TERM; echo up > up.$N; while :; do sleep 0.2; done\" & wait"
        pairs = [shell.start(text, env={"N": str(n)}) for n in range(50)]
        for n in range(50):
            await shell.until_file(f"up.{n}")
        begun = boottime()
        for launch, _ in pairs:
            shell.stop(launch, "cancel", 0.5)
        outcomes = [await ends(future) for _, future in pairs]
        assert boottime() - begun < 10
        assert all(o.stopped == "cancel" and o.killed >= 1 for o in outcomes)
        assert nothing_left(shell)

    in_shell(tmp_path, story)


def test_past_the_trust_everything_is_killed_and_later_starts_are_refused(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        futures = [shell.start("trap '' TERM; sleep 300 & sleep 300")[1] for _ in range(6)]
        deadline = boottime() + 0.4
        shell.executor.trust(deadline)
        outcomes = [await ends(future, 30) for future in futures]
        assert all(o.stopped == "lease" and not o.ok for o in outcomes)
        assert deadline <= outcomes[-1].ended < deadline + 1
        assert nothing_left(shell)
        refused = await shell.run("true")
        assert (refused.ok, refused.stopped, refused.started) == (False, "lease", None)
        shell.executor.trust(boottime() + 60)
        assert (await shell.run("true")).ok

    in_shell(tmp_path, story)


def test_trust_that_is_renewed_kills_nothing(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        _, future = shell.start("sleep 0.6; echo done")
        for _ in range(8):
            shell.executor.trust(boottime() + 0.3)
            await asyncio.sleep(0.1)
        shell.executor.trust(boottime() + 60)
        assert (await ends(future)).ok

    in_shell(tmp_path, story)


def test_close_kills_reports_and_leaves_nothing(tmp_path: Path) -> None:
    async def story(shell: Shell) -> None:
        pairs = [shell.start(IGNORES_TERM, env={"N": str(n)}) for n in range(10)]
        for n in range(10):
            await shell.until_file(f"up.{n}")
        spawners = shell.executor.spawner_pids
        begun = boottime()
        await shell.executor.close()
        assert boottime() - begun < 10
        outcomes = [future.result() for _, future in pairs]
        assert all(not o.ok and o.stopped == "drain" for o in outcomes)
        assert nothing_left(shell)
        assert not any(os.path.exists(f"/proc/{pid}") for pid in spawners)

    in_shell(tmp_path, story)
