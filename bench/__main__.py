"""`make bench`: measures, prints a table, writes bench/results/latest.json. Parts of it: `python -m bench engine`."""

import asyncio
import json
import os
import platform
import sys
import time
from pathlib import Path

from bench import (
    containers,
    engine,
    functions,
    limits,
    peers,
    postgres,
    replicated,
    scale,
    server,
    shell,
    streams,
    workers,
)  # fmt: skip
from bench.harness import Result
from weft.local_node.process_tuning import tune


async def _engine() -> list[Result]:
    rate = await engine.no_ops()
    against = [*await peers.huey(rate[0].value), *await peers.doit(rate[0].value)]
    return [*rate, *against, *await engine.chain(), *await engine.fan()]


async def _shell() -> list[Result]:
    return [*await shell.throughput(), *await shell.command_line(), *await shell.latency(), *await shell.memory()]


async def _scale() -> list[Result]:
    return [*await scale.large_run(), *await scale.million()]


async def _postgres() -> list[Result]:
    return await postgres.all_of_it()


PARTS = {
    "postgres": _postgres, "engine": _engine, "functions": functions.all_of_it, "shell": _shell, "scale": _scale,
    "server": server.all_of_it, "streams": streams.all_of_it, "containers": containers.all_of_it,
    "replicated": replicated.all_of_it, "limits": limits.all_of_it, "workers": workers.all_of_it,
}  # fmt: skip
APART = ("limits",)  # takes too long for every time: only where it is named


def _line(result: Result) -> str:
    goal = "" if result.goal is None else f"{'≤' if result.lower else '≥'} {result.goal:,g}"
    met = {True: "met", False: "MISSED", None: ""}[result.met]
    value = f"{result.value:,.0f}" if result.value >= 100 else f"{result.value:,.2f}"
    return f"{result.name:<44} {value:>10} {result.unit:<13} {goal:<10} {met:<7} {result.note}"


def main() -> int:
    names = sys.argv[1:] or [name for name in PARTS if name not in APART]
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"no such part: {unknown[0]} (there are {', '.join(PARTS)})", file=sys.stderr)
        return 2
    tune()
    results: list[Result] = []
    started = time.perf_counter()
    for name in names:
        for result in asyncio.run(PARTS[name]()):
            results.append(result)
            print(_line(result), flush=True)
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {time.perf_counter() - started:.0f} s in all")
    out = Path(__file__).parent / "results"
    out.mkdir(exist_ok=True)
    body = {"cores": os.cpu_count(), "python": platform.python_version(), "results": [r.as_json() for r in results]}
    (out / "latest.json").write_text(json.dumps(body, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
