"""Follows the output of one container: attached while the connection lasts, from the engine's log after that."""

from collections.abc import Callable
from contextlib import suppress

from weft.executors.container.client import EngineClient, EngineRefused, EngineStream, EngineUnreachable
from weft.executors.container.frames import STREAMS, LogEntries, LogPosition, OutputFrames, since
from weft.executors.container.output_writer import OutputWriter
from weft.executors.output_file import Written
from weft.executors.protocol import Launch


class OutputFollower:
    __slots__ = ("_client", "_from_log", "_life", "_path", "_positions", "_stream", "_writer")

    def __init__(self, client: EngineClient, path: str, launch: Launch, on_error: Callable[[], None]) -> None:
        """`on_error` is called when output cannot be stored: nothing more will be."""
        self._client = client
        self._path = path
        self._positions = {stream: LogPosition() for stream in STREAMS}
        self._writer = OutputWriter(launch, on_error)
        self._stream: EngineStream | None = None
        self._from_log = False
        self._life = 0  # of the engine that was attached to

    @property
    def error(self) -> str | None:
        """Why output could not be stored."""
        return self._writer.error

    async def attach(self) -> None:
        """Before the container is started: then nothing is missed."""
        self._close()
        try:
            self._life = await self._client.life()
        except TimeoutError:
            raise EngineUnreachable("no stream of events") from None
        self._stream = await self._client.stream(
            "POST", f"{self._path}/attach?stream=1&stdout=1&stderr=1", upgrade=True
        )

    def read_log(self) -> None:
        """From now on: the connection was lost, or there never was one."""
        self._from_log = True

    @property
    def cut_off(self) -> bool:
        """The engine was restarted since: the end of what was attached says nothing. Ask after an answer of it."""
        return not self._from_log and not self._client.is_alive_since(self._life)

    async def read_to_end(self) -> None:
        """Until the output ends. Raises EngineUnreachable or EngineRefused if the connection is lost or refused."""
        if self._from_log:
            await self._read_log(follow=True)
        elif self._stream is not None:
            stream, frames = self._stream, OutputFrames()
            try:
                while data := await stream.read():
                    for number, part, _ in frames.feed(data):
                        if number in self._positions:
                            self._positions[number].taken += len(part)
                            self._writer.write(number, part)
            finally:
                self._close()

    async def complete(self) -> bool:
        """After the container's end: read what is left in the log, if it was read from there. False: it could not be
        read to its end."""
        if not self._from_log:
            return True
        with suppress(EngineUnreachable):
            await self._read_log(follow=False)
            return True
        return False

    async def _read_log(self, follow: bool) -> None:
        query = f"follow={int(follow)}&stdout=1&stderr=1&timestamps=1"
        start = since(self._positions)
        if start is not None:
            query += f"&since={start}"
        try:
            stream = await self._client.stream("GET", f"{self._path}/logs?{query}")
        except EngineRefused as error:
            if error.status == 404:
                return
            raise EngineUnreachable(error.message) from None
        frames, entries = OutputFrames(), LogEntries(self._positions)
        try:
            while data := await stream.read():
                for number, part, whole in frames.feed(data):
                    self._writer.write(number, entries.feed(number, part, whole))
        finally:
            stream.close()

    def finish(self) -> tuple[Written, Written]:
        self._close()
        return self._writer.finish()

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
