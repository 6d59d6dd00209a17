"""How fast the shell executor alone starts and ends processes, beside xargs and make.

    python bench/shell_executor.py [--count 2000] [--parallel 8] [--rounds 3]

All three run the same number of `true` at the same width, in turns, so that they share what else the machine
does; the best round of each counts. CPU time is user and system time of everything, the commands included.
"""

import argparse
import asyncio
import os
import resource
import subprocess
import tempfile
import time
from typing import Any, NamedTuple

from weft.executors.protocol import Launch, Outcome
from weft.executors.shell.executor import ShellExecutor


def spec_launch(number: int, directory: str, text: str) -> Launch:
    return Launch(
        task_id=number,
        attempt=1,
        run_id="bench",
        task=f"task-{number}",
        kind="shell",
        spec={"run": text, "shell": "sh"},
        env={"WEFT_RUN_ID": "bench", "WEFT_TASK": f"task-{number}", "WEFT_ATTEMPT": "1"},
        cwd=None,
        output_dir=directory,
        output_max=8 << 20,
    )


class Round(NamedTuple):
    wall_s: float
    cpu_s: float  # of everything: the runner and all its children
    node_s: float = 0.0
    spawner_s: float = 0.0


async def run_weft(count: int, parallel: int, text: str) -> Round:
    executor = ShellExecutor(workdir="/")
    await executor.open()
    done = asyncio.get_running_loop().create_future()
    started = ended = 0
    with tempfile.TemporaryDirectory() as directory:

        def begin() -> None:
            nonlocal started
            started += 1
            executor.start(spec_launch(started, directory, text), finished)

        def finished(outcome: Outcome) -> None:
            nonlocal ended
            if not outcome.ok:
                raise RuntimeError(outcome.error)
            ended += 1
            if started < count:
                begin()
            elif ended == count:
                done.set_result(None)

        cpu = time.process_time()
        clock = time.perf_counter()
        for _ in range(parallel):
            begin()
        await done
        wall = time.perf_counter() - clock
        node = time.process_time() - cpu
        spawner, children = map(sum, zip(*map(cpu_of, executor.spawner_pids), strict=True))
        await executor.close()
    return Round(wall, node + spawner + children, node, spawner)


def cpu_of(pid: int) -> tuple[float, float]:
    """Seconds of a process, and of the children that it reaped."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = [int(field) for field in file.read().rsplit(b") ", 1)[1].split()[11:15]]
    tick = os.sysconf("SC_CLK_TCK")
    return (fields[0] + fields[1]) / tick, (fields[2] + fields[3]) / tick


def run_command(argv: list[str], **options: Any) -> Round:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    clock = time.perf_counter()
    subprocess.run(argv, check=True, **options)
    wall = time.perf_counter() - clock
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Round(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def run_xargs(count: int, parallel: int, text: str) -> Round:
    return run_command(["sh", "-c", f"seq {count} | xargs -P{parallel} -I{{}} sh -c '{text}'"])


def run_make(count: int, parallel: int, text: str) -> Round:
    names = " ".join(f"t{n}" for n in range(count))
    # The semicolon makes make use a shell, as the other two do, instead of running the program itself.
    makefile = f"all: {names}\n.PHONY: all {names}\n{names}:\n\t@{text};\n"
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(makefile)
        file.flush()
        return run_command(["make", "-s", f"-j{parallel}", "-f", file.name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--text", default="true")
    options = parser.parse_args()
    count, work = options.count, (options.count, options.parallel, options.text)
    rounds: dict[str, list[Round]] = {"weft": [], "xargs": [], "make": []}
    for _ in range(options.rounds):
        rounds["weft"].append(asyncio.run(run_weft(*work)))
        rounds["xargs"].append(run_xargs(*work))
        rounds["make"].append(run_make(*work))
    weft = min(rounds["weft"])
    for name, results in rounds.items():
        best = min(results)
        cpu_us = min(result.cpu_s for result in results) / count * 1e6
        share = f"   weft's rate is {best.wall_s / weft.wall_s:.2f} of it" if name != "weft" else ""
        print(f"{name:6} {count / best.wall_s:6.0f}/s   {cpu_us:5.0f} µs of CPU each{share}")
    node_us, spawner_us = weft.node_s / count * 1e6, weft.spawner_s / count * 1e6
    print(f"of weft's: node {node_us:.0f} µs, spawner {spawner_us:.0f} µs, the rest in the commands themselves")


if __name__ == "__main__":
    main()
