"""An attempt that a node holds, from its claim to its report."""

import asyncio
from typing import Any

import msgspec

from weft.core.artifacts import KeptFiles
from weft.core.commands import Claim
from weft.core.workflow import TaskDef, Workflow
from weft.executors.masking import Masker
from weft.executors.protocol import Launch, Outcome, StopReason
from weft.node.ports import RunFacts


class HeldAttempt(msgspec.Struct, gc=False):
    key: tuple[int, int]  # task, attempt
    claim: Claim
    definition: TaskDef
    workflow: Workflow
    facts: RunFacts
    claimed: float
    names: dict[str, Any] | None = None  # what its templates see
    started: bool = False
    stopping: StopReason | None = None
    timer: asyncio.TimerHandle | None = None
    masker: Masker | None = None  # of its secrets
    cache_key: str | None = None  # its result is kept under this, should it succeed
    slotless: bool = False  # it only waits for something elsewhere
    launch: Launch | None = None  # of an attempt with files
    files: KeptFiles | None = None  # that it has kept


class EndsAtOnce(msgspec.Struct, gc=False):
    """Attempts that ended within the same hundredth of a second."""

    at: float
    count: int


def never_asked(launch: Launch, stopped: StopReason, now: float) -> Outcome:
    """Its engine was never asked for it."""
    return Outcome(launch.task_id, launch.attempt, False, None, None, now, stopped=stopped)
