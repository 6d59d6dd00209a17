"""Real processes: against xargs and make in the same run, `weft run` as people call it, start latency, and memory
beside 500 sleepers."""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.harness import Result, directory, node_on
from bench.shell_executor import Round, run_command, run_xargs
from weft.store.protocol import Store

COUNT = 2000
PARALLEL = 8
ROUNDS = 3


def _xargs() -> float:
    started = time.perf_counter()
    subprocess.run(
        ["sh", "-c", f"seq {COUNT} | xargs -P{PARALLEL} -I{{}} sh -c true"], check=True, stdin=subprocess.DEVNULL
    )
    return COUNT / (time.perf_counter() - started)


def _make(path: Path) -> float:
    names = " ".join(f"t{i}" for i in range(COUNT))
    # `:;` keeps make from running the command without a shell, as it does for a single word
    (path / "Makefile").write_text(f".PHONY: all {names}\nall: {names}\n{names}:\n\t@true;\n")
    started = time.perf_counter()
    subprocess.run(["make", "-s", f"-j{PARALLEL}", "all"], cwd=path, check=True, stdin=subprocess.DEVNULL)
    return COUNT / (time.perf_counter() - started)


async def commands(path: Path, store: Store | None = None) -> float:
    async with node_on(path, PARALLEL, None, store) as bench:
        flow = bench.compile({f"t{i}": {"run": "true"} for i in range(COUNT)})
        return COUNT / await bench.run(*flow, every_s=0.01)


async def throughput() -> list[Result]:
    """Interleaved rounds, so that a slow moment of the machine hits all three."""
    ours, xargs, make = [], [], []
    for _ in range(ROUNDS):
        with directory() as path:
            ours.append(await commands(path))
            if shutil.which("xargs"):
                xargs.append(_xargs())
            if shutil.which("make"):
                make.append(_make(path))
    out = [Result("shell `true`", max(ours), "tasks/s", None, lower=False, note=f"{COUNT}, {PARALLEL} at a time")]
    if xargs:
        note = f"xargs -P{PARALLEL}: {max(xargs):.0f}/s"
        out.append(Result("… against xargs", max(ours) / max(xargs), "×", 1.1, lower=False, note=note))
    if make:
        note = f"make -j{PARALLEL}: {max(make):.0f}/s"
        out.append(Result("… against make", max(ours) / max(make), "×", 1.0, lower=False, note=note))
    return out


def _weft_run(path: Path) -> Round:
    """From the start of Python to its end, with a line for each change: not as a terminal would get them."""
    tasks = "".join(f"  t{i}:\n    run: 'true'\n" for i in range(COUNT))
    (path / "many.yaml").write_text(f"name: many\ntasks:\n{tasks}")
    argv = [sys.executable, "-m", "weft", "run", "many.yaml", "--slots", str(PARALLEL)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # nobody compiles Weft at each start
    with (path / "lines").open("wb") as lines:
        return run_command(argv, cwd=path, env=env, stdin=subprocess.DEVNULL, stdout=lines, stderr=lines)


async def command_line() -> list[Result]:
    """Processor time of the whole process tree, which other load on the machine changes less than the rate."""
    ours: list[Round] = []
    xargs: list[Round] = []
    for _ in range(ROUNDS):
        with directory() as path:
            ours.append(_weft_run(path))
        if shutil.which("xargs"):
            xargs.append(run_xargs(COUNT, PARALLEL, "true"))
    cpu_s, wall_s = min(one.cpu_s for one in ours), min(one.wall_s for one in ours)
    out = [Result("`weft run` of `true`", cpu_s / COUNT * 1e6, "µs of processor a task", None, lower=True)]
    if xargs:
        theirs = min(one.cpu_s for one in xargs)
        note = f"xargs -P{PARALLEL}: {theirs / COUNT * 1e6:.0f} µs"
        out.append(Result("… xargs' processor time against it", theirs / cpu_s, "×", 0.9, lower=False, note=note))
        rate = min(one.wall_s for one in xargs) / wall_s
        out.append(Result("… its rate against xargs", rate, "×", 0.9, lower=False))
    return out


async def latency() -> list[Result]:
    """Submit in this process → the process runs: it writes its own clock."""
    delays = []
    with directory() as path:
        async with node_on(path, 4) as bench:
            probe = bench.compile({"t": {"argv": ["date", "+%s%N"]}})
            for _ in range(100):
                await asyncio.sleep(0.02)
                submitted = time.time_ns()
                run_no = bench.submit(*probe)
                await bench.finished(run_no)
                out = bench.connection.access.read("attempts_of_task", run_no, 0, -1)[0][9]
                started = int(out.split('"stdout":"')[1].split("\\n")[0])
                delays.append((started - submitted) / 1e6)
    delays.sort()
    p50, p99 = statistics.median(delays), delays[98]
    note = "100 submissions to an idle node; the clock is read by `date` in the new process"
    return [
        Result("submit → process started, p50", p50, "ms", 2.5, lower=True, note=note),
        Result("submit → process started, p99", p99, "ms", 10, lower=True),
    ]


def _rss_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


async def memory() -> list[Result]:
    with directory() as path:
        async with node_on(path, 500) as bench:
            await bench.run(*bench.compile({f"t{i}": {"run": "true"} for i in range(50)}))
            idle = _rss_kb()
            bench.submit(*bench.compile({f"s{i}": {"run": "sleep 60"} for i in range(500)}))
            while True:
                await asyncio.sleep(0.1)
                if bench.node is not None and bench.node.loop is not None and bench.node.loop.worker.running == 500:
                    break
            await asyncio.sleep(1)
            grown = (_rss_kb() - idle) / 1024
            bench.connection.cancel(bench.connection.access.read("run_last")[0][1])
            while bench.node is not None and bench.node.loop is not None and bench.node.loop.worker.running:
                await asyncio.sleep(0.05)
    return [Result("memory beside 500 `sleep`", grown, "MB over idle", 10, lower=True)]
