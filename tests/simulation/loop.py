"""An event loop with a virtual clock and a seeded order.

Time jumps to the next timer when nothing is ready. Among the callbacks that are ready, the seed chooses the order.
Every callback belongs to the node whose context it was made in: a crashed node's callbacks never run again, a paused
node's wait.
"""

import asyncio
import contextlib
import contextvars
import heapq
import random
from typing import Any

STEPS_MAX = 500_000  # of one story; what takes more goes round in circles at one moment of the virtual clock

#: Which node incarnation a callback belongs to; 0 is the world itself.
OWNER: contextvars.ContextVar[int] = contextvars.ContextVar("owner", default=0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self, seed: int) -> None:
        self._now = 1000.0
        self._random = random.Random(f"loop-{seed}")
        self.dead: set[int] = set()
        self.paused: dict[int, float] = {}
        self.steps = 0
        self._parked: list[Any] = []  # callbacks of paused nodes
        self._tasks: list[asyncio.Task[Any]] = []
        super().__init__()
        self.set_task_factory(self._kept)

    @staticmethod
    def _kept(loop: Any, coroutine: Any, **more: Any) -> "asyncio.Task[Any]":
        """The collector must not come for a dead node's coroutines in mid-story: CPython 3.11 has crashed on that."""
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **more)
        loop._tasks.append(task)
        return task

    def abandon(self) -> None:
        """Ends what crashed nodes left in the middle of an await, wherever it is."""
        for task in self._tasks:
            if not task.done():
                with contextlib.suppress(BaseException):
                    task.get_coro().close()
        self._tasks.clear()
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        self.close()

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        """All callbacks that are ready now, in the seed's order; if there are none, time jumps to the next timer."""
        if self.steps > STEPS_MAX:
            raise RuntimeError(f"the simulation took more than {STEPS_MAX} steps")
        ready: Any = self._ready  # type: ignore[attr-defined]
        timers: list[Any] = self._scheduled  # type: ignore[attr-defined]
        while timers and (timers[0]._cancelled or self._owner(timers[0]) in self.dead):
            heapq.heappop(timers)._scheduled = False
        if not ready:
            moments = [timers[0]._when] if timers else []
            moments += [self.paused.get(self._owner(handle), 0.0) for handle in self._parked]
            if not moments:
                raise RuntimeError("the simulation is stuck: nothing is ready and no timer is set")
            self._now = max(self._now, min(moments))
        parked, self._parked = self._parked, []
        for handle in parked:
            (self._parked if self.paused.get(self._owner(handle), 0.0) > self._now else ready).append(handle)
        while timers and timers[0]._when <= self._now:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        handles = [h for h in ready if not h._cancelled and self._owner(h) not in self.dead]
        ready.clear()
        self._random.shuffle(handles)
        for handle in handles:
            owner = self._owner(handle)
            if handle._cancelled or owner in self.dead:
                continue
            until = self.paused.get(owner, 0.0)
            if until > self._now:
                self._parked.append(handle)
                continue
            self.steps += 1
            handle._run()

    def _owner(self, handle: Any) -> int:
        return handle._context.get(OWNER, 0) if handle._context is not None else 0
