"""One attempt, as the spawner knows it from its start to its report."""

from weft.executors.output_files import Stream


class Attempt:
    __slots__ = (
        "announced",
        "ended",
        "err",
        "error",
        "id",
        "kill_at",
        "out",
        "pid",
        "reported",
        "started",
        "status",
        "stop",
        "token",
        "victims",
    )

    def __init__(self, id: int, token: bytes, pid: int, started: float, out: Stream, err: Stream) -> None:
        self.id = id
        self.token = token
        self.pid = pid  # of the leader: the process that was started
        self.started = started
        self.out = out
        self.err = err
        self.status: int | None = None  # the leader's wait status, once it was reaped
        self.ended = 0.0
        self.stop: str | None = None
        self.kill_at: float | None = None  # when what is left must be killed
        self.victims: set[int] = set()  # what had to be killed
        self.error: str | None = None
        self.announced = False
        self.reported = False
