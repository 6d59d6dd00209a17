"""What runs in a container: commands, output, exit codes, variables, files."""

import asyncio

from tests.executors.attempts import ends
from tests.executors.container.containers import Containers


def test_a_command_runs_with_output_and_exit_code(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as attempts:
            launch, future = attempts.start("echo out; echo err >&2; printf 'no newline'; exit 3")
            outcome = await ends(future, 60)
            assert not outcome.ok, outcome
            assert (outcome.exit_code, outcome.error) == (3, "exit code 3")
            assert outcome.result == {"exitCode": 3, "stdout": "out\nno newline", "stderr": "err\n"}
            assert attempts.output(launch) == b"out\nno newline"
            assert containers.left() == []

    asyncio.run(story())


def test_a_cancel_is_a_term_then_a_kill(containers: Containers) -> None:
    async def story() -> None:
        async with containers.executor() as attempts:
            launch, future = attempts.start("trap '' TERM; echo ready; while :; do sleep 0.1; done")
            await attempts.until_output(launch, b"ready")
            attempts.stop(launch, "cancel", 0.5)
            outcome = await ends(future, 30)
            assert outcome.stopped == "cancel", outcome
            assert outcome.exit_code == 137
            assert outcome.termination is not None
            assert outcome.termination["killed"] is True
            assert outcome.termination["verified"] is True
            assert containers.left() == []

    asyncio.run(story())
