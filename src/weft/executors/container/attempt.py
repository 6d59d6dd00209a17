"""One attempt on a container engine: create, attach, start, follow, remove; one coroutine, no thread.

The container is created inert, and started only if the node is still trusted then: a request that arrives late never
runs something that was already verified as gone. The attempt is reported when the engine says that the container does
not exist any more. While the engine does not answer the attempt just goes on.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn
from urllib.parse import quote

from weft.executors import linux
from weft.executors.container import ends, oom
from weft.executors.container.address import EngineFacts
from weft.executors.container.client import EngineClient, EngineRefused, EngineUnreachable
from weft.executors.container.create_request import BadContainer, container_of, create_request, secret_files
from weft.executors.container.follow import OutputFollower
from weft.executors.container.images import ImageError, ensure_image
from weft.executors.container.mounted_files import LABEL, MountedFiles, parent_directory
from weft.executors.container.patience import PatientEngine, inspect
from weft.executors.masking import Masker, secret_forms
from weft.executors.protocol import Launch, Outcome, StopReason

_EXIT_POLL_S = (0.01, 0.25)  # after the output's end, until the engine says that the container has exited
_KILL_AGAIN_S = 2.0
_INERT = ("created", "configured", "initialized")
_ALIVE = (*_INERT, "running", "paused", "restarting", "stopping", "removing")


class EndEarly(Exception):
    """The attempt never started, or cannot go on: `outcome` says why. Its container is still to be removed."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


class ContainerStop:
    """A stop that was asked for, and what became of it."""

    __slots__ = ("asked", "kill_at", "killed", "reason", "signalled")

    def __init__(self, reason: StopReason | None, kill_at: float) -> None:
        self.reason = reason
        self.asked = linux.boottime()
        self.kill_at = kill_at
        self.killed = False  # SIGKILL was needed
        self.signalled = False  # the engine has sent a signal


class ContainerAttempt:
    def __init__(
        self,
        launch: Launch,
        client: EngineClient,
        facts: EngineFacts,
        labels: dict[str, str],
        trusted: Callable[[], bool],
        answer_max: int,
        private_root: str | None,
    ) -> None:
        assert launch.handle is not None
        self.launch = launch
        self.process = labels["weft.process"]
        self.started: float | None = None
        self.stop: ContainerStop | None = None
        self.released = False  # it goes on without this node
        self._stop_changed = asyncio.Event()
        self._stopper: asyncio.Task[None] | None = None
        self._signalling = asyncio.Lock()
        self._engine = PatientEngine(client, launch.handle.name, launch)
        self._facts = facts
        self._labels = labels
        self._trusted = trusted
        self._answer_max = answer_max
        self._private_root = private_root
        self._mounted: MountedFiles | None = None
        self._to_remove = launch.adopted  # the container is this attempt's
        self._oom_file: str | None = None
        self._oom = False
        self._container_id = ""
        self._output = OutputFollower(client, self._engine.path, launch, self._cannot_store)

    # What the executor calls

    def ask_to_stop(self, reason: StopReason | None, grace_s: float) -> None:
        """A later call may shorten the grace, or turn a timeout into a cancel. Without a reason it is an error that
        ends it."""
        kill_at = linux.boottime() + max(0.0, grace_s)
        if self.stop is None:
            self.stop = ContainerStop(reason, kill_at)
        else:
            self.stop.kill_at = min(self.stop.kill_at, kill_at)
            if reason == "cancel" and self.stop.reason == "timeout":
                self.stop.reason = reason
        self._stop_changed.set()

    def _cannot_store(self) -> None:
        """Kill an attempt whose output cannot be kept."""
        self.ask_to_stop(None, 0.0)

    def released_outcome(self) -> Outcome:
        error = "the node's lease is over; the container goes on, to be adopted"
        outcome = ends.never_started(self.launch, error, "lease")
        outcome.started = self.started
        outcome.termination = {"asked": "lease", "verified": False}
        return outcome

    async def run(self) -> Outcome:
        """The outcome, once the container is gone."""
        try:
            outcome = await self._live()
        except EndEarly as end:
            outcome = end.outcome
        except Exception as error:  # whatever fails here, the container is removed before it is reported
            outcome = ends.never_started(self.launch, f"the container executor failed: {error!r}", startable=False)
            outcome.started = self.started
        finally:
            if self._stopper is not None:
                self._stopper.cancel()
            self._output.finish()
        if self._to_remove:
            await self._engine.remove(kill=outcome.exit_code is None)
        ends.take_answers(outcome, self._mounted, self._answer_max)
        if self._mounted is not None:
            self._mounted.remove()
        if self.stop is not None and self.stop.reason is not None:
            after_s = round(linux.boottime() - self.stop.asked, 3)
            outcome.termination = {
                "asked": self.stop.reason, "after_s": after_s, "killed": self.stop.killed, "verified": True
            }  # fmt: skip
        return outcome

    # One life

    async def _live(self) -> Outcome:
        if self.launch.adopted:
            await self._adopt()
        else:
            await self._create(await self._prepare())
        if self.started is None:
            await self._start()
        assert self.started is not None
        self._stopper = asyncio.get_running_loop().create_task(self._stop_when_asked())
        state = await self._follow()
        code = int(state.get("ExitCode") or 0)
        oom_killed = self._oom or bool(state.get("OOMKilled"))
        if code == 137 and not oom_killed and self.launch.requires.get("memory"):
            oom_killed = oom.logged(self._container_id)  # it was gone before its cgroup could be read
        written = self._output.finish()
        async with self._signalling:  # a signal that ended it may be waiting for its answer
            stopped = self.stop.reason if self.stop is not None and self.stop.signalled else None
        return ends.ended(self.launch, code, self.started, stopped, oom_killed, self._output.error, written)

    async def _prepare(self) -> dict[str, Any]:
        """The private directory and the image; the request that creates the container."""
        launch = self.launch
        remote = self._engine.client.address.remote
        try:
            container = container_of(launch)
            self._check_engine(container)
            if not remote:
                parent = parent_directory(self._private_root)
                self._mounted = MountedFiles.create(parent, self._engine.name, launch, secret_files(launch))
                self._labels[LABEL] = self._mounted.path
            path = None if self._mounted is None else self._mounted.path
            body = create_request(launch, self._labels, path, self._facts)
        except BadContainer as error:
            self._end(f"cannot start: {error}")
        except OSError as error:
            self._end(f"cannot start: {error.strerror or error}", startable=False)
        await self._get_image(container)
        return body

    def _check_engine(self, container: dict[str, Any]) -> None:
        wanted = container.get("engine")
        if wanted is not None and wanted != self._facts.flavor:
            raise BadContainer(f"the task asks for {wanted}, and the engine of this node is {self._facts.flavor}")

    async def _get_image(self, container: dict[str, Any]) -> None:
        name, secret = container.get("credentials"), self.launch.credentials
        if name is not None and secret is None:
            self._end(f"cannot start: credentials: the secret {name} has no value")
        client, say = self._engine.client, self._engine.say
        pulling = asyncio.ensure_future(
            self._engine.answered(lambda: ensure_image(client, container, secret, say), self._check_stop)
        )
        stopping = asyncio.ensure_future(self._stop_changed.wait())
        try:
            await asyncio.wait([pulling, stopping], return_when=asyncio.FIRST_COMPLETED)
            if pulling.done():
                pulling.result()
            self._check_stop()
        except ImageError as error:
            self._end(Masker(secret_forms([secret or "", (secret or "").partition(":")[2]])).text(str(error)))
        finally:
            for task in (pulling, stopping):
                task.cancel()
        say("")

    async def _create(self, body: dict[str, Any]) -> None:
        path = f"/containers/create?name={quote(self._engine.name)}"
        try:
            await self._engine.ask("POST", path, body, self._check_stop)
            self._to_remove = True
        except EngineRefused as error:
            # If an earlier request was cut off, it may have created the container.
            if error.status == 409 or "already in use" in error.message:
                await self._claim_created()
                if not self._to_remove:
                    self._end(f"refused: the container {self._engine.name} exists already")
            else:
                self._end(f"the container cannot be created: {error.message}")
        except EndEarly:  # stopped while the engine did not answer
            await self._claim_created()
            raise

    async def _claim_created(self) -> None:
        """Is there a container that a request of this attempt has created? Any other is left alone."""
        found = await self._engine.inspect()
        if found is not None:
            labels = found.get("Config", {}).get("Labels") or {}
            self._to_remove = labels.get("weft.process") == self.process

    async def _start(self) -> None:
        """Attach first, so that no byte is missed. Then start, if the node may still."""
        try:
            await self._engine.answered(self._output.attach, self._check_stop)
            if not self._trusted():
                self.ask_to_stop("lease", 0.0)
            self._check_stop()
            self.started = linux.boottime()
            # Asked again without an answer it is a 304, if it runs, and an error if it has ended meanwhile.
            await self._engine.ask("POST", f"{self._engine.path}/start", check=self._check_stop)
        except EngineRefused as error:
            if self.started is None or not await self._has_run():
                self.started = None
                self._end(f"the container cannot be started: {error.message}", code=_start_code(error.message))
        if self.launch.requires.get("memory"):
            with suppress(EngineUnreachable):
                self._locate_cgroup(await inspect(self._engine.client, self._engine.path))

    async def _has_run(self) -> bool:
        found = await self._engine.inspect()
        return found is not None and found.get("State", {}).get("Status") not in _INERT

    async def _adopt(self) -> None:
        found = await self._engine.inspect()
        if found is None:
            error = f"the engine does not know the container {self._engine.name} any more"
            outcome = ends.never_started(self.launch, error)
            outcome.forgotten = True
            self._to_remove = False
            raise EndEarly(outcome)
        path = (found.get("Config", {}).get("Labels") or {}).get(LABEL)
        if path is not None and not self._engine.client.address.remote:
            self._mounted = MountedFiles(path)
        if found.get("State", {}).get("Status") in _INERT:
            return  # the attempt before was cut off before it started it
        self.started = linux.boottime()
        self._output.read_log()
        self._locate_cgroup(found)

    def _locate_cgroup(self, found: dict[str, Any] | None) -> None:
        if found is not None and not self._engine.client.address.remote:
            self._oom_file = oom.locate(int(found.get("State", {}).get("Pid") or 0))

    async def _follow(self) -> dict[str, Any]:
        """The container's last state, when its output has ended and it has exited."""
        poll_s = _EXIT_POLL_S[0]
        while True:
            try:
                await self._output.read_to_end()
            except EngineUnreachable:
                self._output.read_log()
            self._oom = self._oom or oom.kills(self._oom_file) > 0
            found = await self._engine.inspect()
            if found is None:
                self._vanished()
            self._container_id = str(found.get("Id") or "")
            if self._output.cut_off:
                self._output.read_log()
            state: dict[str, Any] = found.get("State") or {}
            if state.get("Status") not in _ALIVE:
                if await self._output.complete():
                    return state
                continue
            await asyncio.sleep(poll_s)
            poll_s = min(poll_s * 2, _EXIT_POLL_S[1])
            if poll_s == _EXIT_POLL_S[1]:
                self._output.read_log()  # it runs on: the connection was lost, or the output was closed

    def _vanished(self) -> NoReturn:
        """It was removed: by this node's spawner or by another node, if the trust has expired."""
        stopped = self.stop.reason if self.stop is not None else None if self._trusted() else "lease"
        error = f"the container {self._engine.name} was removed from outside"
        outcome = ends.never_started(self.launch, error, stopped)
        outcome.started = self.started
        raise EndEarly(outcome)

    # Stopping

    async def _stop_when_asked(self) -> None:
        """SIGTERM, then SIGKILL after the grace, again and again until the engine says that it has ended."""
        await self._stop_changed.wait()
        stop = self.stop
        assert stop is not None
        if stop.kill_at > linux.boottime():
            await self._signal(stop, "SIGTERM")
        while True:
            left = stop.kill_at - linux.boottime()
            if left > 0:
                self._stop_changed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop_changed.wait(), left)
                continue
            stop.killed = True
            await self._signal(stop, "SIGKILL")
            await asyncio.sleep(_KILL_AGAIN_S)

    async def _signal(self, stop: ContainerStop, name: str) -> None:
        async with self._signalling:
            try:
                await self._engine.ask("POST", f"{self._engine.path}/kill?signal={name}")
                stop.signalled = True
            except EngineRefused as error:
                if error.status not in (404, 409, 500):  # it is gone, or has ended
                    self._engine.say(f"the engine refuses to send {name}: {error.message}")

    def _check_stop(self) -> None:
        if self.stop is not None:
            raise EndEarly(ends.never_started(self.launch, "stopped before it started", self.stop.reason))

    def _end(self, error: str, *, code: int | None = None, startable: bool = True) -> NoReturn:
        outcome = ends.never_started(self.launch, error, startable=startable)
        outcome.exit_code = code
        raise EndEarly(outcome)


def _start_code(message: str) -> int | None:
    """The exit code that a shell would report."""
    text = message.lower()
    if "permission denied" in text:
        return 126
    if "not found" in text or "no such file" in text:
        return 127
    return None
