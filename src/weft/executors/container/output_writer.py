"""Both output streams of a container, written into the attempt's output files."""

from collections.abc import Callable

from weft.executors.output_file import Written
from weft.executors.protocol import Launch
from weft.executors.remote.followed_output import FollowedOutput


class OutputWriter:
    """By the engine's numbers of streams. `on_error` is called once, when something cannot be stored."""

    __slots__ = ("_on_error", "_stderr", "_stdout")

    def __init__(self, launch: Launch, on_error: Callable[[], None]) -> None:
        self._on_error = on_error
        self._stdout = FollowedOutput(launch, "stdout")
        self._stderr = FollowedOutput(launch, "stderr")

    @property
    def error(self) -> str | None:
        return self._stdout.error or self._stderr.error

    def write(self, stream: int, data: bytes) -> None:
        if self.error is None and stream in (1, 2):
            (self._stdout if stream == 1 else self._stderr).write(data)
            if self.error is not None:
                self._on_error()

    def finish(self) -> tuple[Written, Written]:
        return self._stdout.finish(), self._stderr.finish()
