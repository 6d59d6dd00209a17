"""Follows the log of an attempt's container into its output file, over as many connections as that takes."""

import asyncio
from contextlib import suppress

from weft.executors.kubernetes.api import Api, KubernetesError, path_of
from weft.executors.kubernetes.log_lines import LogLines
from weft.executors.kubernetes.manifest import CONTAINER
from weft.executors.output_file import Written
from weft.executors.protocol import Launch
from weft.executors.remote.followed_output import FollowedOutput
from weft.executors.remote.http_connection import Unreachable

_AGAIN_S = 1.0
_AGAIN_MAX_S = 10.0
#: How long an API server that answers may fail to give the log of a container that has ended.
_PATIENCE_S = 30.0
_LAST_WORDS_S = 2.0


class LogFollower:
    """Kubernetes merges a container's stdout and stderr: both are in the file of stdout."""

    def __init__(self, api: Api, launch: Launch, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._output = FollowedOutput(launch, "stdout")
        self._lines = LogLines()
        self._task: asyncio.Task[None] | None = None

    @property
    def missing(self) -> str | None:
        """Why a part of the output is missing."""
        if self._output.error is None and self._lines.gaps:
            return "the log was rotated before all of it was read"
        return self._output.error

    def start(self, pod: str) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._follow(pod))

    async def read_rest(self, pod: str) -> None:
        """The container has ended: read what was not read yet. Returns too if that cannot be had any more."""
        await self._cancel()
        loop = asyncio.get_running_loop()
        refused_at = None
        pause = _AGAIN_S / 4
        while True:
            try:
                await self._read(pod, follow=False)
                return
            except KubernetesError as error:
                refused_at = refused_at or loop.time()
                if not error.passing or loop.time() - refused_at > _PATIENCE_S:
                    self._output.error = self._output.error or f"its log cannot be read: {error}"
                    return
            except Unreachable:
                refused_at = None
            await asyncio.sleep(pause)
            pause = min(pause * 2, _AGAIN_MAX_S)

    async def last_words(self) -> None:
        """The pod is gone: what its log still has on the way, for a moment."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_LAST_WORDS_S)
        await self._cancel()

    def finish(self) -> Written:
        return self._output.finish()

    async def close(self) -> None:
        await self._cancel()
        self._output.finish()

    async def _cancel(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self, pod: str) -> None:
        """Until the pod is gone, or this is cancelled. A stream may also end while the container runs: servers end
        long ones, and a node that rotates its log may."""
        pause = _AGAIN_S / 4
        while True:
            since = self._lines.since
            try:
                await self._read(pod, follow=True)
            except KubernetesError as error:
                if error.status == 404:
                    return
            except Unreachable:
                pass
            if self._lines.since != since:
                pause = _AGAIN_S / 4
            await asyncio.sleep(pause)
            pause = min(pause * 2, _AGAIN_MAX_S)

    async def _read(self, pod: str, follow: bool) -> None:
        query = {"container": CONTAINER, "timestamps": "true"}
        if follow:
            query["follow"] = "true"
        if self._lines.since is not None:
            query["sinceTime"] = self._lines.since
        async with self._api.stream(path_of("pods", self._namespace, pod, "/log"), query) as answer:
            self._lines.resume()
            while data := await answer.read():
                self._output.write(self._lines.feed(data))
