"""Outcomes of container attempts: from the state that the engine reports, the output and the answer files."""

import os
import signal
from typing import Any

import msgspec

from weft.executors import linux
from weft.executors.container.mounted_files import MountedFiles
from weft.executors.output import BadAnswer, parse_answer, read_streams, take_answer, take_context
from weft.executors.output_file import Written
from weft.executors.protocol import Launch, Outcome, StopReason

_SIGNALS = {int(number): number.name for number in signal.Signals}
_FAILURE_BYTES_MAX = 1 << 20


def never_started(launch: Launch, error: str, stopped: StopReason | None = None, startable: bool = True) -> Outcome:
    outcome = Outcome(launch.task_id, launch.attempt, False, None, None, linux.boottime(), error, stopped)
    outcome.startable = startable
    return outcome


def ended(
    launch: Launch,
    code: int,
    started: float,
    stopped: StopReason | None,
    oom: bool,
    error: str | None,
    written: tuple[Written, Written],
) -> Outcome:
    outcome = Outcome(launch.task_id, launch.attempt, False, code, started, linux.boottime(), error, stopped)
    if error is None:
        if stopped:
            outcome.error = f"stopped ({stopped})"
        elif code and oom:
            outcome.cause, outcome.error = "oom", _oom_error(launch)
        elif code:
            outcome.error = _exit_error(code)
    outcome.ok = outcome.error is None
    outcome.result = {"exitCode": code, "stdout": "", "stderr": ""}
    read_streams(outcome, launch, *written)
    return outcome


def _exit_error(code: int) -> str:
    if code > 128 and code - 128 in _SIGNALS:
        return f"killed by {_SIGNALS[code - 128]}"
    return f"exit code {code}"


def _oom_error(launch: Launch) -> str:
    limit = launch.requires.get("memory")
    of = f" of {_size(int(limit))} (requires: memory)" if limit else ""
    return f"out of memory: a process of the container was killed at its memory limit{of}"


def _size(size: int) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size:,} bytes"


def take_answers(outcome: Outcome, files: MountedFiles | None, bytes_max: int) -> None:
    """Read $WEFT_OUTPUT and $WEFT_CONTEXT after a success; of a function that failed, its exception."""
    if files is None:
        return
    if not outcome.ok:
        if outcome.stopped is None and outcome.cause is None:
            _take_failure(outcome, files.answer("failure"))
        return
    try:
        # The container's user may differ from ours, and is no reason to follow links of its making.
        outcome.output = _regular(files.answer("output"), "$WEFT_OUTPUT", bytes_max)
        path = files.answer("context")
        if not os.path.islink(path):
            outcome.context = take_context(path, "$WEFT_CONTEXT", bytes_max)
    except BadAnswer as error:
        outcome.ok = False
        outcome.error = str(error)
        outcome.output, outcome.context = msgspec.UNSET, None


def _regular(path: str, name: str, bytes_max: int) -> Any:
    if os.path.islink(path):
        raise BadAnswer(f"{name} is not a regular file")
    return take_answer(path, name, bytes_max)


def _take_failure(outcome: Outcome, path: str) -> None:
    """An exception, as the Python executor reports it."""
    try:
        if os.path.islink(path) or os.path.getsize(path) > _FAILURE_BYTES_MAX:
            return
        with open(path, "rb") as file:
            failure = parse_answer(file.read(_FAILURE_BYTES_MAX), "failure")
        line, kind, message, traceback = (str(failure[key]) for key in ("line", "type", "message", "traceback"))
    except (OSError, BadAnswer, KeyError, TypeError):
        return
    outcome.error = line
    if outcome.result is not None:
        outcome.result["error"] = {"type": kind, "message": message, "traceback": traceback}
