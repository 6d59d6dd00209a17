"""examples/containers.yaml: its tasks run in containers, each with what the one before has left; the function of
containers_tasks.py, too."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.executors.container.containers import Containers
from tests.executors.container.podman import IMAGE
from tests.executors.container.test_run import python_of_this_machine

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_tasks_of_the_example_run(containers: Containers) -> None:
    """Through the executor alone, on an image of this machine: the example's own is in a registry."""
    example: dict[str, Any] = yaml.safe_load((EXAMPLES / "containers.yaml").read_text())
    tasks = example["tasks"]
    # Not read-only: an image of Python has its mount points, this one gets them from the engine.
    container = {**example["defaults"]["container"], "image": IMAGE, "read_only": False, **python_of_this_machine()}

    async def story() -> None:
        async with containers.executor() as attempts:
            here: dict[str, Any] = {"container": container, "source": str(EXAMPLES), "cwd": str(EXAMPLES)}
            extracted = await attempts.run(tasks["extract"]["run"], **here)
            assert extracted.ok, extracted
            call = {"function": tasks["summary"]["python"], "with": {"rows": extracted.output}}
            summary = await attempts.run(None, spec=call, **here)
            assert summary.ok, summary
            assert summary.output == {"cities": ["Oslo", "Rome"], "rows": 2}
            text = msgspec.json.encode({"summary": summary.output})
            report = await attempts.run(tasks["report"]["run"], input=text, **here)
            assert report.ok, report
            assert report.result is not None
            assert report.result["stdout"] == f"{text.decode()}containers.yaml\n"

    asyncio.run(story())
