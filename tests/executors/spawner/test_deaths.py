"""Sudden deaths: of the node, and of a spawner."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.executors.attempts import NodeProcess, eventually, is_alive, processes_with
from tests.executors.shells import CHILDREN, Shell
from weft.executors import linux
from weft.executors.linux import boottime

AWKWARD = "trap '' TERM HUP; setsid sh -c \"trap '' TERM; sleep 300\" & sleep 300 & echo > $UP; sleep 300; sleep 300"


class Node(NodeProcess):
    """A node in a process of its own, with its attempts up."""

    def __init__(self, directory: Path, count: int, trust_s: float, text: str) -> None:
        super().__init__(CHILDREN / "node.py", str(directory), str(count), str(trust_s), text)
        while not (line := self.lines.readline()).startswith("ready"):
            assert line, "the node ended before it was ready"
        self.spawners = [int(pid) for pid in line.split()[1:]]

    def __enter__(self) -> "Node":
        return self


def test_sigkill_of_the_node_leaves_nothing_after_two_seconds(tmp_path: Path) -> None:
    with Node(tmp_path, 12, 0, AWKWARD) as node:
        assert len(processes_with(node.mark)) > 36
        node.assert_killed_leaves_nothing()


def test_sigkill_of_the_node_with_hundreds_of_children(tmp_path: Path) -> None:
    with Node(tmp_path, 300, 0, "echo > $UP; exec sleep 300") as node:
        node.assert_killed_leaves_nothing()


def test_a_daemon_without_environment_dies_with_the_node(tmp_path: Path) -> None:
    text = f"{sys.executable} {CHILDREN}/daemon.py pid clean; echo > $UP; exec sleep 300"
    with Node(tmp_path, 1, 0, text) as node:
        pid = int((tmp_path / "pid").read_text())
        assert is_alive(pid)
        node.process.kill()
        assert eventually(lambda: not is_alive(pid), 2)


def test_a_node_that_left_its_socket_to_a_forked_child_is_dead_all_the_same(tmp_path: Path) -> None:
    """The spawner watches the process, not only the socket."""
    text = "echo > $UP; exec sleep 300"
    with Node(tmp_path, 1, 0, text) as node:
        # Hold the node's end of each spawner's socket, as a forked child of the node would.
        pidfd = os.pidfd_open(node.process.pid)
        held = duplicate_sockets(pidfd, node.process.pid)
        if not held:
            pytest.skip("needs pidfd_getfd")
        node.process.kill()
        assert eventually(lambda: not processes_with(node.mark), 2)
        for fd in [pidfd, *held]:
            os.close(fd)


def duplicate_sockets(pidfd: int, pid: int) -> list[int]:
    held = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
            fd = linux._libc.syscall(438, pidfd, int(name), 0)  # pidfd_getfd
            if fd >= 0:
                held.append(fd)
    return held


def test_sigstop_of_the_node_past_its_trust_kills_what_it_runs(tmp_path: Path) -> None:
    with Node(tmp_path, 6, 3.0, AWKWARD) as node:
        node.assert_stopped_loses_its_lease(lambda: node.nothing_left() or only_spawners(node), 3 + 2, 6)


def only_spawners(node: Node) -> bool:
    return all(pid in (node.process.pid, *node.spawners) for pid in processes_with(node.mark))


def dead_children(since: float) -> list[int]:
    """Zombies among this process's children that were started since then. It is a subreaper: orphans of earlier tests
    come here and may die at any time."""
    found = [(pid, linux.read_stat(pid)) for pid in linux.children(os.getpid())]
    return [pid for pid, stat in found if stat is not None and stat.dead and stat.started >= since]


def test_sigkill_of_a_spawner(tmp_path: Path) -> None:
    first = boottime()

    async def main() -> None:
        async with Shell(tmp_path, spawners=1) as shell:
            daemon = f"{sys.executable} {CHILDREN}/daemon.py pid clean; exec sleep 300"
            text = "trap '' TERM; setsid sleep 300 & sleep 300 & echo up > up.$N; sleep 300"
            futures = [shell.start(daemon)[1]]
            futures += [shell.start(text, env={"N": str(n)})[1] for n in range(5)]
            for n in range(5):
                await shell.until_file(f"up.{n}")
            stray = int(await shell.until_file("pid"))
            await orphan_reported(shell, stray)
            old = shell.executor.spawner_pids
            begun = boottime()
            os.kill(old[0], signal.SIGKILL)
            outcomes = await asyncio.wait_for(asyncio.gather(*futures), 30)
            assert boottime() - begun < 10
            assert {(o.ok, o.error, o.startable) for o in outcomes} == {(False, "the spawner died", False)}
            assert not processes_with(shell.mark)
            assert not is_alive(stray)
            # and it goes on with a new one
            assert (await shell.run("true")).ok
            assert shell.executor.spawner_pids != old
            assert not dead_children(first), "zombies are left"

    asyncio.run(main())


async def orphan_reported(shell: Shell, pid: int) -> None:
    """A sweep must have seen the orphan: what no sweep saw cannot be known to be the spawner's."""
    link = shell.executor._links[0]
    end = boottime() + 10
    while pid not in link._orphans:
        assert boottime() < end
        await asyncio.sleep(0.01)


def test_starts_that_the_dead_spawner_never_saw_are_reported(tmp_path: Path) -> None:
    async def main() -> None:
        async with Shell(tmp_path, spawners=1) as shell:
            await shell.run("true")
            os.kill(shell.executor.spawner_pids[0], signal.SIGKILL)
            futures = [shell.start("sleep 300")[1] for _ in range(5)]
            outcomes = await asyncio.wait_for(asyncio.gather(*futures), 30)
            assert all(not o.ok and not o.startable for o in outcomes)
            assert (await shell.run("true")).ok

    asyncio.run(main())


def test_the_spawner_ignores_the_signals_of_a_terminal(tmp_path: Path) -> None:
    async def main() -> None:
        async with Shell(tmp_path, spawners=1) as shell:
            await shell.run("true")
            pid = shell.executor.spawner_pids[0]
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                os.kill(pid, number)
            assert (await shell.run("true")).ok
            assert shell.executor.spawner_pids == [pid]
            assert os.getsid(pid) == pid

    asyncio.run(main())
