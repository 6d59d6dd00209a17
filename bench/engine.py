"""The engine without processes: no-op tasks on the node's own loop, durable, fsync on."""

from bench.harness import Result, best, directory, node_on

TASKS = 10_000
SLOTS = 100
ROUNDS = 3


async def no_ops() -> list[Result]:
    rates = []
    for _ in range(ROUNDS):
        with directory() as path:
            async with node_on(path, SLOTS, {"noop": lambda launch: None}) as bench:
                flow = bench.compile({f"t{i}": {"inline": "noop"} for i in range(TASKS)})
                rates.append(TASKS / await bench.run(*flow))
    note = f"{TASKS} tasks, one run, {SLOTS} slots, submit to done; best of {ROUNDS}"
    return [Result("no-op tasks", max(rates), "tasks/s", 30_000, lower=False, note=note)]


async def chain() -> list[Result]:
    times = []
    for _ in range(ROUNDS):
        with directory() as path:
            async with node_on(path, SLOTS, {"noop": lambda launch: None}) as bench:
                tasks = {f"t{i}": {"inline": "noop", "needs": [f"t{i - 1}"] if i else []} for i in range(1000)}
                times.append(await bench.run(*bench.compile(tasks)))
    return [Result("chain of 1,000", best(times), "ms a task", 0.5, lower=True, note=f"best of {ROUNDS}")]


async def fan() -> list[Result]:
    times = []
    for _ in range(ROUNDS):
        with directory() as path:
            async with node_on(path, SLOTS, {"noop": lambda launch: None}) as bench:
                middle = {f"t{i}": {"inline": "noop", "needs": ["first"]} for i in range(TASKS)}
                tasks = {"first": {"inline": "noop"}, **middle, "last": {"inline": "noop", "needs": list(middle)}}
                times.append(await bench.run(*bench.compile(tasks)))
    return [Result("1 → 10,000 → 1", best(times), "s", 0.4, lower=True, note=f"{SLOTS} slots, best of {ROUNDS}")]
