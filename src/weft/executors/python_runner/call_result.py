"""The result of one call, on its way from the runner to the node."""

from weft.executors import linux
from weft.executors.output_file import NOTHING_WRITTEN, Written
from weft.executors.python.messages import CallEnded
from weft.executors.python_functions.attempt_context import RunningAttempt
from weft.executors.python_functions.failure import Failure, describe
from weft.executors.python_functions.json_values import json_bytes


class CallResult:
    __slots__ = ("context", "failure", "is_async", "output", "stopped")

    def __init__(self, failure: Failure | None = None, stopped: bool = False) -> None:
        self.output: bytes | None = None
        self.failure = failure
        self.stopped = stopped  # a stop was raised in the function
        self.context: bytes | None = None
        self.is_async = False  # the function was not called: it must run on the event loop

    def take_context(self, attempt: RunningAttempt) -> None:
        if attempt.context:
            self.context = json_bytes(attempt.context, "context_update() got a value")

    def fail_output(self, error: OSError) -> None:
        """Lost output is a failure, unless the call has failed already."""
        if self.failure is None:
            self.output = None
            self.failure = (f"the output could not be stored: {error.strerror}", "OSError", str(error), "")

    def fail(self, error: BaseException) -> None:
        self.output = None
        self.is_async = False
        self.failure = describe(error)

    def ended(
        self, id: int, started: float | None, written: tuple[Written, Written], processes_left: int
    ) -> CallEnded:
        return CallEnded(
            id, started, linux.boottime(), self.stopped, self.output, self.failure, self.context, *written,
            processes_left,
        )  # fmt: skip


#: Of stdout and stderr of a call that printed nothing.
NO_OUTPUT: tuple[Written, Written] = (NOTHING_WRITTEN, NOTHING_WRITTEN)
