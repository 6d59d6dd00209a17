"""The messages between a node and its spawner, framed as framing.py says.

A node sends Hello once, first; then StartProcess, StopProcess, TrustUntil and LastWill as needed, and CloseSpawner
last. The spawner answers each StartProcess with exactly one ProcessEnded, and sends LivePids after a sweep that found
news.

The environment of attempts and their secrets travel only in these messages: the spawner's own environment, which
every process of its user can read, has none of them. Strings that reach the kernel are bytes, so that no locale
affects them.
"""

from weft.executors.framing import Message, MessageTypes
from weft.executors.output_file import Written

TYPE_CHECKING = False
if TYPE_CHECKING:  # it imports msgspec, which the spawner must not
    from weft.executors.protocol import StopReason

#: The variable that marks every process of an attempt, so that an orphan can be traced to it. (WEFT_TOKEN is a
#: server's token, which a task may need.)
TOKEN = b"WEFT_SPAWNED"

#: The user that attempts run as: name, user id, group id, all group ids.
AsUser = tuple[str, int, int, tuple[int, ...]]


# From the node


class Hello(Message):
    base_env: dict[bytes, bytes]
    token_prefix: bytes
    node_pid: int
    user: AsUser | None  # None: attempts run as the spawner's own user


class StartProcess(Message):
    id: int
    argv: tuple[bytes, ...]
    search_path: bool  # look argv[0] up in PATH
    env: dict[bytes, bytes]  # added to the base environment
    cwd: bytes
    output_dir: bytes
    file_stem: bytes
    output_max: int  # bytes kept of each stream
    hidden: tuple[bytes, ...]  # variables of the base environment that it must not see
    secret_forms: tuple[bytes, ...]  # masked in its output
    has_stdin: bool  # a descriptor comes with this message: its standard input, which is /dev/null otherwise


class StopProcess(Message):
    id: int
    reason: "StopReason"
    grace_s: float


class TrustUntil(Message):
    """Attempts may live until this CLOCK_BOOTTIME."""

    until: float


class LastWill(Message):
    """A command that the spawner runs when the node is dead or past its trust: it ends what the spawner cannot reach,
    such as containers. The next one replaces it."""

    argv: tuple[bytes, ...]


class CloseSpawner(Message):
    """Kill all attempts, report all of them, exit."""


# From the spawner


class LivePids(Message):
    """Of attempts that outlived a sweep: leaders that were not sent before, and all orphans."""

    leaders: dict[int, int]  # attempt id -> pid
    orphans: list[int]


class ProcessEnded(Message):
    id: int
    wait_status: int | None  # None: it never started
    started: float | None
    ended: float
    stopped: "StopReason | None"
    killed: int  # processes that had to be killed after the leader was gone
    error: str | None
    exit_code: int | None  # of an attempt that never started
    startable: bool
    stdout: Written
    stderr: Written


TYPES = MessageTypes(Hello, StartProcess, StopProcess, TrustUntil, CloseSpawner, LivePids, ProcessEnded, LastWill)
