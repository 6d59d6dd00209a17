"""Sudden deaths: of a runner, of its spawner, of the node."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.executors.attempts import NodeProcess, ends, eventually, processes_with
from weft.executors.linux import boottime

from .runners import Runners, with_runners

TASKS = """
    import asyncio, ctypes, os, resource, signal, subprocess, sys, time

    def up(): open(os.environ.get("UP", "up"), "w").write(str(os.getpid()))
    def me(): return os.getpid()
    def exits(): os._exit(3)
    def segfaults(): ctypes.string_at(0)
    def kills_itself(): os.kill(os.getpid(), signal.SIGKILL)
    def sleeps(): up(); time.sleep(60)
    def closes_everything(): os.closerange(3, 256); time.sleep(60)
    def leaves_a_daemon():
        subprocess.Popen(["sh", "-c", "setsid sh -c 'echo $$ > daemon; sleep 60' & sleep 60"], start_new_session=True)
        while not os.path.exists("daemon") or not os.path.getsize("daemon"): time.sleep(0.005)
        return "left"
    def awkward():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 60"], start_new_session=True)
        up()
        while True:
            try: time.sleep(60)
            except BaseException: pass

    async def naps(seconds=60): await asyncio.sleep(seconds); return os.getpid()
    async def async_exits(seconds): await asyncio.sleep(seconds); os._exit(4)
    async def exits_below():
        async def inner(): await asyncio.sleep(0.2); os._exit(5)
        await asyncio.gather(inner())
    async def raises(): raise SystemExit(9)
    async def async_leaves_a_process():
        subprocess.Popen(["sleep", "60"])
        return "left"
"""


def test_the_crash_of_a_runner_is_its_attempts_failure(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        for function, said, code in (
            ("exits", "exit code 3", 3),
            ("segfaults", "killed by SIGSEGV", 139),
            ("kills_itself", "killed by SIGKILL", 137),
        ):
            outcome = await runners.run(function)
            assert (outcome.ok, outcome.stopped, outcome.exit_code) == (False, None, code)
            assert outcome.error == f"its runner process died: {said}"
            assert outcome.started is not None
            assert outcome.result is not None
            assert outcome.result["error"]["type"] == "RunnerDied"
            assert (await runners.run("me")).ok

    with_runners(tmp_path, TASKS, story)


def test_what_waited_behind_a_crash_runs_elsewhere(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        await runners.be_quick()
        futures = [runners.start(name)[1] for name in ["me", "exits", *["me"] * 10, "exits", *["me"] * 10]]
        outcomes = [await ends(f) for f in futures]
        assert [n for n, o in enumerate(outcomes) if not o.ok] == [1, 12]
        assert len({o.output for o in outcomes if o.ok}) == 3

    with_runners(tmp_path, TASKS, story)


@pytest.mark.parametrize("function", ["async_exits", "exits_below"])
def test_the_neighbours_of_a_crash_go_back_without_cost(tmp_path: Path, function: str) -> None:
    async def story(runners: Runners) -> None:
        assert (await runners.run("naps", seconds=0)).ok
        neighbours = [runners.start("naps")[1] for _ in range(20)]
        arguments = {"seconds": 0.2} if function == "async_exits" else {}
        outcome = await runners.run(function, **arguments)
        code = 4 if arguments else 5
        assert (outcome.ok, outcome.stopped, outcome.error) == (
            False, None, f"its runner process died: exit code {code}",
        )  # fmt: skip
        for future in neighbours:
            other = await ends(future)
            assert (other.ok, other.stopped) == (False, "drain")

    with_runners(tmp_path, TASKS, story)


def test_when_nobody_can_be_blamed_it_is_forgiven_once(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        for fault in (("drain", "drain"), (None, None)):
            assert (await runners.run("naps", seconds=0)).ok
            futures = [runners.start_with("tasks:naps", {}, task_id=task)[1] for task in (1001, 1002)]
            assert (await runners.run("naps", seconds=0.1)).ok  # they run by now
            (pid,) = runners.pids()
            os.kill(pid, signal.SIGKILL)
            assert tuple([(await ends(f)).stopped for f in futures]) == fault

    with_runners(tmp_path, TASKS, story)


def test_exit_in_an_async_function_harms_nobody_else(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        pid = (await runners.run("naps", seconds=0)).output
        _, neighbour = runners.start("naps", seconds=0.3)
        outcome = await runners.run("raises")
        assert not outcome.ok
        assert "called exit(9)" in str(outcome.error)
        assert (await ends(neighbour)).output == pid

    with_runners(tmp_path, TASKS, story)


def test_a_runner_that_lost_its_socket_is_ended(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        outcome = await ends(runners.start("closes_everything")[1], 10)
        assert not outcome.ok
        assert (await runners.run("me")).ok

    with_runners(tmp_path, TASKS, story)


@pytest.mark.parametrize("function", ["leaves_a_daemon", "async_leaves_a_process"])
def test_processes_that_a_function_left_end_with_it(tmp_path: Path, function: str) -> None:
    async def story(runners: Runners) -> None:
        pid = (await runners.run("me")).output
        outcome = await runners.run(function)
        assert (outcome.ok, outcome.output) == (True, "left")
        assert outcome.killed >= 1
        assert not [p for p in runners.pids() if p != pid]
        assert (await runners.run("me")).output != pid

    with_runners(tmp_path, TASKS, story)


def test_sigkill_of_the_spawner(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        _, future = runners.start("sleeps")
        await runners.until_file("up")
        (spawner,) = runners.shell.spawner_pids
        link = runners.shell._links[0]
        while not link._leaders:  # what no sweep of the spawner saw cannot be known to be its
            await asyncio.sleep(0.01)
        begun = boottime()
        os.kill(spawner, signal.SIGKILL)
        outcome = await ends(future, 30)
        assert boottime() - begun < 10
        assert (outcome.ok, outcome.stopped) == (False, "drain")
        assert (await runners.run("me")).ok

    with_runners(tmp_path, TASKS, story)


class Node(NodeProcess):
    """A node in a process of its own, with its functions up."""

    def __init__(self, directory: Path, trust_s: float, *functions: str) -> None:
        Runners(directory, TASKS)
        super().__init__(Path(__file__).parent / "children.py", str(directory), str(trust_s), *functions)
        assert self.lines.readline() == "started\n"
        for number in range(1, len(functions) + 1):
            path = directory / f"up.{number}"
            assert eventually(lambda path=path: path.exists() and path.stat().st_size > 0, 20)  # type: ignore[misc]


def test_sigkill_of_the_node_leaves_nothing_after_two_seconds(tmp_path: Path) -> None:
    with Node(tmp_path, 0, "awkward", "sleeps") as node:
        assert eventually(lambda: len(processes_with(node.mark)) >= 5, 20)
        node.assert_killed_leaves_nothing()


def test_sigstop_of_the_node_past_its_trust_kills_what_it_runs(tmp_path: Path) -> None:
    with Node(tmp_path, 3.0, "awkward", "sleeps") as node:
        runners = [int((tmp_path / f"up.{n}").read_text()) for n in (1, 2)]
        node.assert_stopped_loses_its_lease(
            lambda: not [pid for pid in processes_with(node.mark) if pid in runners], 3 + 2, 2
        )


def test_the_directory_of_a_node_that_was_killed_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    with Node(tmp_path, 0, "sleeps") as node:
        (deserted,) = place.iterdir()
        node.process.kill()
        node.process.wait()

    async def story(runners: Runners) -> None:
        assert (await runners.run("me")).ok
        (alive,) = place.iterdir()
        assert alive != deserted
        async with Runners(tmp_path, TASKS) as others:
            assert (await others.run("me")).ok
            assert len(list(place.iterdir())) == 2, "the directory of a live node is left alone"
        assert (await runners.run("me")).ok

    with_runners(tmp_path, TASKS, story)
