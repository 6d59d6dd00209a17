"""Containers: their rate beside `podman run` on the same engine in the same run, and what a waiting one costs a node.

    python -m bench containers

Both run the same image and command, four at a time, in turns; the ratio is of the sums of all rounds. Podman is a
real one, installed and set up as the tests do.
"""

import asyncio
import subprocess
import sys
import tempfile
import time

from tests.executors.container.podman import IMAGE, NoPodman, Podman, podman_session
from tests.executors.container.waiting_attempts import waiting_memory

from bench.harness import Result
from weft.executors.container.executor import ContainerExecutor
from weft.executors.protocol import Launch, Outcome

PARALLEL = 4
COUNT = 24
ROUNDS = 3
WAITING = 1000


def launch_of(number: int, round: int, directory: str, command: list[str]) -> Launch:
    container = {"image": IMAGE, "command": command, "network": "none", "mount": "none"}
    return Launch(
        number, 1, f"bench{round}", f"t{number}", "container", {"container": container}, {}, None, directory, 8 << 20
    )


async def run_weft(podman: Podman, round: int) -> float:
    executor = ContainerExecutor(podman.socket)
    await executor.open()
    error = await executor.check()
    assert error is None, error
    numbers = iter(range(COUNT))
    with tempfile.TemporaryDirectory() as directory:

        async def worker() -> None:
            for number in numbers:
                ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
                executor.start(launch_of(number, round, directory, ["true"]), ended.set_result)
                outcome = await ended
                assert outcome.ok, outcome

        began = time.perf_counter()
        await asyncio.gather(*[worker() for _ in range(PARALLEL)])
        seconds = time.perf_counter() - began
    await executor.close()
    return seconds


async def run_podman(podman: Podman) -> float:
    numbers = iter(range(COUNT))
    words = [*podman.command, "run", "--rm", "--network", "none", IMAGE, "true"]

    async def worker() -> None:
        for _ in numbers:
            process = await asyncio.create_subprocess_exec(
                *words, env=podman.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            _, errors = await process.communicate()
            assert process.returncode == 0, errors

    began = time.perf_counter()
    await asyncio.gather(*[worker() for _ in range(PARALLEL)])
    return time.perf_counter() - began


async def rate() -> list[Result]:
    with podman_session() as podman:
        await run_podman(podman)  # warm
        pairs = [(await run_weft(podman, round), await run_podman(podman)) for round in range(ROUNDS)]
    weft, alone = (sum(column) for column in zip(*pairs, strict=True))
    note = f"podman run: {COUNT * ROUNDS / alone:.1f} /s; ratios " + " ".join(f"{b / a:.2f}" for a, b in pairs)
    return [
        Result("containers, 4 at a time", COUNT * ROUNDS / weft, "/s", None, lower=False, note=note),
        Result("… against `podman run`", alone / weft, "×", 0.8, lower=False),
    ]


async def all_of_it() -> list[Result]:
    bytes_each, threads = await waiting_memory(WAITING)
    results = [
        Result("a waiting container", bytes_each / 1024, "KB", 50, lower=True, note=f"{WAITING} of them"),
        Result("… threads for all of them", float(threads), "", 0, lower=True),
    ]
    try:
        return [*results, *await rate()]
    except NoPodman as error:
        print(f"no rate of containers: {error}", file=sys.stderr)
        return results
