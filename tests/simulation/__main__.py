"""Play one seed and print its story, or hunt: play a range, and print each seed that fails.

python -m tests.simulation 17
python -m tests.simulation 710000 730000 --processes 2
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.scenario import play

SHARD = 20  # seeds that a process takes at a time


def show(seed: int) -> int:
    world = play(seed)
    print("\n".join(world.story))
    print(f"seed {seed}: {world.commits} commits, {world.loop.steps} steps, {world.stale} late reports refused")
    return 0


def hunt(first: int, end: int, processes: int) -> int:
    """A seed that fails is printed with its story, and the hunt goes on."""
    began, done, failed = time.monotonic(), 0, []
    for seeds, failures in _played([range(at, min(at + SHARD, end)) for at in range(first, end, SHARD)], processes):
        done += len(seeds)
        for seed, story in failures:
            failed.append(seed)
            print(story, flush=True)
        took = time.monotonic() - began
        print(f"{done} of {end - first} seeds, {len(failed)} failed, {took / done:.2f} s a seed", flush=True)
    print(f"failed: {', '.join(map(str, sorted(failed))) or 'none'}")
    return 1 if failed else 0


def _played(shards: list[range], processes: int) -> Iterator[tuple[range, list[tuple[int, str]]]]:
    if processes == 1:
        yield from map(_play, shards)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_play, shards)


def _play(seeds: range) -> tuple[range, list[tuple[int, str]]]:
    """Those of these seeds that fail, each with what it says."""
    failures = []
    for seed in seeds:
        try:
            play(seed)
        except Exception as error:
            failures.append((seed, str(error)))
    return seeds, failures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("end", type=int, nargs="?", help="hunt in the seeds up to this one, exclusive")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="processes that hunt")
    given = parser.parse_args()
    return show(given.seed) if given.end is None else hunt(given.seed, given.end, given.processes)


if __name__ == "__main__":
    sys.exit(main())
