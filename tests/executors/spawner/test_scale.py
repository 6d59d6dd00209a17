"""Many at once, and nothing at all."""

import asyncio
import os
import resource
from pathlib import Path

from tests.executors.attempts import processes_with
from tests.executors.shells import Shell
from weft.executors.linux import boottime


def rss_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def wakeups(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def test_600_sleeping_attempts_on_one_spawner(tmp_path: Path) -> None:
    async def main() -> None:
        async with Shell(tmp_path, spawners=1) as shell:
            await shell.run("true")
            before = rss_kib(os.getpid())
            pairs = [shell.start("exec sleep 300") for _ in range(600)]
            end = boottime() + 60
            while len(processes_with(shell.mark)) < 600:
                assert boottime() < end
                await asyncio.sleep(0.05)
            assert rss_kib(os.getpid()) - before < 10 * 1024
            assert all(rss_kib(pid) < 24 * 1024 for pid in shell.executor.spawner_pids)
            # The list of children now spans pages, and an orphan is still found at its end.
            assert (await shell.run("setsid sleep 300 & true")).killed == 1
            begun = boottime()
            for launch, _ in pairs:
                shell.stop(launch, "cancel", 5)
            outcomes = await asyncio.wait_for(asyncio.gather(*[future for _, future in pairs]), 20)
            assert boottime() - begun < 15
            assert {(o.stopped, o.exit_code, o.killed) for o in outcomes} == {("cancel", 143, 0)}

    asyncio.run(main())


def test_the_limit_of_open_files_is_the_nodes_for_commands_and_higher_for_the_spawner(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 200 + len(os.listdir("/proc/self/fd"))  # other tests may have left files open in this process
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:

        async def main() -> None:
            async with Shell(tmp_path, spawners=1) as shell:
                futures = [shell.start("ulimit -n; sleep 0.5")[1] for _ in range(200)]  # two files each
                outcomes = await asyncio.wait_for(asyncio.gather(*futures), 30)
                assert {o.result["stdout"] for o in outcomes if o.result} == {f"{limit}\n"}

        asyncio.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_idle_spawner_sleeps(tmp_path: Path) -> None:
    async def main() -> None:
        async with Shell(tmp_path, spawners=1) as shell:
            await shell.run("echo something")
            (pid,) = shell.executor.spawner_pids
            shell.executor.trust(boottime() + 60)
            await asyncio.sleep(0.3)
            before = wakeups(pid)
            await asyncio.sleep(1.0)
            assert wakeups(pid) == before
            assert os.readlink(f"/proc/{pid}/cwd") == "/"

    asyncio.run(main())


def test_more_spawners_only_when_they_are_needed(tmp_path: Path) -> None:
    async def main() -> None:
        async with Shell(tmp_path, spawners=3) as shell:
            for _ in range(5):
                await shell.run("true")
            assert len(shell.executor.spawner_pids) == 1
            await asyncio.gather(*[shell.start("sleep 0.1")[1] for _ in range(20)])
            assert len(shell.executor.spawner_pids) == 3

    asyncio.run(main())
