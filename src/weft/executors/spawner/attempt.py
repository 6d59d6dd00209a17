"""One attempt as the spawner knows it, from the start of its process until it is reported."""

from weft.executors.output_file import OutputFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from weft.executors.protocol import StopReason


class SpawnedAttempt:
    __slots__ = (
        "ended",
        "error",
        "id",
        "kill_at",
        "killed",
        "pid",
        "pid_sent",
        "reported",
        "started",
        "status",
        "stderr",
        "stdout",
        "stop",
        "token",
    )

    def __init__(
        self, id: int, token: bytes, pid: int, started: float, stdout: OutputFile, stderr: OutputFile
    ) -> None:
        self.id = id
        self.token = token
        self.pid = pid  # of the leader: the process that was started
        self.started = started
        self.stdout = stdout
        self.stderr = stderr
        self.status: int | None = None  # the leader's wait status, once it is reaped
        self.ended = 0.0
        self.stop: StopReason | None = None
        self.kill_at: float | None = None  # when all its remaining processes must be killed
        self.killed: set[int] = set()  # pids of processes that had to be killed
        self.error: str | None = None
        self.pid_sent = False  # to the node, in LivePids
        self.reported = False
