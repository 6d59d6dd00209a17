"""Which runner gets what, and when a runner makes way for a new one."""

import asyncio
import os
from pathlib import Path

from tests.executors.attempts import ends
from weft.executors.linux import boottime

from .runners import Runners, with_runners

TASKS = """
    import asyncio, os, time
    hoard = []
    def me(): return os.getpid()
    def naps(): time.sleep(0.01)
    def waits(name):
        open(name + ".up", "w").write("up")
        while not os.path.exists(name): time.sleep(0.005)
        return os.getpid()
    def grows(size): hoard.append(bytearray(os.urandom(1)) * size); return os.getpid()
    async def waits_async(name):
        open(name + ".up", "w").write("up")
        while not os.path.exists(name): await asyncio.sleep(0.005)
        return os.getpid()
    async def many(name): await asyncio.sleep(0.3); return os.getpid()
    if os.path.exists("slow-import"): time.sleep(0.2)
"""


def test_runners_are_made_when_they_are_needed(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        assert runners.executor.runner_count == 0
        await runners.run("me")
        await runners.run("me")
        assert runners.executor.runner_count == 1
        futures = [runners.start("waits", name=f"f{n}")[1] for n in range(5)]
        for n in range(3):
            await runners.until_file(f"f{n}.up")
        assert runners.executor.runner_count == 3
        assert not (tmp_path / "f3.up").exists(), "a plain function has a runner to itself"
        for n in range(5):
            (tmp_path / f"f{n}").touch()
        assert len({(await ends(f)).output for f in futures}) == 3

    with_runners(tmp_path, TASKS, story, runners=3)


def test_a_runner_is_replaced_after_so_many_tasks(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        futures = [runners.start("me")[1] for _ in range(50)]
        pids = [(await ends(f)).output for f in futures]
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [10] * 5

    with_runners(tmp_path, TASKS, story, tasks_max=10)


def test_async_functions_count_as_well(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        (tmp_path / "x").touch()
        futures = [runners.start("waits_async", name="x")[1] for _ in range(30)]
        first = {(await ends(f)).output for f in futures}
        assert (await runners.run("waits_async", name="x")).output not in first

    with_runners(tmp_path, TASKS, story, tasks_max=10)


def test_a_runner_that_grew_is_replaced(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        first = (await runners.run("grows", size=1 << 20)).output
        assert (await runners.run("me")).output == first
        await asyncio.sleep(0.06)  # it is weighed every 50 ms
        assert (await runners.run("grows", size=64 << 20)).output == first
        assert (await runners.run("me")).output != first

    with_runners(tmp_path, TASKS, story, growth_max=32 << 20)


def test_changed_sources_are_heeded(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        runners.write("below.py", "VALUE = 1\n")
        runners.write("top.py", "import below\ndef value(): return below.VALUE\n")
        assert (await ends(runners.start_with("top:value", {})[1])).output == 1
        await asyncio.sleep(0.06)  # they are looked at every 50 ms
        assert (await ends(runners.start_with("top:value", {})[1])).output == 1
        runners.write("below.py", "VALUE = 22\n")
        await asyncio.sleep(0.06)
        futures = [runners.start_with("top:value", {})[1] for _ in range(5)]
        assert [(await ends(f)).output for f in futures] == [22] * 5

    with_runners(tmp_path, TASKS, story)


def test_idle_runners_end(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        await runners.run("me")
        end = boottime() + 10
        while runners.executor.runner_count:
            assert boottime() < end
            await asyncio.sleep(0.02)
        assert not runners.pids()
        assert (await runners.run("me")).ok

    with_runners(tmp_path, TASKS, story, idle_s=0.2)


def test_modules_of_one_name_in_two_directories_do_not_mix(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        for name in ("a", "b", "c"):
            runners.write(f"{name}/own.py", f"def name(): return {name!r}\n")
        futures = [
            (name, runners.start_with("own:name", {}, cwd=str(tmp_path / name))[1]) for name in ("a", "b", "c") * 4
        ]
        for name, future in futures:
            assert (await ends(future)).output == name
        assert runners.executor.runner_count <= 2

    with_runners(tmp_path, TASKS, story, runners=2)


def test_a_directory_that_never_rests_lets_another_have_its_turn(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        runners.write("b/own.py", "def name(): return 'b'\n")
        busy = [runners.start("naps")[1] for _ in range(300)]
        await ends(busy[0])
        outcome = await ends(runners.start_with("own:name", {}, cwd=str(tmp_path / "b"))[1], 5)
        assert outcome.output == "b"
        assert not busy[-1].done()
        for future in busy:
            assert (await ends(future)).ok

    with_runners(tmp_path, TASKS, story)


def test_async_functions_share_one_runner_up_to_a_hundred(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        assert (await ends(runners.start("waits_async", name="tasks.py")[1])).ok  # exists: it is known to be async
        futures = [runners.start("waits_async", name=f"f{n}")[1] for n in range(101)]
        for n in range(100):
            await runners.until_file(f"f{n}.up")
        await asyncio.sleep(0.1)
        assert not (tmp_path / "f100.up").exists()
        for n in range(101):
            (tmp_path / f"f{n}").touch()
        outcomes = [await ends(f) for f in futures]
        assert all(o.ok for o in outcomes)
        assert len({o.output for o in outcomes}) == 1

    with_runners(tmp_path, TASKS, story)


def test_plain_and_async_functions_take_turns_in_one_runner(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        busy = True

        async def keep_busy() -> None:
            while busy:
                assert (await runners.run("many", name="x")).ok

        loops = [asyncio.create_task(keep_busy()) for _ in range(5)]
        await asyncio.sleep(0.5)
        for _ in range(3):
            assert (await ends(runners.start("me")[1], 10)).ok
        busy = False
        await asyncio.gather(*loops)

    with_runners(tmp_path, TASKS, story)


def test_quick_functions_do_not_wait_behind_a_slow_one(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        await runners.be_quick()
        _, slow = runners.start("waits", name="end")
        quick = [runners.start("me")[1] for _ in range(40)]
        for future in quick:
            assert (await ends(future, 30)).ok
        assert not slow.done()
        (tmp_path / "end").touch()
        assert (await ends(slow)).ok

    with_runners(tmp_path, TASKS, story, runners=2)


def test_thousands_of_calls(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        begun = boottime()
        futures = [runners.start("me")[1] for _ in range(3000)]
        outcomes = [await ends(f) for f in futures]
        seconds = boottime() - begun
        assert all(o.ok for o in outcomes)
        assert 3 <= len({o.output for o in outcomes}) <= 8  # two at a time, replaced after 1,000 calls
        assert seconds < 10, f"{3000 / seconds:.0f} calls a second"
        assert not os.listdir(runners.output_dir)

    with_runners(tmp_path, TASKS, story, runners=2)
