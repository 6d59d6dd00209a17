"""Nodes of an application that embeds Weft, and of `weft serve`: an event loop on a thread of its own.

One loop for all nodes of a store, because a store's wake-ups are heard by one loop.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from weft.client.local import StoreConnection
from weft.config import Config
from weft.executors.inline import InlineFunction
from weft.local_node.factory import make_node, node_options, node_settings
from weft.local_node.plugin_executors import plugin_kinds
from weft.node.node import Node
from weft.store.protocol import StoreBusy

T = TypeVar("T")
LOOK_S = 0.005
LOOK_IDLE_S = 0.05
IDLE_AFTER_S = 1.0
STORE_RETRY_S = 0.5


class NodeThread:
    def __init__(
        self,
        connection: StoreConnection,
        config: Config,
        inline: Mapping[str, InlineFunction],
        log: Callable[[str, dict[str, Any]], None],
        url: str | None = None,
        log_line: Callable[[str, str, dict[str, Any]], None] | None = None,
    ) -> None:
        self._connection = connection
        self._config = config
        self._inline = inline
        self._log = log
        self._url = url
        self._log_line = log_line
        self._loop = asyncio.new_event_loop()
        self._worker: tuple[Node, Future[None]] | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="weft", daemon=True)
        self._thread.start()

    def start_worker(self) -> None:
        """A node that takes whatever is queued."""
        self.begin_worker()
        assert self._worker is not None
        self._call(self._worker[0].ready()).result()

    def begin_worker(self) -> "Future[None]":
        """The same without waiting until it can claim; done when the node has left."""
        node = self._node(None)
        working = self._call(node.run())
        self._worker = (node, working)
        return working

    @property
    def ready(self) -> bool:
        """The worker has a session: it may claim."""
        return self._worker is not None and self._worker[0].is_ready and not self._worker[1].done()

    @property
    def left(self) -> bool:
        """The worker was drained by request, and is gone."""
        return self._worker is not None and self._worker[0].drained and self._worker[1].done()

    def stop_worker(self) -> None:
        """Once: it drains. Twice: it kills what it runs."""
        if self._worker is not None:
            self._stop(self._worker[0])

    def finish(self, run_id: str) -> None:
        """Until the run has ended: the worker does it, or else a node that works on this run only.

        ^C stops that node as it stops `weft run`: running tasks get the drain time, a second ^C kills them.
        """
        if self._worker is not None:
            node, working = self._worker
            waiting = self._call(self._until_ended(run_id, working.done))
            try:
                waiting.result()
            except BaseException:
                waiting.cancel()
                raise
            if working.done():
                working.result()
            return
        node = self._node(run_id)
        done = self._call(self._work(node, run_id))
        try:
            done.result()
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"the run is kept: weft resume {run_id}")
            self._stop(node)
            try:
                done.result()
            except KeyboardInterrupt:
                self._stop(node)
                done.result()
            raise

    def close(self) -> None:
        if self._worker is not None:
            node, working = self._worker
            if not working.done():
                self._stop(node)
            working.result()
        self._call(self._end()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        """What other threads still wait for ends here."""
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _node(self, scope: str | None) -> Node:
        config = self._config
        made = node_settings(
            self._connection, slots=config.slots, workdir=config.workdir, scope=scope,
            http_private=scope is not None,  # the application's own run
            **node_options(config),
        )  # fmt: skip
        plugins = None if scope is None else plugin_kinds(self._connection.workflows(scope))
        return make_node(
            self._connection, made, inline=self._inline, plugins=plugins, python_runners=config.python_runners,
            log=self._log, url=self._url, log_line=self._log_line,
        )  # fmt: skip

    def _call(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _stop(self, node: Node) -> None:
        self._loop.call_soon_threadsafe(node.stop)

    async def _work(self, node: Node, run_id: str) -> None:
        working = asyncio.create_task(node.run())
        try:
            await self._until_ended(run_id, working.done)
            node.stop()
            await working
        finally:
            if not working.done():
                node.stop()
                node.stop()
                await asyncio.gather(working, return_exceptions=True)

    async def _until_ended(self, run_id: str, given_up: Callable[[], bool]) -> None:
        """Looked for, not told: an end costs one indexed read, and most looks find it within milliseconds."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not given_up():
            try:
                if self._connection.run(run_id).finished:
                    return
            except StoreBusy:  # the node goes on by itself
                await asyncio.sleep(STORE_RETRY_S)
            await asyncio.sleep(LOOK_S if loop.time() - began < IDLE_AFTER_S else LOOK_IDLE_S)
