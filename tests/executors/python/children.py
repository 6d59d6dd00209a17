"""A node of its own for tests that kill it: starts functions, says so, and reports ends until it is killed."""

import asyncio
import sys

from weft.executors.linux import boottime
from weft.executors.protocol import Launch, Outcome
from weft.executors.python.executor import PythonExecutor


async def main(directory: str, trust_s: float, functions: list[str]) -> None:
    executor = PythonExecutor(len(functions), workdir=directory)
    await executor.open()
    if trust_s:
        executor.trust(boottime() + trust_s)

    def ended(outcome: Outcome) -> None:
        print("ended", outcome.task_id, outcome.stopped, outcome.error, flush=True)

    for number, function in enumerate(functions, 1):
        spec = {"function": f"tasks:{function}", "with": {}}
        env = {"UP": f"{directory}/up.{number}"}
        launch = Launch(number, 1, "r", f"t{number}", "python", spec, env, directory, f"{directory}/output", 1 << 20)
        executor.start(launch, ended)
    print("started", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
