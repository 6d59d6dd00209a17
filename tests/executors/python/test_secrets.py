"""Python attempts that have secrets: a runner of their own, whose output passes the masker."""

import asyncio
import os
from pathlib import Path

from tests.executors.attempts import ends, eventually
from tests.executors.python.runners import Runners, with_runners
from weft.executors.output import output_path

SECRET = "s3cr3t/of+ours"
SOURCE = """
import asyncio, os, subprocess, sys, time

AT_IMPORT = os.environ.get("TOKEN")

def me():
    return os.getpid()

def tell():
    print("printed", os.environ["TOKEN"])
    os.write(1, os.environb[b"TOKEN"] + b" below\\n")
    subprocess.run(["sh", "-c", 'echo "$TOKEN from a child"'], check=True)
    return [AT_IMPORT, os.environ["TOKEN"], os.getpid()]

async def tell_async():
    import weft
    print("async", os.environ["TOKEN"], weft.variables()["TOKEN"])
    await asyncio.sleep(0)
    return os.getpid()

def see():
    return [os.environ.get("TOKEN"), os.getpid()]

def fail():
    raise ValueError("cannot log in with " + os.environ["TOKEN"])

def die():
    print("last words", os.environ["TOKEN"], flush=True)
    os._exit(3)

def hang():
    with open("here", "w") as file:
        file.write("now")
    while True:
        time.sleep(0.01)

def leave():
    subprocess.Popen(["sleep", "100"])
    print("left")
    return 1
"""


def stored(runners: Runners, number: int) -> str:
    return Path(output_path(runners.output_dir, f"t{number}", 1, "stdout")).read_text()


def test_it_has_them_and_what_it_prints_is_masked(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        warm = (await runners.run("me")).output
        outcome = await ends(runners.start_with("tasks:tell", {}, secrets={"TOKEN": SECRET})[1])
        assert outcome.ok, outcome
        assert outcome.output[:2] == [SECRET, SECRET], "whoever gets the outcome masks its values"
        assert outcome.output[2] != warm
        expected = "printed ***\n*** below\n*** from a child\n"
        assert stored(runners, 2) == expected
        assert outcome.result is not None
        assert outcome.result["stdout"] == expected
        outcome = await ends(runners.start_with("tasks:tell_async", {}, secrets={"TOKEN": SECRET})[1])
        assert outcome.ok, outcome
        assert stored(runners, 3) == "async *** ***\n"
        assert (await runners.run("see")).output == [None, warm], "the warm one never had it"

    with_runners(tmp_path, SOURCE, story)


def test_its_runner_ends_with_it(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        outcomes = [ends(runners.start_with("tasks:me", {}, secrets={"TOKEN": SECRET})[1]) for _ in range(3)]
        pids = [outcome.output for outcome in await asyncio.gather(*outcomes)]
        assert len(set(pids)) == 3
        assert runners.executor.runner_count == 0
        assert not runners.pids()

    with_runners(tmp_path, SOURCE, story)


def test_a_traceback_and_last_words(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        outcome = await ends(runners.start_with("tasks:fail", {}, secrets={"TOKEN": SECRET})[1])
        assert not outcome.ok
        assert outcome.result is not None
        assert "cannot log in with ***" in outcome.result["stderr"]
        assert SECRET not in outcome.result["stderr"]
        outcome = await ends(runners.start_with("tasks:die", {}, secrets={"TOKEN": SECRET})[1])
        assert outcome.error is not None
        assert "runner process died" in outcome.error
        assert outcome.result is not None
        assert outcome.result["stdout"] == "last words ***\n"
        outcome = await ends(runners.start_with("tasks:leave", {}, secrets={"TOKEN": SECRET})[1])
        assert (outcome.ok, outcome.output) == (True, 1)
        assert outcome.killed >= 1

    with_runners(tmp_path, SOURCE, story)


def test_stops(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        launch, future = runners.start_with("tasks:hang", {}, secrets={"TOKEN": SECRET})
        runners.stop(launch)  # long before its runner is up
        outcome = await ends(future)
        assert (outcome.stopped, outcome.started) == ("cancel", None)
        launch, future = runners.start_with("tasks:hang", {}, secrets={"TOKEN": SECRET})
        await runners.until_file("here")
        runners.stop(launch)
        outcome = await ends(future)
        assert outcome.stopped == "cancel"
        assert outcome.started is not None
        assert eventually(lambda: not runners.pids(), 5)

    with_runners(tmp_path, SOURCE, story)


def test_a_warm_runner_that_has_inherited_a_secret_makes_way(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        value, pid = (await runners.run("see")).output
        assert value == "inherited"
        other = (await ends(runners.start_with("tasks:see", {}, hidden=("TOKEN",))[1])).output
        assert other[0] is None
        assert other[1] != pid
        again = (await ends(runners.start_with("tasks:see", {}, hidden=("TOKEN",))[1])).output
        assert again == other

    os.environ["TOKEN"] = "inherited"
    try:
        with_runners(tmp_path, SOURCE, story)
    finally:
        del os.environ["TOKEN"]


def test_a_runner_that_cannot_start_says_so(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        outcome = await ends(runners.start_with("tasks:me", {}, secrets={"TOKEN": SECRET})[1])
        assert outcome.error is not None
        assert outcome.error.startswith("no Python runner could be started: command not found")

    with_runners(tmp_path, SOURCE, story, python="/nowhere/python")
