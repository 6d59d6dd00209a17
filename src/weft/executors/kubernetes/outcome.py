"""From how an attempt ended on a cluster to its outcome."""

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from weft.executors.boot_clock import boottime
from weft.executors.kubernetes.objects import Terminated
from weft.executors.kubernetes.pod_state import PodState
from weft.executors.output import BadAnswer, parse_answer, read_streams
from weft.executors.output_file import NOTHING_WRITTEN, Written
from weft.executors.protocol import Launch, Outcome

if TYPE_CHECKING:
    from weft.executors.kubernetes.attempt import StopRequest

#: What the kubelet keeps of $WEFT_OUTPUT: it cuts the rest without a word.
OUTPUT_BYTES_MAX = 4096
_KILLED = 137


class Ending(msgspec.Struct):
    error: str | None
    exit_code: int | None = None
    started: float | None = None
    state: PodState | None = None  # of its pod, once its container had ended
    stopped: "StopRequest | None" = None
    forgotten: bool = False
    missing: str | None = None  # why its output is not complete
    ended: float | None = None
    gone: float | None = None  # when the cluster said that nothing is left


def make_outcome(launch: Launch, ending: Ending, written: Written, missing: str | None) -> Outcome:
    end = ending.state.ended if ending.state is not None else None
    ended = ending.ended or boottime()
    started = ending.started
    if started is None and end is not None:
        started = ended - _seconds(end)
    error = f"stopped ({ending.stopped.reason})" if ending.stopped is not None else ending.error
    outcome = Outcome(launch.task_id, launch.attempt, error is None, ending.exit_code, started, ended, error)
    outcome.forgotten = ending.forgotten
    if ending.state is not None and ending.state.oom and ending.stopped is None:
        outcome.cause = "oom"
    if ending.stopped is not None:
        _describe_stop(outcome, ending)
    if ending.exit_code is not None or written[0]:
        outcome.result = {"exitCode": ending.exit_code, "stdout": "", "stderr": ""}
        read_streams(outcome, launch, written, NOTHING_WRITTEN)
        if missing or ending.missing:
            outcome.result["stdoutMissing"] = missing or ending.missing
    if outcome.ok and end is not None:
        _read_output(outcome, end.message)
    return outcome


def _describe_stop(outcome: Outcome, ending: Ending) -> None:
    assert ending.stopped is not None
    outcome.stopped = ending.stopped.reason
    gone = ending.gone or outcome.ended
    outcome.ended = gone
    outcome.termination = {
        "asked": ending.stopped.reason,
        "after_s": round(gone - ending.stopped.asked, 3),
        "killed": ending.exit_code == _KILLED,
        "verified": True,
    }


def _read_output(outcome: Outcome, message: str) -> None:
    """$WEFT_OUTPUT, which Kubernetes carries as the container's termination message."""
    data = message.encode()
    try:
        if len(data) >= OUTPUT_BYTES_MAX:
            raise BadAnswer(
                f"$WEFT_OUTPUT reached the {OUTPUT_BYTES_MAX:,} bytes at which Kubernetes cuts it:"
                " keep the value where the cluster's tasks can read it, and give its place"
            )
        outcome.output = parse_answer(data, "$WEFT_OUTPUT")
    except BadAnswer as error:
        outcome.ok = False
        outcome.error = str(error)


def _seconds(end: Terminated) -> float:
    try:
        began, ended = (
            datetime.fromisoformat((text or "").replace("Z", "+00:00")) for text in (end.started_at, end.finished_at)
        )
    except ValueError:
        return 0.0
    return max(0.0, (ended - began).total_seconds())
