"""A node of its own that starts attempts and then does nothing: something to kill, or to stop.

usage: node.py OUTPUT_DIR COUNT TRUST_SECONDS(0: for ever) TEXT
Prints `ready` when all attempts have touched their file; prints outcomes as they come.
"""

import asyncio
import os
import sys

from weft.executors.linux import boottime
from weft.executors.protocol import Launch, Outcome
from weft.executors.shell.executor import ShellExecutor


async def main() -> None:
    directory, count, trust, text = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    executor = ShellExecutor(environment=dict(os.environ))
    await executor.open()
    if trust:
        executor.trust(boottime() + trust)

    def ended(outcome: Outcome) -> None:
        print("ended", outcome.task_id, outcome.stopped, outcome.killed, flush=True)

    for number in range(count):
        env = {"MARK": os.environ["MARK"], "UP": f"{directory}/up.{number}"}
        launch = Launch(
            task_id=number,
            attempt=1,
            run_id="r",
            task=f"t{number}",
            kind="shell",
            spec={"run": text},
            env=env,
            cwd=directory,
            output_dir=directory,
            output_max=1 << 20,
        )
        executor.start(launch, ended)
    while not all(os.path.exists(f"{directory}/up.{number}") for number in range(count)):
        await asyncio.sleep(0.01)
    print("ready", *executor.spawner_pids, flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
