"""Replay one seed, or a range: `python -m tests.simulation 17`, `python -m tests.simulation 0 1000`."""

import sys

from tests.simulation.scenario import play


def main() -> int:
    numbers = [int(a) for a in sys.argv[1:3]]
    if not numbers:
        print("usage: python -m tests.simulation SEED [END]", file=sys.stderr)
        return 2
    first, end = numbers[0], numbers[1] if len(numbers) > 1 else numbers[0] + 1
    for seed in range(first, end):
        world = play(seed)
        if end == first + 1:
            print("\n".join(world.story))
        print(f"seed {seed}: {world.commits} commits, {world.loop.steps} steps, {world.stale} late reports refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
