"""Engines of remote attempts: which of them answer, and what lost nodes have left on them.

Every node that reaches an engine removes what sessions that are over have left there, or adopts it. The store learns
that something is gone only when the engine says so.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from weft.core.commands import CloseHandles
from weft.core.placement.eligibility import NOT_CHECKED
from weft.core.rows import HandleRow
from weft.executors.protocol import CheckedExecutor, Handle, RemoteExecutor
from weft.node.ports import LinkLost, NodeSettings, Ports

if TYPE_CHECKING:
    from weft.node.exchange import ExchangeLoop

CHECK_EVERY_S = 5.0

#: By kind: the engine that answers, or why none does.
Engines = dict[str, dict[str, str | None]]


async def watch_engines(
    ports: Ports, settings: NodeSettings, loop: "ExchangeLoop", checked: Callable[[Engines], None]
) -> None:
    """`checked` is called when an engine has begun to answer, or does not any more."""
    executors = {kind: cast(CheckedExecutor, ports.executors[kind]) for kind in sorted(ports.checked)}
    if not executors:
        return
    known: Engines = {}
    next_check = float("-inf")
    orphans = OrphanedHandles(
        ports, loop, {kind: cast(RemoteExecutor, ports.executors[kind]) for kind in sorted(ports.remote)}
    )
    while True:
        # A node for one run asks for an engine only when tasks need it: that costs an import.
        wanted = [kind for kind in executors if settings.scope is None or loop.eligible.knows(kind)]
        if ports.clock() >= next_check or any(kind not in known for kind in wanted):
            found = {kind: await _check(executors[kind]) for kind in wanted}
            if found != known:
                known = found
                unchecked: dict[str, str | None] = {"error": NOT_CHECKED}
                errors = {kind: found.get(kind, unchecked)["error"] for kind in executors}
                loop.learn_engines({kind: why for kind, why in errors.items() if why is not None})
                checked(found)
            next_check = ports.clock() + CHECK_EVERY_S
        await orphans.see_to()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(settings.expire_every_s * (0.8 + 0.4 * ports.random.random())):
                await loop.new_demands.wait()
        loop.new_demands.clear()


async def _check(executor: CheckedExecutor) -> dict[str, str | None]:
    try:
        error = await executor.check()
    except Exception as broken:  # an engine that breaks its protocol must not end the node
        error = f"{type(broken).__name__}: {broken}"
    engine = getattr(executor, "engine", None)  # one that needs no engine has none
    return {"engine": engine if error is None else None, "error": error}


class OrphanedHandles:
    """What sessions that are over have left on the engines of this node."""

    def __init__(self, ports: Ports, loop: "ExchangeLoop", executors: dict[str, RemoteExecutor]) -> None:
        self._ports = ports
        self._loop = loop
        self._executors = executors
        self._offered: dict[tuple[int, int], int] = {}  # how many exchanges there had been then

    async def see_to(self) -> None:
        engines = sorted({executor.engine for executor in self._executors.values() if executor.engine is not None})
        if not engines:
            return
        try:
            found = await self._ports.link.orphans(engines)
            if not found:
                self._offered.clear()
                return
            await self._remove([handle for handle, stopping in found if stopping or not self._offer(handle)])
        except LinkLost:
            return  # the next look finds the same

    def _offer(self, handle: HandleRow) -> bool:
        """False: it is to be removed. What the rules did not let this node adopt, nobody may."""
        if not handle.adoptable:
            return False
        key = (handle.task_id, handle.attempt)
        offered = self._offered.get(key)
        if offered is not None and self._loop.exchanges > offered:
            return False
        worker = self._loop.worker
        room = worker.want_slotless() if handle.kind in self._ports.slotless else worker.want()
        if offered is None and room > 0:
            self._offered[key] = self._loop.exchanges + self._loop.in_flight
            self._loop.adopt(key)
        return True

    async def _remove(self, handles: list[HandleRow]) -> None:
        for kind, executor in self._executors.items():
            mine = {
                Handle(h.engine, h.name, h.place): (h.task_id, h.attempt)
                for h in handles
                if h.kind == kind and h.engine == executor.engine
            }
            if not mine:
                continue
            gone = await executor.remove(list(mine))
            if gone:
                closed = [mine[handle] for handle in gone if handle in mine]
                await self._ports.link.close_handles(CloseHandles(closed))
                self._ports.log(
                    "removed what lost nodes had left", {"engine": executor.engine, "attempts": len(gone)}
                )
