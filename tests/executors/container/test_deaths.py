"""A node that is killed, or paused past its trust: its spawner removes its containers, unless they may be adopted."""

import asyncio
import os
import sys
from pathlib import Path

from tests.executors.attempts import NodeProcess, eventually
from tests.executors.container.containers import Containers

NODE = Path(__file__).parent / "container_node.py"


def test_a_killed_node_leaves_no_container(containers: Containers, private_files: Path) -> None:
    with NodeProcess(NODE, containers.podman.socket, str(containers.directory), containers.run_id, "6", "0") as node:
        assert node.lines.readline() == "running 6\n"
        names = containers.left()
        assert len(names) == 6
        node.process.kill()
        kept = [name for name in names if "kept" in name]
        assert len(kept) == 1
        assert eventually(lambda: containers.left() == kept, 5), containers.left()
        assert eventually(lambda: len(list(private_files.iterdir())) == 1, 5), list(private_files.iterdir())
    containers.podman.run("rm", "-f", "-t", "0", *kept)


def test_a_node_that_is_stopped_past_its_trust_loses_its_containers(containers: Containers) -> None:
    with NodeProcess(
        NODE, containers.podman.socket, str(containers.directory), containers.run_id, "2", "1.5"
    ) as node:
        assert node.lines.readline() == "running 2\n"

        def only_kept() -> bool:
            return all("kept" in name for name in containers.left())

        assert not only_kept()
        node.assert_stopped_loses_its_lease(only_kept, 8, 2)
        containers.podman.run("rm", "-f", "-t", "0", *containers.left())


def test_a_will_is_given_to_the_next_spawner() -> None:
    """The spawner that has it dies: another gets it, and carries it out when the node is past its trust."""
    from tests.executors.attempts import is_alive
    from weft.executors import linux
    from weft.executors.shell.executor import ShellExecutor

    async def story(path: Path) -> None:
        shell = ShellExecutor(spawners=1)
        await shell.open()
        try:
            program = f"open({str(path)!r}, 'a').write('done')"
            shell.last_will(tuple(map(str.encode, (sys.executable, "-I", "-S", "-c", program))))
            (first,) = shell.spawner_pids
            os.kill(first, 9)
            for _ in range(500):
                if shell.spawner_pids not in ([], [first]):
                    break
                await asyncio.sleep(0.01)
            assert not is_alive(first)
            shell.trust(linux.boottime() + 0.1)
            for _ in range(1000):
                if path.exists() and path.read_text():
                    break
                await asyncio.sleep(0.01)
            assert path.read_text() == "done"
            shell.trust(linux.boottime() + 60)
        finally:
            await shell.close()
        assert path.read_text() == "done"  # once: an orderly end does not carry it out

    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(story(Path(directory) / "will"))
