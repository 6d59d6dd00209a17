"""From what a runner said, or from how it died, to the outcome of an attempt."""

import os

import msgspec

from weft.executors import linux
from weft.executors.output import describe_stream, file_stem, output_path
from weft.executors.protocol import Outcome
from weft.executors.python.runner_link import Attempt, RunnerLink
from weft.executors.python_runner.output_streams import NOTHING, Written, measure
from weft.executors.spawner.messages import Message


def outcome_of(attempt: Attempt, message: Message) -> Outcome:
    """Of an ENDED message."""
    _, _, started, ended, stopped, output, failure, context, out, err, _ = message
    outcome = _outcome(attempt, started, ended)
    if stopped:
        outcome.stopped = attempt.stop or "cancel"
        outcome.error = f"stopped ({outcome.stopped})"
    elif failure is not None:
        outcome.error = failure[0]
    outcome.ok = outcome.error is None
    if started is None:
        return outcome
    outcome.exit_code = 0 if outcome.ok else 1
    outcome.result = {"exitCode": outcome.exit_code, "stdout": "", "stderr": ""}
    if out[0] or err[0]:
        _read_streams(outcome, attempt, out, err)
    if failure is not None:
        _, kind, text, traceback = failure
        outcome.result["error"] = {"type": kind, "message": text, "traceback": traceback}
    if outcome.ok:
        outcome.output = None if output is None else msgspec.json.decode(output)
        outcome.context = None if context is None else msgspec.json.decode(context)
    return outcome


def unstarted(attempt: Attempt, error: str, *, startable: bool = True) -> Outcome:
    """It never began: stopped before, or there is no runner to be had for it."""
    outcome = _outcome(attempt, None, linux.boottime())
    outcome.error = error
    outcome.stopped = attempt.stop
    outcome.startable = startable
    return outcome


def never_ready(attempt: Attempt, death: Outcome) -> Outcome:
    """There is no runner for it: this one ended before it could be given anything."""
    lines = str((death.result or {}).get("stderr") or "").strip().splitlines()
    why = death.error or "it ended at once"
    error = f"no Python runner could be started: {why}{': ' + lines[-1] if lines else ''}"
    return unstarted(attempt, error, startable=death.startable)


def take_streams(outcome: Outcome, death: Outcome) -> None:
    """What a runner that served one attempt alone has printed is what the attempt has."""
    for key, value in (death.result or {}).items():
        if outcome.result is not None and key.startswith(("stdout", "stderr")):
            outcome.result[key] = value
    lost = death.result is None or (death.exit_code == 0 and death.stopped is None and not death.ok)
    if lost and outcome.ok:
        outcome.ok = False
        outcome.output, outcome.context = msgspec.UNSET, None
        outcome.error = death.error or "its output cannot be read"


def cut_short(attempt: Attempt, runner: RunnerLink, death: Outcome, *, blamed: bool) -> Outcome:
    """Its runner is gone, and everything below it."""
    sync = not runner.is_async
    started = attempt.sent
    if sync and runner.mark is not None and runner.mark.id == attempt.id:
        started = runner.mark.started
    outcome = _outcome(attempt, started, death.ended)
    outcome.killed = death.killed if attempt.stop or blamed else 0
    outcome.exit_code = death.exit_code
    outcome.result = {"exitCode": death.exit_code, "stdout": "", "stderr": ""}
    base = os.fsencode(f"{attempt.launch.output_dir}/{file_stem(attempt.launch.task, attempt.launch.attempt)}")
    fds = runner.files if sync and len(runner.files) == 2 else [None, None]
    cap = attempt.launch.output_max
    _read_streams(outcome, attempt, measure(base + b".out", cap, fds[0]), measure(base + b".err", cap, fds[1]))
    if attempt.stop:
        outcome.stopped = attempt.stop
        outcome.error = f"stopped ({attempt.stop})"
    elif death.stopped == "lease":
        outcome.stopped = "lease"
        outcome.error = "stopped (lease)"
    elif blamed:
        outcome.error = f"its runner process died: {death.error or 'it ended by itself'}"
        last_words = str((death.result or {}).get("stderr") or "")
        outcome.result["error"] = {"type": "RunnerDied", "message": outcome.error, "traceback": last_words}
    else:
        outcome.stopped = "drain"
        outcome.error = "its runner process died, through no fault of its own"
    return outcome


def _outcome(attempt: Attempt, started: float | None, ended: float) -> Outcome:
    return Outcome(attempt.launch.task_id, attempt.launch.attempt, False, None, started, ended)


def _read_streams(outcome: Outcome, attempt: Attempt, out: Written, err: Written) -> None:
    assert outcome.result is not None
    launch = attempt.launch
    try:
        if out != NOTHING:
            path = output_path(launch.output_dir, launch.task, launch.attempt, "stdout")
            describe_stream(outcome.result, "stdout", path, out)
        if err != NOTHING:
            path = output_path(launch.output_dir, launch.task, launch.attempt, "stderr")
            describe_stream(outcome.result, "stderr", path, err)
    except OSError as error:
        outcome.ok = False
        outcome.error = outcome.error or f"its output cannot be read: {error.strerror}"
