"""The messages between a node and a Python runner, framed as framing.py says.

The socket is the runner's standard input when it starts: no other process can reach it. An attempt's secrets travel
this way and not through an environment, which other processes of the user can read.

A runner runs its calls in the order in which they were sent. It answers each StartCall with exactly one CallEnded, or
returns it unstarted with CallsReturned.
"""

from typing import TYPE_CHECKING, Literal

from weft.executors.framing import Message, MessageTypes
from weft.executors.output_file import Written

if TYPE_CHECKING:
    from weft.executors.python_functions.failure import Failure

#: Why a runner accepts no more calls. One that left processes running does not exit by itself: they must be killed.
RetireReason = Literal["tasks_max", "growth_max", "source changed", "requested", "left processes"]

#: The last argument of a runner that is dedicated to one attempt: the runner's own output is that attempt's.
DEDICATED = "dedicated"


# From the node


class StartCall(Message):
    id: int
    function: str  # module:function or file.py:function
    arguments: bytes  # marshalled on their own: arguments that cannot be must not break the frame
    variables: dict[str, str]
    output_dir: str
    file_stem: str
    output_max: int  # bytes kept of each stream
    start_in: str | None  # the directory in which a plain function starts; None: that of the runner


class StopCall(Message):
    """Raise Stopped in the plain function, or cancel the async one."""

    id: int


class OnceResponse(Message):
    """The answer to a OnceRequest."""

    number: int
    status: str
    value: str | None


class RetireRunner(Message):
    """Return the calls that have not started, and exit once those that have are done."""


# From the runner


class RunnerReady(Message):
    """Sent once, first; with the descriptor of the runner's ActiveCall."""


class OutputOpened(Message):
    """With the descriptors of the files that plain functions print to from now on."""


class FunctionKind(Message):
    """Sent if the function is async, or if it is not but the call is queued where only async functions can run."""

    id: int
    is_async: bool


class CallsReturned(Message):
    """Calls that have not started and would have to wait in this runner: another runner may take them."""

    ids: list[int]


class CallEnded(Message):
    id: int
    started: float | None  # None: it never started
    ended: float
    stopped: bool
    output: bytes | None  # JSON
    failure: "Failure | None"
    context: bytes | None  # JSON
    stdout: Written
    stderr: Written
    processes_left: int  # child processes that the function left running


class OnceRequest(Message):
    """A question of weft.once (see protocol.OnceQuestion)."""

    id: int
    number: int  # the runner's own number of this request
    key: str
    ending: Literal["completed", "failed"] | None
    value: str | None  # JSON
    take_over: bool


class RunnerRetiring(Message):
    """This runner accepts no more calls."""

    reason: RetireReason


TYPES = MessageTypes(
    StartCall, StopCall, OnceResponse, RetireRunner,
    RunnerReady, OutputOpened, FunctionKind, CallsReturned, CallEnded, OnceRequest, RunnerRetiring,
)  # fmt: skip
