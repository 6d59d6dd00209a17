"""What functions print belongs to their attempt, whichever way they print it."""

import asyncio
import os
import time
from pathlib import Path

from tests.executors.attempts import ends
from weft.executors.linux import boottime

from .runners import Runners, with_runners

TASKS = """
    import asyncio, logging, os, subprocess, sys, threading, time

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")

    def chatty(name):
        print("print", name)
        print("error", name, file=sys.stderr)
        logging.info("log %s", name)
        os.write(1, b"raw\\n")
        subprocess.run(["sh", "-c", "echo child; echo oops >&2"], check=True)
        sys.stdout.buffer.write(b"bytes \\xff\\n")
        sys.stdout.buffer.flush()
        thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
    def quiet(): pass
    def no_newline(): print("end", end="")
    def odd(): print("half \\udc80 pair")
    def closes():
        print("before")
        sys.stdout.close()
        os.close(1)
    def talk_on(path):
        print("first"); open(path, "w").write("up")
        time.sleep(30)
    def flood(count):
        block = b"0123456789abcde\\n" * 65536
        for _ in range(count): os.write(1, block)
    def slow_flood(count):
        for _ in range(count):
            print("0123456789abcde\\n" * 65536, end="")
            time.sleep(0.02)
    def dies(): print("last words"); os._exit(1)
    def segfault():
        import ctypes
        print("deep breath"); ctypes.string_at(0)

    async def side(name, seconds):
        for word in ("one", "two"):
            print(word, name); logging.warning("%s %s", word, name)
            await asyncio.sleep(seconds)
        await asyncio.gather(*(inner(name) for _ in range(2)))
        return name
    async def inner(name):  # each line is one write: `print` makes several, and another thread's may come between
        sys.stdout.write(f"inner {name}\\n")
        await asyncio.to_thread(sys.stdout.write, f"thread {name}\\n")
    async def handed():
        process = await asyncio.create_subprocess_exec("echo", "child", stdout=sys.stdout)
        await process.wait()
    async def async_dies(): print("async last words"); os._exit(1)
"""


def test_every_way_to_print(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        for name in ("a", "b"):
            outcome = await runners.run("chatty", name=name)
            assert outcome.result is not None
            assert outcome.result["stdout"] == f"print {name}\nraw\nchild\nbytes \\xff\nthread\n"
            assert outcome.result["stdoutEscaped"]
            assert outcome.result["stderr"] == f"error {name}\nINFO log {name}\noops\n"
            quiet = await runners.run("quiet")
            assert quiet.result == {"exitCode": 0, "stdout": "", "stderr": ""}
        assert sorted(os.listdir(runners.output_dir)) == ["t1.1.err", "t1.1.out", "t3.1.err", "t3.1.out"]
        assert Path(runners.output_dir, "t3.1.out").read_bytes() == b"print b\nraw\nchild\nbytes \xff\nthread\n"
        for function, text in (("no_newline", "end"), ("odd", "half \\udc80 pair\n"), ("closes", "before\n")):
            outcome = await runners.run(function)
            assert outcome.ok
            assert outcome.result is not None
            assert outcome.result["stdout"] == text
        last = await runners.run("chatty", name="c")
        assert last.result is not None
        assert last.result["stdout"].startswith("print c\n")

    with_runners(tmp_path, TASKS, story)


def test_output_can_be_read_while_the_function_runs(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        launch, future = runners.start("talk_on", path="up")
        await runners.until_file("up")
        assert await runners.until_file("output/t1.1.out") == "first\n"
        runners.stop(launch, grace_s=0)
        outcome = await ends(future)
        assert outcome.result is not None
        assert outcome.result["stdout"] == "first\n"

    with_runners(tmp_path, TASKS, story)


def test_output_over_the_cap_loses_its_middle(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        for function, count in (("flood", 64), ("slow_flood", 20)):
            _, future = runners.start_with(f"tasks:{function}", {"count": count}, output_max=1 << 20)
            outcome = await ends(future)
            assert outcome.ok
            assert outcome.result is not None
            assert outcome.result["stdoutBytes"] == count << 20
            assert outcome.result["stdoutKept"] == [1 << 19, 1 << 19]
            assert outcome.result["stdout"].endswith("0123456789abcde\n")
            path = Path(runners.output_dir, f"t{outcome.task_id}.1.out")
            assert path.stat().st_blocks * 512 <= (1 << 20) + 8192

    with_runners(tmp_path, TASKS, story)


def test_disk_use_stays_bounded_during_a_flood(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        _, future = runners.start_with("tasks:slow_flood", {"count": 40}, output_max=1 << 20)
        most = 0
        path = Path(runners.output_dir, "t1.1.out")
        while not future.done():
            if path.exists():
                most = max(most, path.stat().st_blocks * 512)
            await asyncio.sleep(0.01)
        assert (await ends(future)).ok
        assert 0 < most < 20 << 20, most

    with_runners(tmp_path, TASKS, story)


def test_last_words_before_a_crash_are_kept(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        outcome = await runners.run("dies")
        assert outcome.result is not None
        assert outcome.result["stdout"] == "last words\n"
        crash = await runners.run("segfault")
        assert crash.result is not None
        assert crash.result["stdout"] == "deep breath\n"
        assert "Segmentation fault" in crash.result["stderr"]
        assert 'tasks.py", line' in crash.result["stderr"], "the place is told"
        side = await runners.run("async_dies")
        assert side.result is not None
        assert side.result["stdout"] == "async last words\n"

    with_runners(tmp_path, TASKS, story)


def test_async_functions_side_by_side_keep_their_output_apart(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        await runners.run("side", name="first", seconds=0)
        begun = boottime()
        futures = [runners.start("side", name=f"n{n}", seconds=0.1)[1] for n in range(50)]
        outcomes = [await ends(f) for f in futures]
        assert boottime() - begun < 15, "they waited for one another"
        for n, outcome in enumerate(outcomes):
            assert outcome.output == f"n{n}"
            assert outcome.result is not None
            assert sorted(outcome.result["stdout"].split("\n")) == sorted(
                ["", f"inner n{n}", f"inner n{n}", f"one n{n}", f"thread n{n}", f"thread n{n}", f"two n{n}"]
            )
            assert outcome.result["stderr"] == f"WARNING one n{n}\nWARNING two n{n}\n"
        handed = await runners.run("handed")
        assert handed.result is not None
        assert handed.result["stdout"] == "child\n"
        assert runners.executor.runner_count == 1

    with_runners(tmp_path, TASKS, story)


def test_an_output_directory_that_cannot_be_made_fails_the_attempt(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        (tmp_path / "file").write_text("")
        _, future = runners.start_with("tasks:quiet", {}, output_dir=str(tmp_path / "file" / "below"))
        outcome = await ends(future)
        assert not outcome.ok
        assert "cannot create the output files" in str(outcome.error)
        assert (await runners.run("quiet")).ok

    with_runners(tmp_path, TASKS, story)


def test_thousands_of_lines_are_quick(tmp_path: Path) -> None:
    source = "def lines(n):\n    for i in range(n): print(i)\n"

    async def story(runners: Runners) -> None:
        begun = time.monotonic()
        outcome = await runners.run("lines", n=100_000)
        assert outcome.result is not None
        assert outcome.result["stdout"].endswith("\n99999\n")
        assert outcome.result["stdoutTruncated"]
        assert time.monotonic() - begun < 10

    with_runners(tmp_path, source, story)
