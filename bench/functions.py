"""Python functions: in warm runners, and inline on the node's own loop. Durable, fsync on. And expressions alone."""

import time
from pathlib import Path
from typing import Any

from bench.harness import Result, directory, node_on
from weft.core.expressions import parse
from weft.executors.inline import inline_functions

TASKS = 10_000
SLOTS = 100
ROUNDS = 3
EVALUATIONS = 20_000

#: What people write: a condition of a deployment, texts, arithmetic.
EXPRESSIONS = {
    "parent.build.exitCode === 0 && parent.test.result.stdout.includes('0 failures')": True,
    "inputs.day.startsWith('2026-') ? inputs.day.slice(5) : ''": "01-31",
    "tasks.list.output.files.length > 2 || context.force === true": True,
    "(item.width * item.height) / 2 + index": 601,
}
NAMES: dict[str, Any] = {
    "parent": {"build": {"exitCode": 0}, "test": {"result": {"stdout": "ran 120 tests\n0 failures\n"}}},
    "inputs": {"day": "2026-01-31"},
    "tasks": {"list": {"output": {"files": ["a", "b", "c"]}}},
    "context": {"force": False},
    "item": {"width": 30, "height": 40},
    "index": 1,
}


async def runners() -> list[Result]:
    rates = []
    for _ in range(ROUNDS):
        with directory() as path:
            Path(path, "noop_tasks.py").write_text("def noop():\n    pass\n")
            async with node_on(path, SLOTS) as bench:
                warm = bench.compile({"warm": {"python": "noop_tasks:noop"}})
                await bench.run(*warm)
                flow = bench.compile({f"t{i}": {"python": "noop_tasks:noop"} for i in range(TASKS)})
                rates.append(TASKS / await bench.run(*flow))
    note = f"{TASKS} tasks, one run, {SLOTS} slots, a runner per core; best of {ROUNDS}"
    return [Result("no-op Python functions, warm runners", max(rates), "tasks/s", 5_000, lower=False, note=note)]


async def _noop() -> None:
    pass


async def inline() -> list[Result]:
    rates = []
    for _ in range(ROUNDS):
        with directory() as path:
            async with node_on(path, SLOTS, inline_functions({"noop": _noop})) as bench:
                flow = bench.compile({f"t{i}": {"inline": "noop"} for i in range(TASKS)})
                rates.append(TASKS / await bench.run(*flow))
    note = f"{TASKS} tasks, one run, {SLOTS} slots, submit to done; best of {ROUNDS}"
    return [Result("inline async functions", max(rates), "tasks/s", 25_000, lower=False, note=note)]


async def expressions() -> list[Result]:
    parsed = [(parse(text), wanted) for text, wanted in EXPRESSIONS.items()]
    for expression, wanted in parsed:
        assert expression.evaluate(NAMES) == wanted, expression.source
    rates = []
    for _ in range(ROUNDS):
        started = time.process_time()  # nothing is waited for, so the processor's own time says it
        for _ in range(EVALUATIONS // len(parsed)):
            for expression, _wanted in parsed:
                expression.evaluate(NAMES)
        rates.append(EVALUATIONS / (time.process_time() - started))
    note = f"{len(parsed)} expressions in turn, parsed once, processor time; best of {ROUNDS}"
    return [Result("expressions evaluated", max(rates), "/s", 50_000, lower=False, note=note)]


async def all_of_it() -> list[Result]:
    return [*await runners(), *await inline(), *await expressions()]
