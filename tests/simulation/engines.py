"""Engines that outlive nodes: containers that go on when their node is paused or dead, and requests that are lost,
late, or answered by nobody. The executor is the simulation's own; handles, adoption and removal are Weft's.
"""

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tests.simulation.loop import OWNER
from weft.core.rows import ORDINAL_BITS
from weft.executors.protocol import Ended, Handle, Launch, Outcome, StopReason
from weft.executors.remote.names import attempt_name
from weft.plugins import PolledExecutor, RemoteState

if TYPE_CHECKING:
    from tests.simulation.world import World

KIND = "container"
PLUGIN_KIND = "simulated"  # in every second story with engines, a plugin's: PolledExecutor follows the attempts
Place = tuple[int, int, int]


class EngineLost(Exception):
    """No answer: what was asked may have been done, may be done later, or never."""


class Container(msgspec.Struct):
    place: Place
    process: int  # the node that created it
    adoptable: bool
    took: float
    succeeds: bool
    state: Literal["created", "running", "exited"] = "created"
    ok: bool = False
    exit: asyncio.TimerHandle | None = None


class SimulatedEngine:
    def __init__(self, world: "World", name: str) -> None:
        self._world = world
        self.name = name
        self.containers: dict[str, Container] = {}
        self.away_until = float("-inf")
        self.removed = 0  # by nodes that did not create them
        self._machine = contextvars.Context()

    async def ask(self, work: Callable[[], Any]) -> Any:
        """What was sent arrives, sooner or later, or is lost; so is the answer."""
        world = self._world
        rng, faults = world.random, world.faults
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        late = rng.uniform(0.5, 6.0) if rng.random() < faults.long_delay else rng.uniform(0, faults.delay_max)
        world.loop.call_later(late, self._arrive, work, done, context=contextvars.Context())
        return await done

    def _arrive(self, work: Callable[[], Any], done: "asyncio.Future[Any]") -> None:
        world = self._world
        away = world.loop.time() < self.away_until
        reply = None
        lost = away or world.random.random() < world.faults.lose_request
        if not lost:
            reply = work()
        lost = lost or world.random.random() < world.faults.lose_reply
        back = contextvars.Context()
        world.loop.call_later(0.1 if lost else 0.001, self._answer, done, reply, lost, context=back)

    def _answer(self, done: "asyncio.Future[Any]", reply: Any, lost: bool) -> None:
        if done.done():
            return
        if lost:
            done.set_exception(EngineLost())
        else:
            done.set_result(reply)

    # -- what it does ------------------------------------------------------------------------------------

    def create(self, name: str, container: Container) -> str:
        if name in self.containers:
            return "exists"
        self.containers[name] = container
        return "created"

    def start(self, name: str) -> str:
        container = self.containers.get(name)
        if container is None:
            return "missing"
        if container.state == "created":
            container.state = "running"
            self._world.auditor.remote_started(container.place, name)
            end = self._world.loop.call_later(container.took, self._exit, name, True, context=self._machine)
            container.exit = end
        return "started"

    def state(self, name: str) -> tuple[str, bool] | None:
        container = self.containers.get(name)
        return None if container is None else (container.state, container.ok)

    def kill(self, name: str) -> None:
        self._exit(name, False)

    def _exit(self, name: str, by_itself: bool) -> None:
        container = self.containers.get(name)
        if container is None or container.state != "running":
            return
        assert container.exit is not None
        container.exit.cancel()
        container.state, container.ok = "exited", by_itself and container.succeeds
        self._world.auditor.remote_ended(container.place, name)

    def remove(self, name: str) -> None:
        self.kill(name)
        self.containers.pop(name, None)

    def remove_all(self, process: int) -> None:
        """What a spawner asks for when its node is gone."""
        for name, container in list(self.containers.items()):
            if container.process == process and not container.adoptable:
                self.remove(name)

    def forget(self) -> None:
        """Its machine was started again, and nothing is left."""
        for name in list(self.containers):
            self.remove(name)


class _Watched(msgspec.Struct):
    launch: Launch
    ended: Ended
    task: "asyncio.Task[None]"
    stop: StopReason | None = None


class SimulatedRemote:
    """A remote executor, as the protocol wants one: inert first, started only while trusted, over when it is gone."""

    kinds = frozenset({KIND})

    def __init__(self, world: "World", engine: SimulatedEngine, owner: int, clock: Callable[[], float]) -> None:
        self._world = world
        self._engine = engine
        self._owner = owner
        self.takes_slot = owner % 2 == 0  # to some nodes its attempts only wait
        self._clock = clock
        self._answers = False
        self._watched: dict[tuple[int, int], _Watched] = {}
        self._trusted_until = float("-inf")
        self._trust: asyncio.TimerHandle | None = None
        self._machine = contextvars.Context()

    async def open(self) -> None: ...

    async def check(self) -> str | None:
        try:
            await self._engine.ask(lambda: None)
        except EngineLost:
            self._answers = False
            return "it does not answer"
        self._answers = True
        return None

    @property
    def engine(self) -> str | None:
        return self._engine.name if self._answers else None

    def handle(self, launch: Launch) -> Handle:
        return Handle(self._engine.name, attempt_name(launch.run_id, launch.task, launch.attempt))

    def start(self, launch: Launch, ended: Ended) -> None:
        task = self._world.loop.create_task(self._watch(launch))
        self._watched[(launch.task_id, launch.attempt)] = _Watched(launch, ended, task)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        watched = self._watched.get((task_id, attempt))
        if watched is None:
            return
        if reason == "lease" and watched.launch.adoptable:
            watched.task.cancel()
            del self._watched[(task_id, attempt)]
        else:
            watched.stop = reason if watched.stop != "cancel" else watched.stop

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        return accepted

    def trust(self, until: float) -> None:
        if self._trust is not None:
            self._trust.cancel()
        self._trusted_until = until
        left = (until - self._clock()) / self._world.clock_rate(self._owner)
        self._trust = self._world.loop.call_later(left, self.kill_everything, context=self._machine)

    def kill_everything(self) -> None:
        """What the spawner does, whatever the node does; it does not always get through."""
        world = self._world
        if world.loop.time() >= self._engine.away_until and world.random.random() < 0.5:
            self._engine.remove_all(self._owner)

    async def close(self) -> None:
        for watched in list(self._watched.values()):
            self.stop(watched.launch.task_id, watched.launch.attempt, "lease", 0.0)
        for _ in range(50):
            if not self._watched:
                return
            await asyncio.sleep(0.1)

    async def remove(self, handles: Sequence[Handle]) -> list[Handle]:
        gone = []
        for handle in handles:
            try:
                if await self._engine.ask(partial(self._engine.state, handle.name)) is not None:
                    self._engine.removed += 1
                    await self._engine.ask(partial(self._engine.remove, handle.name))
                if await self._engine.ask(partial(self._engine.state, handle.name)) is None:
                    gone.append(handle)
            except EngineLost:
                continue
        return gone

    # -- one attempt -------------------------------------------------------------------------------------

    async def _watch(self, launch: Launch) -> None:
        assert launch.handle is not None
        name, key, engine = launch.handle.name, (launch.task_id, launch.attempt), self._engine
        await asyncio.sleep(0)
        watched = self._watched[key]
        started = self._clock()
        known: tuple[str, bool] | None = None
        if not launch.adopted:
            await self._until_answered(key, lambda: engine.create(name, self._container(launch)))
            if watched.stop is None and self._clock() < self._trusted_until:
                await self._until_answered(key, lambda: engine.start(name))
        while True:
            state = await self._until_answered(key, lambda: engine.state(name))
            if state is None or state[0] != "running":
                known = state if state is not None and state[0] == "exited" else None
                break
            if watched.stop is not None:
                await self._until_answered(key, lambda: engine.kill(name))
            else:
                await asyncio.sleep(self._world.random.uniform(0.01, 0.1))
        while await self._until_answered(key, lambda: engine.state(name)) is not None:
            await self._until_answered(key, lambda: engine.remove(name))
        del self._watched[key]
        self._end(watched, known, started)

    def _end(self, watched: _Watched, known: tuple[str, bool] | None, started: float) -> None:
        launch = watched.launch
        ok = known is not None and known[1]
        stopped = None if ok else watched.stop
        if known is None and stopped is None:
            stopped = "lease"  # another node removed it: this one was taken for dead
        outcome = Outcome(
            launch.task_id, launch.attempt, ok, 0 if ok else 1, started, self._clock(),
            None if ok else "scripted failure", stopped, forgotten=known is None and launch.adopted,
        )  # fmt: skip
        outcome.output = f"{launch.run_id} {launch.task} {launch.attempt}" if ok else msgspec.UNSET
        self._world.auditor.said[(*self.place(launch), launch.attempt)] = "ok" if ok else "not ok"
        context = contextvars.Context()
        context.run(OWNER.set, self._owner)
        self._world.loop.call_soon(watched.ended, outcome, context=context)

    async def _until_answered(self, key: tuple[int, int], work: Callable[[], Any]) -> Any:
        while True:
            try:
                return await self._engine.ask(work)
            except EngineLost:
                launch = self._watched[key].launch
                assert launch.progress is not None
                launch.progress(*key, "the engine does not answer")
                await asyncio.sleep(0.2)

    def _container(self, launch: Launch) -> Container:
        return container_of(self._world, self._owner, launch)

    def place(self, launch: Launch) -> Place:
        return place_of(self._world, launch)


class SimulatedService(PolledExecutor):
    """The executor that plugins use for a service, on the same engines."""

    kinds = frozenset({PLUGIN_KIND})
    poll_s, poll_max_s = 0.05, 0.2

    def __init__(self, world: "World", engine: SimulatedEngine, owner: int, clock: Callable[[], float]) -> None:
        super().__init__()
        self._world = world
        self._engine = engine
        self._owner = owner
        self._clock = clock  # the node's own, which is virtual

    async def connect(self) -> str:
        await self._engine.ask(lambda: None)
        return self._engine.name

    async def create(self, handle: Handle, spec: Any, launch: Launch) -> None:
        container = container_of(self._world, self._owner, launch)
        await self._engine.ask(partial(self._engine.create, handle.name, container))

    async def begin(self, handle: Handle) -> None:
        await self._engine.ask(partial(self._engine.start, handle.name))

    async def look(self, handle: Handle) -> RemoteState | None:
        found = await self._engine.ask(partial(self._engine.state, handle.name))
        if found is None:
            return None
        state, ok = found
        states: dict[str, Literal["waiting", "running", "ended"]] = {"created": "waiting", "exited": "ended"}
        return RemoteState(states.get(state, "running"), ok=ok, error="scripted failure")

    async def discard(self, handle: Handle) -> None:
        await self._engine.ask(partial(self._engine.remove, handle.name))

    async def remove(self, handles: Sequence[Handle]) -> list[Handle]:
        gone = await super().remove(handles)
        self._engine.removed += len(gone)
        return gone

    def start(self, launch: Launch, on_ended: Ended) -> None:
        def ended(outcome: Outcome) -> None:
            if outcome.error is not None and outcome.error.startswith("it is gone"):
                outcome.error, outcome.stopped = None, "lease"  # its engine was started again: no scripted failure
            if outcome.ok:
                outcome.output = f"{launch.run_id} {launch.task} {launch.attempt}"
            place = place_of(self._world, launch)
            self._world.auditor.said[(*place, launch.attempt)] = "ok" if outcome.ok else "not ok"
            on_ended(outcome)

        super().start(launch, ended)

    def kill_everything(self) -> None:
        """No spawner ends what a service runs."""


def container_of(world: "World", owner: int, launch: Launch) -> Container:
    name = launch.task.split(".")[0]
    # Many outlive the lease of their node: else there would be nothing left to remove.
    took = world.durations.get(name, 0.05) * world.random.choice([1, 2, 8]) * world.random.uniform(0.5, 1.5)
    succeeds = launch.attempt > world.script.get(name, 0)
    return Container(place_of(world, launch), owner, launch.adoptable, took, succeeds)


def place_of(world: "World", launch: Launch) -> Place:
    run_no = launch.task_id >> ORDINAL_BITS
    hash = world.store.reader().execute("SELECT workflow FROM runs WHERE no = ?", (run_no,)).get
    name, _, index = launch.task.partition(".")
    return (run_no, world.committer.workflows[hash].position[name], int(index) if index else -1)
