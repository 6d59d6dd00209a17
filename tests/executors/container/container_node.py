"""A process that holds an opened container executor, for the tests that kill it: SOCKET DIRECTORY RUN COUNT TRUST."""

import asyncio
import sys

import msgspec

from weft.executors import linux
from weft.executors.container.executor import ContainerExecutor
from weft.executors.protocol import Launch, Outcome
from weft.executors.shell.executor import ShellExecutor


async def main(socket: str, directory: str, run_id: str, count: int, trust_s: float) -> None:
    shell = ShellExecutor()
    await shell.open()
    executor = ContainerExecutor(socket, wills=shell)
    await executor.open()
    assert await executor.check() is None

    def ended(outcome: Outcome) -> None:
        print("ended", outcome.task_id, outcome.stopped, outcome.error, flush=True)

    for number in range(count):
        task = "kept" if number == 0 else f"plain{number}"
        spec = {"container": {"image": "weft-test", "network": "none"}, "run": "trap '' TERM; echo up; sleep 600"}
        launch = Launch(
            number, 1, run_id, task, "container", spec, {}, directory, f"{directory}/output", 1 << 20,
            adoptable=number == 0,
        )  # fmt: skip
        executor.start(msgspec.structs.replace(launch, handle=executor.handle(launch)), ended)
    while not all(executor.started(number, 1, 0.0) for number in range(count)):
        await asyncio.sleep(0.02)
    if trust_s:
        until = linux.boottime() + trust_s
        shell.trust(until)
        executor.trust(until)
    print("running", count, flush=True)
    await asyncio.sleep(600)


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])))
