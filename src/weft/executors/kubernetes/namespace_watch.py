"""Watches the Jobs and pods of one namespace for all attempts there: one list and one stream of each kind.

A stream goes on from the version of the last change. When the server does not have that version any more (410), what
is there is listed again. Only what carries the labels of the given processes is asked for.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable

from weft.executors.kubernetes.api import Api, KubernetesError, decode, path_of
from weft.executors.kubernetes.manifest import PROCESS
from weft.executors.kubernetes.objects import ErrorStatus, Job, Named, Pod, WatchEvent
from weft.executors.remote.http_connection import ApiConnection, Unreachable

STREAM_S = 300  # after this the server ends a stream, and it is begun again
_SILENCE_MAX_S = STREAM_S + 30.0
_AGAIN_S = 0.25
_AGAIN_MAX_S = 10.0
_LINE_BYTES_MAX = 16 * 2**20


class VersionGone(Exception):
    """The server no longer has the version from which a watch was to go on."""


class NamespaceWatch:
    def __init__(
        self,
        api: Api,
        namespace: str,
        on_change: Callable[[Job | Pod, bool], None],
        on_listed: Callable[[str, frozenset[str]], None],
        on_away: Callable[[str | None], None],
    ) -> None:
        """`on_change` gets each object as it is now, and whether it is gone; `on_listed` gets the kind and the names
        of all that are there, after a list; `on_away` gets why the server does not answer, or None when it does."""
        self._api = api
        self._namespace = namespace
        self._on_change = on_change
        self._on_listed = on_listed
        self._on_away = on_away
        self._versions: dict[str, str] = {}  # by kind: of the last change that was seen
        self._processes: frozenset[str] = frozenset()
        self._tasks: list[asyncio.Task[None]] = []

    def watch(self, processes: Iterable[str]) -> None:
        """Watch what these processes have made, from now on."""
        wanted = frozenset(processes)
        if wanted == self._processes:
            return
        self._processes = wanted
        self.close()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._follow("jobs", Job)), loop.create_task(self._follow("pods", Pod))]

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    async def _follow(self, resource: str, type: type[Job] | type[Pod]) -> None:
        self._versions.pop(resource, None)
        pause = _AGAIN_S
        while True:
            begun = self._versions.get(resource)
            try:
                if begun is None:
                    begun = self._versions[resource] = await self._list(resource, type)
                    self._on_away(None)
                await self._stream(resource, type, begun)
                pause = _AGAIN_S
                continue
            except VersionGone:
                del self._versions[resource]
                continue
            except Exception as error:  # also what this code does not expect: without a watch all attempts would hang
                if not isinstance(error, (Unreachable, KubernetesError)):
                    self._versions.pop(resource, None)
                if self._versions.get(resource) != begun:
                    pause = _AGAIN_S  # it had brought something
                else:
                    self._on_away(str(error))
                if isinstance(error, KubernetesError) and error.retry_after:
                    pause = max(pause, error.retry_after)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, _AGAIN_MAX_S)

    def _query(self) -> dict[str, str]:
        return {"labelSelector": f"{PROCESS} in ({','.join(sorted(self._processes))})"}

    async def _list(self, resource: str, type: type[Job] | type[Pod]) -> str:
        items, version = await self._api.list(resource, self._namespace, self._query())
        found = [decode(item, type) for item in items]
        for one in found:
            self._on_change(one, False)
        self._on_listed(resource, frozenset(one.metadata.name for one in found))
        return version

    async def _stream(self, resource: str, type: type[Job] | type[Pod], version: str) -> None:
        """Returns when the server ends the stream."""
        query = self._query()
        query |= {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        query["timeoutSeconds"] = str(round(STREAM_S * random.uniform(0.8, 1.0)))
        try:
            async with self._api.stream(path_of(resource, self._namespace), query) as answer:
                self._on_away(None)
                async for line in _lines(answer):
                    self._versions[resource] = self._take(line, type)
        except KubernetesError as error:
            if error.status == 410:
                raise VersionGone from None
            raise

    def _take(self, line: bytes, type: type[Job] | type[Pod]) -> str:
        event = decode(line, WatchEvent)
        if event.type == "ERROR":
            status = decode(event.object, ErrorStatus)
            if status.code == 410:
                raise VersionGone
            raise KubernetesError(status.code, status.reason, status.message)
        if event.type == "BOOKMARK":
            return decode(event.object, Named).metadata.resource_version
        found = decode(event.object, type)
        self._on_change(found, event.type == "DELETED")
        return found.metadata.resource_version


async def _lines(answer: ApiConnection) -> AsyncIterator[bytes]:
    """The JSON documents of a stream, one a line."""
    rest = b""
    while True:
        try:
            async with asyncio.timeout(_SILENCE_MAX_S):
                data = await answer.read()
        except TimeoutError:
            raise Unreachable(f"its stream was silent for {_SILENCE_MAX_S:g} s") from None
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line:
                yield line
        if len(rest) > _LINE_BYTES_MAX:
            raise Unreachable("its stream has a line without an end")
