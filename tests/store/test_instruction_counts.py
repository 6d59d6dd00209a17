"""What a task costs in Python, counted: calls of our functions and instructions of our bytecode, per task. Seconds
differ from machine to machine, these only from one version of Python to the next. Fewer is fine: lower the numbers.
More needs a reason.
"""

import asyncio
import random
import sys
from types import FrameType
from typing import Any

import pytest

import weft
from tests.store.test_statement_counts import Working
from weft.authoring.load import load_value
from weft.core.commands import Claim
from weft.executors.inline import InlineExecutor
from weft.node.attempts.worker import Worker
from weft.node.local import LocalLink
from weft.node.ports import NodeSettings, Ports, RunFacts
from weft.store.sqlite.driver import SqliteStore

RECORDED = (3, 11)  # the version that instructions were counted with
#: Per task: calls, instructions.
BOUNDS = {
    "read, compile and submit": (28.8, 1460), "claim": (1.4, 293), "report and claim": (3.9, 850),
    "one task of a chain": (180, 5180), "start and end in the node": (10.3, 700),
}  # fmt: skip
SLACK = 0.1  # below it, a bound would let a loss pass that is worth knowing
SOURCE = weft.__path__[0]
BATCH = 96


class Counted:
    """Calls of functions in src/weft, and the instructions that they take."""

    def __init__(self) -> None:
        self.calls = self.instructions = 0

    def __enter__(self) -> "Counted":
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        self.calls += 1
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._done

    def _done(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.instructions += event == "opcode"
        return self._done

    def each(self, tasks: int) -> tuple[float, float]:
        return round(self.calls / tasks, 1), round(self.instructions / tasks)


def in_the_store() -> dict[str, tuple[float, float]]:
    working = Working(SqliteStore(None))
    working.submit({"first": {"run": "true"}})
    working.exchange(working.exchange([], 1).claims, 0)  # everything is prepared now
    found = {}
    loaded = {f"t{i}": {"run": "true"} for i in range(2 * BATCH)}
    with Counted() as counted:
        working.submit(loaded)
    found["read, compile and submit"] = counted.each(2 * BATCH)
    with Counted() as counted:
        claims = working.exchange([], BATCH).claims
    found["claim"] = counted.each(len(claims))
    with Counted() as counted:
        claims = working.exchange(claims, BATCH).claims
    assert len(claims) == BATCH
    found["report and claim"] = counted.each(BATCH)
    working.exchange(claims, 0)
    working.submit({f"t{i}": {"run": "true", "needs": [f"t{i - 1}"] if i else []} for i in range(9)})
    claims = working.exchange(working.exchange([], 1).claims, 1, following=True).claims
    with Counted() as counted:
        claims = working.exchange(claims, 1, following=True).claims
    assert len(claims) == 1
    found["one task of a chain"] = counted.each(1)
    return found


async def in_the_node() -> tuple[float, float]:
    """From the reply to an exchange to the reports of the next one."""
    workflow = load_value({"name": "w", "tasks": {f"t{i}": {"inline": "noop"} for i in range(BATCH)}}, "w").workflow
    facts = RunFacts(1, "run", "w", workflow.hash, {}, None, False)
    claims = [Claim((1 << 24) + pos, 1, 1, pos, -1, 1) for pos in range(BATCH)]
    link = LocalLink(SqliteStore(None))
    executor = InlineExecutor({"noop": lambda launch: None}, lambda: 5.0)
    await executor.open()
    ports = Ports(link, {"inline": executor}, lambda: 5.0, random.Random(1), lambda: "id")
    settings = NodeSettings(
        slots=BATCH, output_root="/nowhere", workdir="/nowhere", name="n", artifact_root="/nowhere"
    )
    worker = Worker(ports, settings, lambda: True, lambda: None)
    with Counted() as counted:
        for claim in claims:
            worker.take(claim, facts, workflow, None, now=5.0)
        worker.start_waiting()
        for _ in range(2):
            await asyncio.sleep(0)
        reports = worker.take_reports()
    assert [report.outcome for report in reports] == ["succeeded"] * BATCH
    link.close()
    return counted.each(BATCH)


@pytest.fixture(scope="module")
def found() -> dict[str, tuple[float, float]]:
    measure()  # what is worked out once, such as the text of a statement
    return measure()


def measure() -> dict[str, tuple[float, float]]:
    return in_the_store() | {"start and end in the node": asyncio.run(in_the_node())}


def test_counting_is_exact(found: dict[str, tuple[float, float]]) -> None:
    assert measure() == found


@pytest.mark.parametrize("what", BOUNDS)
def test_no_task_takes_more_than_before(found: dict[str, tuple[float, float]], what: str) -> None:
    (calls, instructions), (calls_max, instructions_max) = found[what], BOUNDS[what]
    assert calls <= calls_max, f"{what}: {calls} calls a task"
    if sys.version_info[:2] != RECORDED:
        return
    assert instructions <= instructions_max, f"{what}: {instructions} instructions a task"
    close = calls >= calls_max * (1 - SLACK) and instructions >= instructions_max * (1 - SLACK)
    assert close, f"{what}: only {calls} calls and {instructions} instructions a task: lower the bounds"
