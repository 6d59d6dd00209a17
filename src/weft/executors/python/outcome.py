"""Outcomes of Python attempts: from the runner's CallEnded message, or from the death of the runner."""

import os

import msgspec

from weft.executors import linux
from weft.executors.output import file_stem, read_streams
from weft.executors.output_file import finish_abandoned
from weft.executors.protocol import Outcome
from weft.executors.python.messages import CallEnded
from weft.executors.python.runner_link import PythonAttempt, RunnerLink


def outcome_of(attempt: PythonAttempt, message: CallEnded) -> Outcome:
    outcome = _outcome(attempt, message.started, message.ended)
    failure = message.failure
    if message.stopped:
        outcome.stopped = attempt.stop or "cancel"
        outcome.error = f"stopped ({outcome.stopped})"
    elif failure is not None:
        outcome.error = failure[0]
    outcome.ok = outcome.error is None
    if message.started is None:
        return outcome
    outcome.exit_code = 0 if outcome.ok else 1
    outcome.result = {"exitCode": outcome.exit_code, "stdout": "", "stderr": ""}
    if message.stdout[0] or message.stderr[0]:
        read_streams(outcome, attempt.launch, message.stdout, message.stderr)
    if failure is not None:
        _, kind, text, traceback = failure
        outcome.result["error"] = {"type": kind, "message": text, "traceback": traceback}
    if outcome.ok:
        outcome.output = None if message.output is None else msgspec.json.decode(message.output)
        outcome.context = None if message.context is None else msgspec.json.decode(message.context)
    return outcome


def not_started(attempt: PythonAttempt, error: str, *, startable: bool = True) -> Outcome:
    """The attempt was stopped before it started, or no runner could be started for it."""
    outcome = _outcome(attempt, None, linux.boottime())
    outcome.error = error
    outcome.stopped = attempt.stop
    outcome.startable = startable
    return outcome


def runner_not_started(attempt: PythonAttempt, death: Outcome) -> Outcome:
    """The runner for this attempt ended before it was ready."""
    lines = str((death.result or {}).get("stderr") or "").strip().splitlines()
    why = death.error or "it ended at once"
    python = attempt.place.python
    what = "no Python runner could be started" + (f" with {python}" if python else "")
    error = f"{what}: {why}{': ' + lines[-1] if lines else ''}"
    # An interpreter that a task has chosen says nothing about what else this node can start.
    return not_started(attempt, error, startable=death.startable or python is not None)


def take_streams(outcome: Outcome, death: Outcome) -> None:
    """The output of a dedicated runner is the output of its attempt."""
    for key, value in (death.result or {}).items():
        if outcome.result is not None and key.startswith(("stdout", "stderr")):
            outcome.result[key] = value
    lost = death.result is None or (death.exit_code == 0 and death.stopped is None and not death.ok)
    if lost and outcome.ok:
        outcome.ok = False
        outcome.output, outcome.context = msgspec.UNSET, None
        outcome.error = death.error or "its output cannot be read"


def interrupted(attempt: PythonAttempt, runner: RunnerLink, death: Outcome, *, at_fault: bool) -> Outcome:
    """The attempt had started, and its runner died with all processes below it."""
    is_plain = not runner.is_async
    started = attempt.sent
    if is_plain and runner.active is not None and runner.active.id == attempt.id:
        started = runner.active.started
    outcome = _outcome(attempt, started, death.ended)
    outcome.killed = death.killed if attempt.stop or at_fault else 0
    outcome.exit_code = death.exit_code
    outcome.result = {"exitCode": death.exit_code, "stdout": "", "stderr": ""}
    launch = attempt.launch
    path = os.fsencode(f"{launch.output_dir}/{file_stem(launch.task, launch.attempt)}")
    fds = runner.output_fds if is_plain and len(runner.output_fds) == 2 else [None, None]
    stdout = finish_abandoned(path + b".out", launch.output_max, fds[0])
    stderr = finish_abandoned(path + b".err", launch.output_max, fds[1])
    read_streams(outcome, launch, stdout, stderr)
    if attempt.stop:
        outcome.stopped = attempt.stop
        outcome.error = f"stopped ({attempt.stop})"
    elif death.stopped == "lease":
        outcome.stopped = "lease"
        outcome.error = "stopped (lease)"
    elif at_fault:
        outcome.error = f"its runner process died: {death.error or 'it ended by itself'}"
        runner_stderr = str((death.result or {}).get("stderr") or "")
        outcome.result["error"] = {"type": "RunnerDied", "message": outcome.error, "traceback": runner_stderr}
    else:
        outcome.stopped = "drain"
        outcome.error = "its runner process died, and this attempt did not cause it"
    return outcome


def _outcome(attempt: PythonAttempt, started: float | None, ended: float) -> Outcome:
    return Outcome(attempt.launch.task_id, attempt.launch.attempt, False, None, started, ended)
