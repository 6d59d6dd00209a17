"""Large outputs, files of tasks and workspaces of a node that has no store: all of them through its server.

What uses these runs in threads; the link belongs to the event loop.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, BinaryIO, TypeVar

from weft.core.artifacts import ArtifactReference, KeptFile, KeptFiles
from weft.node.ports import LinkLost
from weft.node.workers.messages import PutArtifactCall, ReadArtifactCall, ReadFileCall, Rejected
from weft.node.workers.remote_link import RemoteLink
from weft.store.artifact_files import ArtifactError, check_size
from weft.store.kept_files import FileOwner, FilesError, StoreFiles
from weft.store.protocol import Reader, StoreBusy
from weft.store.shipment import Shipment

T = TypeVar("T")
TRIES = 20
RETRY_S = 0.5


class FromThreads:
    """The link, for those who are not on its event loop: asked again for a while when no answer came."""

    def __init__(self, link: RemoteLink, loop: asyncio.AbstractEventLoop) -> None:
        self.link = link
        self._loop = loop

    def ask(self, call: str, request: Any) -> Any:
        return self.run(self._insist(call, request))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _insist(self, call: str, request: Any) -> Any:
        for tries in range(TRIES):
            try:
                return await self.link.call(call, request)
            except LinkLost:
                if tries == TRIES - 1:
                    raise
                await asyncio.sleep(RETRY_S)
        raise AssertionError("unreachable")


class ServerArtifacts:
    def __init__(self, ask: FromThreads, bytes_max: int) -> None:
        self._ask = ask
        self._bytes_max = bytes_max

    def write(self, run_id: str, data: bytes) -> ArtifactReference:
        check_size(data, self._bytes_max)
        try:
            found: ArtifactReference = self._ask.ask(
                "put_artifact", PutArtifactCall(self._ask.link.session, run_id, data)
            )
        except (LinkLost, Rejected) as error:
            raise ArtifactError(f"its output of {len(data):,} bytes could not be stored: {error}") from None
        return found

    def read(self, run_id: str, reference: ArtifactReference) -> bytes:
        asked = ReadArtifactCall(self._ask.link.session, run_id, reference.sha256)
        try:
            data: bytes = self._ask.ask("read_artifact", asked)
        except (LinkLost, Rejected) as error:
            raise ArtifactError(f"the artifact {reference.path} could not be read: {error}") from None
        return data


class ServerFiles:
    """Files that tasks keep go into the store like output; those of others come from wherever the server finds
    them."""

    def __init__(self, ask: FromThreads) -> None:
        self._ask = ask
        self._kept = StoreFiles(self._ship, _no_reader)

    def put(self, owner: FileOwner, found: Iterator[tuple[str, BinaryIO]], bytes_max: int) -> KeptFiles:
        return self._kept.put(owner, found, bytes_max)

    def _ship(self, shipment: Shipment) -> list[tuple[int, int]]:
        async def ship() -> list[tuple[int, int]]:
            for tries in range(TRIES):
                try:
                    return await self._ask.link.ship(shipment)
                except LinkLost as error:
                    if tries == TRIES - 1:
                        raise StoreBusy(str(error)) from None
                    await asyncio.sleep(RETRY_S)
            raise AssertionError("unreachable")

        return self._ask.run(ship())

    def parts(self, kept: KeptFiles, file: KeptFile, start: int = 0) -> Iterator[bytes]:
        while start < file.bytes:
            asked = ReadFileCall(self._ask.link.session, kept.task, kept.attempt, file.path, start)
            try:
                data: bytes = self._ask.ask("read_file", asked)
            except (LinkLost, Rejected) as error:
                raise FilesError(f"{file.path} cannot be read: {error}") from None
            if not data:
                raise FilesError(f"{file.path} is shorter than it was kept")
            start += len(data)
            yield data


def _no_reader() -> Reader:
    raise FilesError("a worker has no store to read from")
