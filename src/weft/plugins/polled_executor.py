"""The simple way to write an executor for what another service runs: create, begin, look, discard. The rest of the
protocol of remote attempts is here: handles, adoption, stops, and ends that the service itself confirms."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from weft.executors.boot_clock import boottime
from weft.executors.protocol import Ended, Handle, Launch, Outcome, StopReason
from weft.executors.remote.names import attempt_name
from weft.plugins.async_executor import AttemptFailed

_CLOSE_MAX_S = 5.0
_GROWTH = 1.5


class RemoteState(msgspec.Struct, frozen=True):
    """What a service says of an attempt. Of one that has ended: whether it succeeded, its output or its error."""

    state: Literal["waiting", "running", "ended"]
    ok: bool = False
    error: str | None = None
    output: Any = msgspec.UNSET
    note: str | None = None  # what it waits for, for `weft why`


class _Watched:
    """One attempt, and the task that follows it."""

    def __init__(self, launch: Launch, on_ended: Ended, now: float) -> None:
        self.launch = launch
        self.on_ended = on_ended
        self.began = now
        self.stop: StopReason | None = None
        self.asked_at = 0.0  # when it was asked to stop
        self.forgotten = False  # the service did not know it when it was adopted
        self.woken = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def pause(self, seconds: float) -> None:
        """Shorter if a stop comes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.woken.wait()

    def note(self, text: str) -> None:
        if self.launch.progress is not None:
            self.launch.progress(self.launch.task_id, self.launch.attempt, text)


class PolledExecutor:
    """An executor whose attempts run on a service and outlive their node.

    Write `connect`, `create`, `begin`, `look` and `discard`. What they raise counts as "no answer": they are called
    again. AttemptFailed, raised by `create`, fails the attempt. A stop is over when `look` finds nothing any more.
    """

    schema: ClassVar[Any] = None  # of the spec: a JSON Schema, or a msgspec Struct, which `create` is then given
    requires: ClassVar[dict[str, Any]] = {}  # of the node: lists of programs, labels, capabilities
    takes_slot: ClassVar[bool] = False  # an attempt only waits, and holds no slot of its node
    poll_s: ClassVar[float] = 1.0  # between the first two looks; the pauses grow
    poll_max_s: ClassVar[float] = 15.0  # the longest pause
    engine: str | None = None  # the service that answered last
    _clock = staticmethod(boottime)

    def __init__(self) -> None:
        self._watched: dict[tuple[int, int], _Watched] = {}
        self._trusted_until = float("-inf")
        self._trust: asyncio.TimerHandle | None = None

    async def connect(self) -> str:
        """The identity of the service, the same on every node that reaches it. Raises if it cannot be used."""
        raise NotImplementedError

    async def create(self, handle: Handle, spec: Any, launch: Launch) -> None:
        """Create what is to run under the name of the handle, without starting it. It may be there already."""
        raise NotImplementedError

    async def begin(self, handle: Handle) -> None:
        """Start what was created, unless it has started or is gone."""
        raise NotImplementedError

    async def look(self, handle: Handle) -> RemoteState | None:
        """Its state; None only if the service knows that there is nothing under this name."""
        raise NotImplementedError

    async def discard(self, handle: Handle) -> None:
        """Stop it if it runs, and remove what is left of it. Called again until `look` finds nothing."""
        raise NotImplementedError

    # -- the protocol ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Prepare what all attempts share."""

    async def check(self) -> str | None:
        """Asks the service who it is."""
        try:
            self.engine = await self.connect()
        except Exception as error:
            self.engine = None
            return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return None

    def handle(self, launch: Launch) -> Handle:
        """Named for run, task and attempt: no name is used twice."""
        assert self.engine is not None
        return Handle(self.engine, attempt_name(launch.run_id, launch.task, launch.attempt))

    def start(self, launch: Launch, on_ended: Ended) -> None:
        """Create it and follow it; one that was adopted is only followed."""
        watched = _Watched(launch, on_ended, self._clock())
        self._watched[(launch.task_id, launch.attempt)] = watched
        watched.task = asyncio.get_running_loop().create_task(self._watch(watched), name=launch.task)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        """Discard it; what another node may adopt is let go when the lease is lost."""
        watched = self._watched.get((task_id, attempt))
        if watched is None:
            return
        if reason == "lease" and watched.launch.adoptable:
            assert watched.task is not None
            watched.task.cancel()
            del self._watched[(task_id, attempt)]
            return
        if watched.stop is None:
            watched.asked_at = self._clock()
        watched.stop = "cancel" if watched.stop == "cancel" else reason
        watched.woken.set()

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        """When it was accepted."""
        return accepted

    def trust(self, until: float) -> None:
        """Nothing begins after this. What runs then is stopped; what may be adopted is followed on: the session may
        have survived, and if not, the node says so."""
        self._trusted_until = until
        if self._trust is not None:
            self._trust.cancel()
        self._trust = asyncio.get_running_loop().call_later(max(0.0, until - self._clock()), self._distrust)

    async def remove(self, handles: Sequence[Handle]) -> list[Handle]:
        """Discard what lost nodes have left; those of which nothing is left."""
        found = await asyncio.gather(*(self._remove(handle) for handle in handles))
        return [handle for handle, gone in zip(handles, found, strict=True) if gone]

    async def close(self) -> None:
        """Let go of what may be adopted, discard the rest."""
        if self._trust is not None:
            self._trust.cancel()
        for key in list(self._watched):
            self.stop(*key, "lease", 0.0)
        tasks = [watched.task for watched in self._watched.values() if watched.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_MAX_S)

    def _distrust(self) -> None:
        for key, watched in list(self._watched.items()):
            if not watched.launch.adoptable:
                self.stop(*key, "lease", 0.0)

    async def _remove(self, handle: Handle) -> bool:
        try:
            if await self.look(handle) is None:
                return True
            await self.discard(handle)
            return await self.look(handle) is None
        except Exception:  # no answer: it is asked for again
            return False

    # -- one attempt -------------------------------------------------------------------------------------

    async def _watch(self, watched: _Watched) -> None:
        launch, failure = watched.launch, None
        assert launch.handle is not None
        handle = launch.handle
        try:
            if not launch.adopted:
                await self._create(watched, handle)
            elif await self._answered(watched, lambda: self.look(handle)) is None:
                watched.forgotten = True
            await self._begin(watched, handle)
        except AttemptFailed as error:
            failure = error
        last = None if failure is not None else await self._follow(watched, handle)
        await self._discard(watched, handle)
        del self._watched[(launch.task_id, launch.attempt)]
        watched.on_ended(self._outcome(watched, last, failure))

    async def _create(self, watched: _Watched, handle: Handle) -> None:
        launch = watched.launch
        spec = launch.spec.get(launch.kind, {})
        if isinstance(self.schema, type):
            try:
                spec = msgspec.convert(spec, self.schema)
            except msgspec.ValidationError as error:
                raise AttemptFailed(f"its spec cannot be used: {error}", retryable=False) from None
        await self._answered(watched, lambda: self.create(handle, spec, launch), until_stop=True)

    async def _begin(self, watched: _Watched, handle: Handle) -> None:
        """Only while the node may do that: a request to create that arrives late starts nothing. The node before may
        have died between the two, so what was adopted is begun, too."""
        if watched.stop is None and not watched.forgotten and self._trusted:
            await self._answered(watched, lambda: self.begin(handle), until_stop=True)

    @property
    def _trusted(self) -> bool:
        return self._clock() < self._trusted_until

    async def _follow(self, watched: _Watched, handle: Handle) -> RemoteState | None:
        """Until it has ended, is gone, or shall stop; the last state that the service gave."""
        pause = self.poll_s
        while True:
            state: RemoteState | None = await self._answered(watched, lambda: self.look(handle))
            if state is None or state.state == "ended" or watched.stop is not None:
                return state
            if state.note is not None:
                watched.note(state.note)
            await watched.pause(pause)
            pause = min(self.poll_max_s, pause * _GROWTH)

    async def _discard(self, watched: _Watched, handle: Handle) -> None:
        """It is over when the service knows nothing of it."""
        while await self._answered(watched, lambda: self.look(handle)) is not None:
            await self._answered(watched, lambda: self.discard(handle))
            if await self._answered(watched, lambda: self.look(handle)) is None:
                return
            await asyncio.sleep(self.poll_s)

    async def _answered(
        self, watched: _Watched, call: Callable[[], Awaitable[Any]], *, until_stop: bool = False
    ) -> Any:
        """Called again and again until the service answers."""
        pause = self.poll_s
        while True:
            try:
                return await call()
            except AttemptFailed:
                raise
            except Exception as error:
                watched.note(f"the service does not answer: {type(error).__name__}: {error}")
            if until_stop and watched.stop is not None:
                return None
            await asyncio.sleep(pause)
            pause = min(self.poll_max_s, pause * _GROWTH)

    def _outcome(self, watched: _Watched, last: RemoteState | None, failure: AttemptFailed | None) -> Outcome:
        launch, now = watched.launch, self._clock()
        outcome = Outcome(launch.task_id, launch.attempt, False, None, watched.began, now)
        if failure is not None:
            outcome.error, outcome.cause, outcome.retryable = str(failure), failure.cause, failure.retryable
            outcome.retry_after_s = failure.retry_after_s
        elif last is not None and last.state == "ended":
            outcome.ok, outcome.error = last.ok, None if last.ok else last.error or "it failed"
            outcome.output = last.output
        elif watched.stop is not None:
            outcome.stopped = watched.stop
            after_s = round(max(0.0, now - watched.asked_at), 3)
            outcome.termination = {"requested": watched.stop, "verified": True, "after_s": after_s}
        elif watched.forgotten:
            outcome.forgotten = True
        elif self._trusted:
            outcome.error = "it is gone: something else has removed it"
        else:
            outcome.stopped = "lease"  # another node, which took this one for dead
        return outcome
