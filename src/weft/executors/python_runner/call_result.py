"""What came of one call, on its way from the runner to the node."""

from weft.executors import linux
from weft.executors.python.messages import ENDED
from weft.executors.python_functions.attempt_context import RunningAttempt
from weft.executors.python_functions.failure import Failure, describe
from weft.executors.python_functions.json_values import json_bytes
from weft.executors.python_runner.output_streams import Written
from weft.executors.spawner.messages import Message


class CallResult:
    __slots__ = ("context", "failure", "is_async", "output", "stopped")

    def __init__(self, failure: Failure | None = None, stopped: bool = False) -> None:
        self.output: bytes | None = None
        self.failure = failure
        self.stopped = stopped  # somebody wanted it to end, and it was told so
        self.context: bytes | None = None
        self.is_async = False  # it was not called: async functions are called elsewhere

    def take_context(self, attempt: RunningAttempt) -> None:
        if attempt.context:
            self.context = json_bytes(attempt.context, "context_update() got a value")

    def not_stored(self, error: OSError) -> None:
        """Output that is lost is a failure, if there is no other."""
        if self.failure is None:
            self.output = None
            self.failure = (f"its output could not be stored: {error.strerror}", "OSError", str(error), "")

    def fail(self, error: BaseException) -> None:
        self.output = None
        self.is_async = False
        self.failure = describe(error)


def ended_message(
    id: int, started: float | None, result: CallResult, out: Written, err: Written, left: int
) -> Message:
    ended = linux.boottime()
    return ENDED, id, started, ended, result.stopped, result.output, result.failure, result.context, out, err, left
