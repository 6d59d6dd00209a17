"""A plugin's executor as its node sees it: on an event loop in a thread of its own, behind the protocol's rules.

A plugin may raise where it must not, answer twice, never, or with something else, or block its loop. Its node goes
on: what is raised fails the attempt, a second end is ignored, a check that does not answer makes the type unusable,
and a stop that is not confirmed is reported as such. What runs on an engine is never taken for ended without the
engine's word.
"""

import asyncio
import contextlib
import shutil
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

import msgspec

from weft.core.definition.problems import ProblemCollector
from weft.executors.protocol import Ended, Handle, Launch, OnceAnswer, OnceQuestion, Outcome, StopReason, Usage
from weft.plugins.registry import Plugin, one_line

CHECK_WAIT_S: Final = 1.0  # the node waits so long for a check; one that takes longer goes on beside it
CHECK_MAX_S: Final = 10.0  # after so long without an answer the type cannot be used
CLOSE_MAX_S: Final = 10.0
REMOVE_MAX_S: Final = 30.0
UNCONFIRMED_S: Final = 15.0  # beyond its grace: then a stopped attempt is reported as not verified
_RETRY_S: Final = 5.0
NO_ANSWER: Final = "its check does not answer"
NOT_YET: Final = "its check has not answered yet"

Log = Callable[[str, dict[str, Any]], None]


class _Running(msgspec.Struct, gc=False):
    launch: Launch
    on_ended: Ended
    began: float
    over: bool = False  # its end has been reported, or is being
    stopping: StopReason | None = None
    timer: asyncio.TimerHandle | None = None


class IsolatedExecutor:
    """Made with the plugin's class, which it creates with its first check. `labels` and `capabilities` are the
    node's."""

    def __init__(
        self,
        plugin: Plugin,
        clock: Callable[[], float],
        log: Log = lambda message, fields: None,
        labels: Mapping[str, str] | None = None,
        capabilities: Sequence[str] = (),
    ) -> None:
        self.plugin = plugin
        self.kinds = frozenset({plugin.type})
        self.takes_slot = bool(getattr(plugin.executor, "takes_slot", True))
        self._clock = clock
        self._log_all = log
        self._labels = labels or {}
        self._capabilities = capabilities
        self._loop: asyncio.AbstractEventLoop | None = None  # the plugin's
        self._thread: threading.Thread | None = None
        self._made: Any = None
        self._trusted_until: float | None = None
        self._running: dict[tuple[int, int], _Running] = {}
        self._ending = threading.Lock()
        self._check: Future[str | None] | None = None
        self._checked_since = 0.0
        self._check_done = asyncio.Event()
        self._answer: str | None = NOT_YET

    # -- what a node calls -------------------------------------------------------------------------------

    async def open(self) -> None:
        """The plugin is opened by its first check."""
        self._node = asyncio.get_running_loop()

    async def check(self, wait_s: float = CHECK_WAIT_S) -> str | None:
        """As the protocol says; it waits so long, and gives the answer before if that was not enough."""
        if self.plugin.error is not None:
            return self.plugin.error
        missing = self._missing()
        if missing is not None:
            return missing
        if self._check is None:
            self._checked_since = self._clock()
            self._check_done.clear()
            self._check = self._call(self._check_inside())
            self._check.add_done_callback(self._has_checked)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._check_done.wait()
        if self._check.done():
            self._answer = self._check.result()
            self._check = None
        elif self._clock() - self._checked_since >= CHECK_MAX_S:
            self._answer = NO_ANSWER
        return self._answer

    def start(self, launch: Launch, on_ended: Ended) -> None:
        running = _Running(launch, on_ended, self._clock())
        self._running[(launch.task_id, launch.attempt)] = running
        wrong = None if launch.adopted else self._wrong_spec(launch)
        if wrong is not None:
            self._end(running, self._failed(running, wrong, retryable=False))
        elif self._loop is None or self._made is None:
            self._end(running, self._failed(running, "it has not been checked"))
        else:
            self._enter(self._start, running, self._with_callbacks(launch))

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        running = self._running.get((task_id, attempt))
        if running is None:
            return
        running.stopping = reason
        if running.timer is not None:
            running.timer.cancel()
        if self.plugin.remote:
            if reason == "lease":  # not this session's any more: another node removes it, or adopts it
                del self._running[(task_id, attempt)]
        else:
            running.timer = self._node.call_later(grace_s + UNCONFIRMED_S, self._give_up, running)
        self._enter(self._guarded, "stop", task_id, attempt, reason, grace_s)

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        try:
            found = self._made.started(task_id, attempt, accepted)
        except Exception as error:
            self._log("started", error)
            return accepted
        return found if found is None or isinstance(found, (int, float)) else accepted

    def trust(self, until: float) -> None:
        self._trusted_until = until
        if self._made is not None:
            self._enter(self._guarded, "trust", until)

    async def close(self, within_s: float = CLOSE_MAX_S) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        try:
            async with asyncio.timeout(within_s):
                await _quiet(self._call(self._close_inside()))
        except TimeoutError:
            self._log("close", TimeoutError(f"it has not ended within {within_s:g} s"))
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join, 1.0)
        self._loop = self._thread = self._made = None

    # -- ends --------------------------------------------------------------------------------------------

    def _ended(self, running: _Running, outcome: Any) -> None:
        """Called by the plugin, in any thread, and perhaps more than once."""
        launch = running.launch
        wrong = _wrong_outcome(launch, outcome)
        if wrong is not None:
            self._broke(running, f"on_ended was called with {wrong}")
        elif not self._end(running, outcome):
            fields = {"type": self.plugin.type, "task": launch.task, "attempt": launch.attempt}
            self._log_all("a plugin reported an end twice", fields)

    def _end(self, running: _Running, outcome: Outcome) -> bool:
        """False: it has ended before."""
        with self._ending:
            if running.over:
                return False
            running.over = True
        with contextlib.suppress(RuntimeError):  # the node's loop is closed: nobody waits for it
            self._node.call_soon_threadsafe(self._report, running, outcome)
        return True

    def _report(self, running: _Running, outcome: Outcome) -> None:
        if running.timer is not None:
            running.timer.cancel()
        self._running.pop((running.launch.task_id, running.launch.attempt), None)
        running.on_ended(outcome)

    def _broke(self, running: _Running, why: str) -> None:
        """The plugin broke the protocol: the attempt fails."""
        self._end(running, self._failed(running, why))

    def _failed(self, running: _Running, why: str, retryable: bool = True) -> Outcome:
        launch = running.launch
        error = f"{self.plugin.type}: {why}"
        return Outcome(
            launch.task_id, launch.attempt, False, None, running.began, self._clock(), error, running.stopping,
            retryable=retryable,
        )  # fmt: skip

    def _give_up(self, running: _Running) -> None:
        """It was asked to stop, and had its grace and more. Whether it has stopped is not known."""
        outcome = self._failed(running, "its stop was not confirmed")
        outcome.termination = {"requested": running.stopping, "verified": False}
        self._end(running, outcome)

    def _has_checked(self, check: "Future[str | None]") -> None:
        with contextlib.suppress(RuntimeError):
            self._node.call_soon_threadsafe(self._check_done.set)

    # -- in the plugin's thread --------------------------------------------------------------------------

    def _start(self, running: _Running, launch: Launch) -> None:
        try:
            self._made.start(launch, lambda outcome: self._ended(running, outcome))
        except (Exception, SystemExit) as error:
            self._broke(running, one_line("start raised ", error))

    def _guarded(self, method: str, *values: Any) -> None:
        """Of stop and trust, which have no answer."""
        try:
            getattr(self._made, method)(*values)
        except (Exception, SystemExit) as error:
            self._log(method, error)

    async def _check_inside(self) -> str | None:
        try:
            if self._made is None:
                assert self.plugin.executor is not None
                made = self.plugin.executor()
                await made.open()
                if self._trusted_until is not None:
                    made.trust(self._trusted_until)
                self._made = made
            check = getattr(self._made, "check", None)
            answer = None if check is None else await check()
        except (Exception, SystemExit) as error:
            return one_line("its check raised " if self._made is not None else "it cannot be opened: ", error)
        if answer is None or isinstance(answer, str):
            return answer
        return f"its check returned a {type(answer).__name__} instead of text or None"

    async def _close_inside(self) -> None:
        if self._made is not None:
            try:
                await self._made.close()
            except (Exception, SystemExit) as error:
                self._log("close", error)

    # -- the way there and back --------------------------------------------------------------------------

    def _call(self, work: Coroutine[Any, Any, Any]) -> "Future[Any]":
        if self._loop is None:
            self._loop = loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run_forever, args=(loop,), name=f"plugin {self.plugin.type}", daemon=True
            )
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _enter(self, function: Callable[..., None], *values: Any) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is being closed
                self._loop.call_soon_threadsafe(function, *values)

    def _with_callbacks(self, launch: Launch) -> Launch:
        """The same attempt, whose questions and notes go to the node's loop."""
        node, ask, progress, spent = self._node, launch.ask, launch.progress, launch.spent

        async def ask_node(task_id: int, attempt: int, question: OnceQuestion) -> OnceAnswer:
            assert ask is not None
            answered = asyncio.run_coroutine_threadsafe(_answered(ask, task_id, attempt, question), node)
            return await asyncio.wrap_future(answered)

        def note(task_id: int, attempt: int, text: str) -> None:
            if progress is not None:
                node.call_soon_threadsafe(progress, task_id, attempt, str(text))

        def spend(task_id: int, attempt: int, usage: Usage) -> None:
            if spent is not None:
                node.call_soon_threadsafe(spent, task_id, attempt, usage)

        return msgspec.structs.replace(
            launch,
            ask=None if ask is None else ask_node,
            progress=None if progress is None else note,
            spent=None if spent is None else spend,
        )

    def _wrong_spec(self, launch: Launch) -> str | None:
        """What a definition could not show: values of expressions."""
        if self.plugin.schema is None:
            return None
        collector = ProblemCollector()
        collector.path.append("spec")
        self.plugin.schema.read(collector, launch.spec.get(launch.kind, {}))
        if not collector.problems:
            return None
        first = collector.problems[0]
        return f"{'.'.join(map(str, first.path))}: {first.message}"

    def _missing(self) -> str | None:
        """What the plugin requires and this node has not."""
        requires = self.plugin.requires
        lacks = [name for name in requires.get("programs", ()) if shutil.which(name) is None]
        if lacks:
            return f"it needs the program{'s' if len(lacks) > 1 else ''} {', '.join(lacks)}, not found in PATH"
        for what, have in (("labels", self._labels), ("capabilities", self._capabilities)):
            lacks = [name for name in requires.get(what, ()) if name.partition("=")[0] not in have]
            if lacks:
                return f"it needs a node with the {what} {', '.join(lacks)}"
        return None

    def _log(self, method: str, error: BaseException) -> None:
        fields = {"type": self.plugin.type, "method": method, "error": one_line("", error)}
        self._log_all("a plugin failed", fields)


class IsolatedRemoteExecutor(IsolatedExecutor):
    """Of a plugin whose attempts run on an engine. An attempt that its plugin lost track of is removed from the
    engine before it counts as ended."""

    @property
    def engine(self) -> str | None:
        if self._made is None:
            return None
        try:
            found = self._made.engine
        except Exception as error:
            self._log("engine", error)
            return None
        return found if isinstance(found, str) else None

    def handle(self, launch: Launch) -> Handle:
        """Raises TypeError for what is no handle: nothing has been asked of the engine then."""
        handle = self._made.handle(launch)
        if not isinstance(handle, Handle) or handle.engine != self.engine or not handle.name:
            raise TypeError(f"handle() returned {handle!r}")
        return handle

    async def remove(self, handles: Sequence[Handle]) -> list[Handle]:
        if self._made is None:
            return []
        try:
            async with asyncio.timeout(REMOVE_MAX_S):
                return await asyncio.wrap_future(self._call(self._remove_inside(list(handles))))
        except TimeoutError:
            self._log("remove", TimeoutError(f"no answer within {REMOVE_MAX_S:g} s"))
            return []

    async def _remove_inside(self, handles: list[Handle]) -> list[Handle]:
        try:
            gone = await self._made.remove(handles)
            return [handle for handle in handles if handle in gone]
        except (Exception, SystemExit) as error:
            self._log("remove", error)
            return []

    def _broke(self, running: _Running, why: str) -> None:
        self._call(self._remove_and_end(running, why))

    async def _remove_and_end(self, running: _Running, why: str) -> None:
        launch = running.launch
        assert launch.handle is not None
        while not running.over and not await self._remove_inside([launch.handle]):
            if launch.progress is not None:
                text = f"{self.plugin.type}: {why}; its engine has not confirmed that it is gone"
                self._node.call_soon_threadsafe(launch.progress, launch.task_id, launch.attempt, text)
            await asyncio.sleep(_RETRY_S)
        self._end(running, self._failed(running, why))


def _wrong_outcome(launch: Launch, outcome: Any) -> str | None:
    """None: it is an outcome of this attempt, and its values have a JSON form."""
    if not isinstance(outcome, Outcome):
        return f"a {type(outcome).__name__} instead of an Outcome"
    if (outcome.task_id, outcome.attempt) != (launch.task_id, launch.attempt):
        return "the outcome of another attempt"
    try:
        # Converted, not only encoded: the node reads these fields.
        msgspec.convert(msgspec.structs.asdict(outcome) | {"output": None}, Outcome)
        output = None if outcome.output is msgspec.UNSET else outcome.output
        msgspec.json.encode([output, outcome.result, outcome.context, outcome.termination])
    except (TypeError, ValueError, RecursionError, msgspec.ValidationError) as error:
        return one_line("values that cannot be stored: ", error, named=False)
    return None


async def _answered(ask: Any, task_id: int, attempt: int, question: OnceQuestion) -> OnceAnswer:
    answer: OnceAnswer = await ask(task_id, attempt, question)
    return answer


async def _quiet(future: "Future[Any]") -> None:
    """Wait for it; what it raised is looked at by the caller."""
    with contextlib.suppress(Exception, SystemExit):
        await asyncio.wrap_future(future)


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
            break
        except SystemExit:  # of a task of the plugin's own: asyncio lets it end the loop
            continue
    for task in asyncio.all_tasks(loop):
        task.cancel()
    with contextlib.suppress(Exception):
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def isolated(
    plugin: Plugin,
    clock: Callable[[], float],
    log: Log = lambda message, fields: None,
    labels: Mapping[str, str] | None = None,
    capabilities: Sequence[str] = (),
) -> IsolatedExecutor:
    kind = IsolatedRemoteExecutor if plugin.remote else IsolatedExecutor
    return kind(plugin, clock, log, labels, capabilities)
