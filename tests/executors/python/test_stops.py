"""Timeout and cancel, on functions that heed them and on those that never return."""

import asyncio
from pathlib import Path

from tests.executors.attempts import ends
from weft.executors.linux import boottime

from .runners import Runners, with_runners

TASKS = """
    import asyncio, ctypes, os, subprocess, threading, time
    import weft

    def up(name): open(name, "w").write(str(os.getpid()))
    def me(): return os.getpid()
    def sleeps(name="up"): up(name); time.sleep(60)
    def spins(name="up"):
        up(name)
        while True: pass
    def in_c(name="up"):
        up(name)
        ctypes.PyDLL(None).sleep(60)  # with the interpreter's lock held: no Python code can run
    def cleans_up():
        up("up")
        try:
            time.sleep(60)
        except weft.Stopped:
            print("cleaning"); open("cleaned", "w").write("yes")
            raise
    def swallows_exceptions():
        up("up")
        while True:
            try: time.sleep(60)
            except Exception: print("not I")
    def refuses():
        up("up")
        while True:
            try: time.sleep(60)
            except BaseException: print("never")
    def pretends():
        up("up")
        try: time.sleep(60)
        except weft.Stopped: return "all is well"
    def waits_for_a_child():
        process = subprocess.Popen(["sh", "-c", "trap '' TERM; echo $$ > child; sleep 60 & sleep 60; sleep 60"])
        process.wait()
    def waits_for_a_lock():
        up("up")
        lock = threading.Lock(); lock.acquire(); lock.acquire()
    def short(): time.sleep(0.05); return "done"
    def runs_a_loop():
        async def main(): up("up"); await asyncio.sleep(60)
        asyncio.run(main())
    def returns_a_coroutine():
        async def main(): up("up"); await asyncio.sleep(60)
        return main()

    async def naps(name="up"): up(name); await asyncio.sleep(60)
    async def brief(seconds): await asyncio.sleep(seconds); return os.getpid()
    async def tidies():
        up("up")
        try: await asyncio.sleep(60)
        finally: print("tidied")
    async def stubborn(name="up"):
        up(name)
        while True:
            try: await asyncio.sleep(60)
            except asyncio.CancelledError: pass
    async def blocks(): up("up"); time.sleep(60)
    async def leaves_a_task():
        asyncio.create_task(beeps())
        await asyncio.sleep(0)
        return "left"
    async def beeps():
        try: await asyncio.sleep(60)
        finally: print("ended as well")
"""


def test_plain_functions_are_interrupted_and_their_runner_goes_on(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        pid = (await runners.run("me")).output
        for function in ("sleeps", "spins", "waits_for_a_lock", "runs_a_loop", "returns_a_coroutine"):
            launch, future = runners.start(function)
            await runners.until_file("up")
            begun = boottime()
            runners.stop(launch, "timeout", 20)
            outcome = await ends(future)
            assert boottime() - begun < 10
            assert (outcome.ok, outcome.stopped, outcome.error) == (False, "timeout", "stopped (timeout)"), function
            assert outcome.result is not None
            traceback = outcome.result["error"]["traceback"]
            assert "python_runner/" not in traceback
            if function != "returns_a_coroutine":  # which stands in the loop, not in its own code
                assert "tasks.py" in traceback, "it is told where it stood"
            (tmp_path / "up").unlink()
            assert (await runners.run("me")).output == pid, function

    with_runners(tmp_path, TASKS, story)


def test_a_function_can_clean_up_but_not_swallow_it_by_chance(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        for function, said in (("cleans_up", "cleaning\n"), ("swallows_exceptions", ""), ("pretends", "")):
            launch, future = runners.start(function)
            await runners.until_file("up")
            runners.stop(launch, "cancel", 20)
            outcome = await ends(future, 30)
            assert (outcome.ok, outcome.stopped) == (False, "cancel"), function
            assert outcome.result is not None
            assert outcome.result["stdout"] == said
            (tmp_path / "up").unlink()
        assert (tmp_path / "cleaned").exists()

    with_runners(tmp_path, TASKS, story)


def test_what_does_not_heed_a_stop_is_killed_after_the_grace(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        for function in ("refuses", "in_c", "stubborn", "blocks"):
            launch, future = runners.start(function)
            pid = int(await runners.until_file("up"))
            begun = boottime()
            runners.stop(launch, "timeout", 0.3)
            outcome = await ends(future)
            assert 0.3 <= boottime() - begun < 10, function
            assert (outcome.ok, outcome.stopped, outcome.exit_code) == (False, "timeout", 137), function
            assert outcome.killed >= 1
            (tmp_path / "up").unlink()
            assert (await runners.run("me")).output != pid

    with_runners(tmp_path, TASKS, story)


def test_no_grace_is_no_grace(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        launch, future = runners.start("cleans_up")
        await runners.until_file("up")
        begun = boottime()
        runners.stop(launch, "cancel", 0)
        outcome = await ends(future)
        assert boottime() - begun < 5
        assert outcome.stopped == "cancel"
        assert not (tmp_path / "cleaned").exists()

    with_runners(tmp_path, TASKS, story)


def test_a_second_stop_can_shorten_the_grace(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        launch, future = runners.start("refuses")
        await runners.until_file("up")
        runners.stop(launch, "cancel", 60)
        runners.stop(launch, "drain", 0.1)
        assert (await ends(future, 30)).stopped == "cancel"

    with_runners(tmp_path, TASKS, story)


def test_children_die_with_the_function(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        launch, future = runners.start("waits_for_a_child")
        await runners.until_file("child")
        while len(runners.pids()) < 3:  # the shell writes its file before it starts what it waits for
            await asyncio.sleep(0.02)
        runners.stop(launch, "cancel", 0.5)
        outcome = await ends(future, 30)
        assert outcome.stopped == "cancel"
        assert outcome.killed >= 2
        assert not runners.pids()

    with_runners(tmp_path, TASKS, story)


def test_others_in_the_queue_are_not_affected(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        await runners.be_quick()
        launch, future = runners.start("refuses")
        behind = [runners.start("me")[1] for _ in range(10)]
        await runners.until_file("up")
        runners.stop(launch, "timeout", 0.2)
        assert (await ends(future)).stopped == "timeout"
        assert [(await ends(f)).ok for f in behind] == [True] * 10

    with_runners(tmp_path, TASKS, story)


def test_one_that_waits_is_stopped_without_a_start(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        first, running = runners.start("sleeps")
        await runners.until_file("up")
        waiting, future = runners.start("sleeps", name="never")
        runners.stop(waiting, "cancel", 10)
        runners.stop(waiting, "cancel", 0)
        outcome = await ends(future, 2)
        assert (outcome.ok, outcome.stopped, outcome.started) == (False, "cancel", None)
        runners.stop(first, "cancel", 5)
        await ends(running)
        assert not (tmp_path / "never").exists()

    with_runners(tmp_path, TASKS, story)


def test_one_that_was_given_ahead_is_stopped_without_a_start(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        await runners.be_quick()
        first, running = runners.start("sleeps")
        ahead, future = runners.start("sleeps", name="never")
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # both are on their way
        runners.stop(ahead, "cancel", 0)
        outcome = await ends(future, 2)
        assert (outcome.stopped, outcome.started) == ("cancel", None)
        assert not running.done()
        runners.stop(first, "cancel", 5)
        assert (await ends(running)).stopped == "cancel"
        assert not (tmp_path / "never").exists()

    with_runners(tmp_path, TASKS, story)


def test_waiting_for_a_runner_does_not_count_for_a_timeout(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        first, running = runners.start("sleeps")
        await runners.until_file("up")
        waiting, future = runners.start("short")
        endless, other = runners.start("sleeps", name="again")
        loop = asyncio.get_running_loop()
        for launch in (waiting, endless):
            loop.call_later(0.3, runners.stop, launch, "timeout", 5)  # as a node does it
        loop.call_later(0.6, runners.stop, first, "cancel", 5)
        assert (await ends(future)).output == "done"
        begun = boottime()
        late = await ends(other, 30)
        assert late.stopped == "timeout"
        assert late.started is not None
        assert late.ended - late.started >= 0.29
        assert boottime() - begun < 10
        assert (await ends(running)).stopped == "cancel"

    with_runners(tmp_path, TASKS, story)


def test_a_stop_that_comes_too_late_changes_nothing(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        launch, future = runners.start("me")
        assert (await ends(future)).ok
        runners.stop(launch)
        for _ in range(50):
            launch, future = runners.start("short")
            await asyncio.sleep(0.048)
            runners.stop(launch, "cancel", 5)
            outcome = await ends(future)
            assert outcome.ok or outcome.stopped == "cancel"
            assert (await runners.run("me")).ok, "a late stop must not hit the next one"
        runners.executor.stop(12345, 1, "cancel", 1)

    with_runners(tmp_path, TASKS, story)


def test_async_functions_are_cancelled_one_by_one(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        pid = (await runners.run("brief", seconds=0)).output
        launch, future = runners.start("tidies")
        _, neighbour = runners.start("brief", seconds=0.5)
        await runners.until_file("up")
        runners.stop(launch, "timeout", 20)
        outcome = await ends(future, 30)
        assert (outcome.ok, outcome.stopped) == (False, "timeout")
        assert outcome.result is not None
        assert outcome.result["stdout"] == "tidied\n"
        assert (await ends(neighbour)).output == pid

    with_runners(tmp_path, TASKS, story)


def test_neighbours_of_a_stubborn_async_function_go_back_without_cost(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        await runners.run("brief", seconds=0)
        launch, future = runners.start("stubborn")
        _, neighbour = runners.start("brief", seconds=30)
        await runners.until_file("up")
        runners.stop(launch, "cancel", 0.2)
        assert (await ends(future)).stopped == "cancel"
        outcome = await ends(neighbour)
        assert (outcome.ok, outcome.stopped) == (False, "drain")
        assert (await runners.run("brief", seconds=0)).ok

    with_runners(tmp_path, TASKS, story)


def test_tasks_that_an_async_function_left_end_with_it(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        outcome = await runners.run("leaves_a_task")
        assert outcome.output == "left"
        assert outcome.result is not None
        assert outcome.result["stdout"] == "ended as well\n"

    with_runners(tmp_path, TASKS, story)


def test_close_ends_everything_and_reports_it(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        futures = [runners.start("refuses")[1], runners.start("sleeps", name="b")[1], runners.start("naps")[1]]
        await runners.until_file("up")
        await runners.executor.close()
        assert [f.result().stopped for f in futures] == ["drain"] * 3

    with_runners(tmp_path, TASKS, story)
