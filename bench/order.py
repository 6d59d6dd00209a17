"""How long runs take by their order, on a virtual clock, with the real rules and store: `python -m bench.order`.

A fork of 200 tasks, and beside it a chain of 20 and one of 3, before one join. `bound`: no order could do better.
"""

import heapq
import itertools
from typing import Any

from tests.core.driver import Engine

from weft.core import commands as c

CHAIN, LONG, FAN = 20, 3, 200
WORK = {"inline": "work"}


def document(order: str) -> dict[str, Any]:
    tasks: dict[str, Any] = {f"f{i}": WORK for i in range(FAN)}
    tasks |= {f"c{i}": {**WORK, "needs": [f"c{i - 1}"] if i else []} for i in range(CHAIN)}
    tasks |= {f"l{i}": {**WORK, "needs": [f"l{i - 1}"] if i else []} for i in range(LONG)}
    tasks["join"] = {**WORK, "needs": [f"f{i}" for i in range(FAN)] + [f"c{CHAIN - 1}", f"l{LONG - 1}"]}
    return {"name": "w", "order": order, "tasks": tasks}


def makespans(order: str, runs: int, slots: int, took_ms: dict[str, int], again: bool = False) -> list[int]:
    """Of runs that begin 100 ms after each other; with `again`, those of a second round, which knows durations."""
    engine = Engine()
    engine.node("n", ttl_ms=10**12)
    for _ in range(1 + again):
        ids, begun = [], []
        for _ in range(runs):
            ids.append(engine.submit(document(order)))
            begun.append(engine.time_ms)
            engine.time_ms += 100
        _work(engine, slots, took_ms)
    ends = [engine.run(id).finished_at or 0 for id in ids]
    return [end - start for start, end in zip(begun, ends, strict=True)]


def _work(engine: Engine, slots: int, took_ms: dict[str, int]) -> None:
    number = itertools.count()
    running: list[tuple[int, int, c.Claim, int]] = []
    reports: list[c.Report] = []
    while True:
        reply = engine.commit(engine.next_exchange("n", reports, slots - len(running)))
        for claim in reply.claims:
            ms = took_ms[engine.name(claim)[0]]
            heapq.heappush(running, (engine.time_ms + ms, next(number), claim, ms))
        if not running:
            return
        engine.time_ms, _, claim, ms = heapq.heappop(running)
        reports = [c.Report(claim.task_id, claim.pos, claim.idx, claim.attempt, "succeeded", started_ago_ms=ms)]


def main() -> None:
    print("runs  slots  fan s  chain s  long s      fifo  longest_path  durations known     bound  (s, slowest run)")
    for runs, slots, fan, chain, long in (
        (1, 4, 1, 1, 1), (1, 8, 1, 1, 1), (1, 8, 60, 60, 60), (1, 8, 10, 30, 10), (1, 8, 1, 1, 9), (3, 8, 60, 60, 60),
    ):  # fmt: skip
        work = runs * (CHAIN * chain + LONG * long + (FAN + 1) * fan) / slots
        bound = max(work, CHAIN * chain + fan, LONG * long + fan)
        took_ms = {"f": fan * 1000, "c": chain * 1000, "l": long * 1000, "j": fan * 1000}
        fifo, longest, known = (
            max(makespans(order, runs, slots, took_ms, again)) / 1000
            for order, again in (("fifo", False), ("longest_path", False), ("longest_path", True))
        )
        times = f"{fifo:8.1f}  {longest:12.1f}  {known:15.1f}  {bound:8.1f}"
        print(f"{runs:4}  {slots:5}  {fan:5}  {chain:7}  {long:6}  {times}")


if __name__ == "__main__":
    main()
