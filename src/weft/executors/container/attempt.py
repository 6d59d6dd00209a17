"""One attempt on a container engine: create, attach, start, follow, remove; one coroutine, no thread.

The container is created inert, and started only if the node is still trusted then: a request that arrives late never
runs something that was already verified as gone. The attempt is reported when the engine says that the container does
not exist any more. While the engine does not answer the attempt just goes on.
"""

import asyncio
import time
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
from weft.executors.container.mounted_files import INSIDE, MountedFiles
from weft.executors.masking import secret_forms
from weft.executors.protocol import Launch, Outcome, StopReason
from weft.executors.spawner.output_files import OutputFiles

_BACKOFF_S = (0.05, 2.0)  # between requests that the engine does not answer: first, most
_EXIT_POLL_S = (0.01, 0.25)  # after the output's end, until the engine says that the container has exited
_KILL_AGAIN_S = 2.0
LIVE = ("created", "configured", "initialized", "running", "paused", "restarting", "stopping", "removing")


class EndEarly(Exception):
    """The attempt never started, or cannot go on: `outcome` says why. Its container is still to be removed."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


class Stop:
    """A stop that was asked for, and what became of it."""

    __slots__ = ("asked", "kill_at", "killed", "reason")

    def __init__(self, reason: StopReason | None, kill_at: float) -> None:
        self.reason = reason
        self.asked = linux.boottime()
        self.kill_at = kill_at
        self.killed = False


class ContainerAttempt:
    def __init__(
        self,
        launch: Launch,
        client: EngineClient,
        facts: EngineFacts,
        labels: dict[str, str],
        files: OutputFiles,
        trusted: Callable[[], bool],
        answer_max: int,
    ) -> None:
        assert launch.handle is not None
        self.launch = launch
        self.name = launch.handle.name
        self.started: float | None = None
        self.stop: Stop | None = None
        self.released = False  # it goes on without this node
        self._stop_changed = asyncio.Event()
        self._stopper: asyncio.Task[None] | None = None
        self._client = client
        self._facts = facts
        self._labels = labels
        self._trusted = trusted
        self._answer_max = answer_max
        self._path = f"/containers/{quote(self.name)}"
        self._mounted: MountedFiles | None = None
        self._oom_file: str | None = None
        self._oom = False
        self._foreign = False  # a container with this name existed already
        self._signalled = False  # the engine has sent a signal for the stop
        self._signalling = asyncio.Lock()
        self._silent_since: float | None = None  # the engine does not answer
        self._said = ""
        forms = secret_forms(launch.secrets.values()) if launch.secrets else ()
        self._output = OutputFollower(client, self._path, files, launch, forms, self._cannot_store)

    # What the executor calls

    def ask_to_stop(self, reason: StopReason | None, grace_s: float) -> None:
        """A later call may shorten the grace, or turn a timeout into a cancel. Without a reason it is an error that
        ends it."""
        kill_at = linux.boottime() + max(0.0, grace_s)
        if self.stop is None:
            self.stop = Stop(reason, kill_at)
        else:
            self.stop.kill_at = min(self.stop.kill_at, kill_at)
            if reason == "cancel" and self.stop.reason == "timeout":
                self.stop.reason = reason
        self._stop_changed.set()

    def _cannot_store(self) -> None:
        """Kill an attempt whose output cannot be kept."""
        self.ask_to_stop(None, 0.0)

    @property
    def process(self) -> str:
        """The id of the process that this attempt's container is labelled with."""
        return self._labels["weft.process"]

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
        finally:
            if self._stopper is not None:
                self._stopper.cancel()
            self._output.finish()
        if not outcome.forgotten and not self._foreign:
            await remove_container(self._client, self.name, self._answered, kill=outcome.exit_code is None)
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
            await self._prepare()
            await self._start()
        self._stopper = asyncio.get_running_loop().create_task(self._stop_when_asked())
        state = await self._follow()
        code = int(state.get("ExitCode") or 0)
        self._oom = self._oom or bool(state.get("OOMKilled"))
        written = self._output.finish()
        async with self._signalling:  # a signal that ended it may be waiting for its answer
            stopped = self.stop.reason if self.stop is not None and self._signalled else None
        assert self.started is not None
        return ends.ended(self.launch, code, self.started, stopped, self._oom, self._output.error, written)

    async def _prepare(self) -> None:
        """Image, private directory, container; nothing runs yet."""
        launch = self.launch
        try:
            container = container_of(launch)
            self._check_engine(container)
            files = secret_files(launch)
            if not self._client.address.remote:
                self._mounted = MountedFiles.create(self.name, launch, files)
            body = create_request(
                launch, self._labels, None if self._mounted is None else self._mounted.path, self._facts
            )
        except BadContainer as error:
            self._end(f"cannot start: {error}")
        except OSError as error:
            self._end(f"cannot start: {error.strerror or error}", startable=False)
        await self._get_image(container)
        await self._create(body)

    def _check_engine(self, container: dict[str, Any]) -> None:
        wanted = container.get("engine")
        if wanted is not None and wanted != self._facts.flavor:
            raise BadContainer(f"the task asks for {wanted}, and the engine of this node is {self._facts.flavor}")

    async def _get_image(self, container: dict[str, Any]) -> None:
        secret = self.launch.credentials
        pulling = asyncio.ensure_future(
            self._answered(lambda: ensure_image(self._client, container, secret, self._say), until_stopped=True)
        )
        stopping = asyncio.ensure_future(self._stop_changed.wait())
        try:
            await asyncio.wait([pulling, stopping], return_when=asyncio.FIRST_COMPLETED)
            if pulling.done():
                pulling.result()
            self._end_if_stopped()
        except ImageError as error:
            self._end(str(error))
        finally:
            for task in (pulling, stopping):
                task.cancel()
        self._say("")

    async def _create(self, body: dict[str, Any]) -> None:
        retried = False

        async def create() -> None:
            nonlocal retried
            try:
                await self._client.ask("POST", f"/containers/create?name={quote(self.name)}", body)
            except EngineRefused as error:
                # A first request whose answer was lost may have created it.
                if error.status == 409 and retried and await self._is_own():
                    return
                raise
            finally:
                retried = True

        try:
            await self._answered(create, until_stopped=True)
        except EngineRefused as error:
            if error.status == 409 or "already in use" in error.message:
                self._refuse()
            self._end(f"the container cannot be created: {error.message}")

    def _refuse(self) -> NoReturn:
        """The name exists: it is another attempt's container, and is left alone."""
        self._foreign = True
        self._end(f"refused: the container {self.name} exists already")

    async def _is_own(self) -> bool:
        found = await self._client.ask("GET", f"{self._path}/json")
        labels = found.get("Config", {}).get("Labels") or {}
        return bool(labels.get("weft.process") == self._labels["weft.process"])

    async def _start(self) -> None:
        """Attach first, so that no byte is missed. Then start, if the node may still."""
        try:
            await self._answered(self._output.attach, until_stopped=True)
            self._end_if_stopped()
            if not self._trusted():
                self.ask_to_stop("lease", 0.0)
                self._end_if_stopped()
            self.started = linux.boottime()
            # Asked again without an answer it is a 304, if it runs, and an error if it has ended meanwhile.
            await self._answered(lambda: self._client.ask("POST", f"{self._path}/start"), until_stopped=True)
        except EngineRefused as error:
            if self.started is not None and await self._answered(self._has_run, until_stopped=False):
                return
            self.started = None
            self._end(f"the container cannot be started: {error.message}", code=_start_code(error.message))
        if self.launch.requires.get("memory") and not self._client.address.remote:
            await self._locate_cgroup()

    async def _has_run(self) -> bool:
        state = await self._inspect()
        return state is not None and state.get("Status") not in ("created", "configured", "initialized")

    async def _adopt(self) -> None:
        found = await self._answered(lambda: self._inspect_all(), until_stopped=False)
        if found is None:
            outcome = ends.never_started(self.launch, f"the engine does not know the container {self.name} any more")
            outcome.forgotten = True
            raise EndEarly(outcome)
        self.started = linux.boottime()
        for mount in found.get("Mounts") or []:
            if mount.get("Destination") == INSIDE and mount.get("Source"):
                self._mounted = MountedFiles(mount["Source"])
        status = found.get("State", {}).get("Status")
        if status in ("created", "configured", "initialized"):
            self.started = None
            self._end("the attempt before was cut off before it started its container")
        self._output.read_log()
        if self.launch.requires.get("memory"):
            self._oom_file = oom.locate(int(found.get("State", {}).get("Pid") or 0))

    async def _locate_cgroup(self) -> None:
        try:
            state = await self._inspect()
        except EngineUnreachable:
            return
        self._oom_file = None if state is None else oom.locate(int(state.get("Pid") or 0))

    async def _follow(self) -> dict[str, Any]:
        """The container's last state, when its output has ended and it has exited."""
        poll_s = _EXIT_POLL_S[0]
        while True:
            try:
                await self._output.read_to_end()
            except EngineUnreachable:
                self._output.read_log()
            except EngineRefused as error:
                if error.status != 404:
                    await asyncio.sleep(_BACKOFF_S[1])
            self._oom = self._oom or oom.kills(self._oom_file) > 0
            state: dict[str, Any] | None = await self._answered(self._inspect, until_stopped=False)
            if state is None:
                self._vanished()
            if self._output.cut_off:
                self._output.read_log()
            if state.get("Status") not in LIVE:
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
        outcome = ends.never_started(self.launch, f"the container {self.name} was removed from outside", stopped)
        outcome.started = self.started
        raise EndEarly(outcome)

    # Stopping

    async def _stop_when_asked(self) -> None:
        """SIGTERM, then SIGKILL after the grace, again and again until the engine says that it has ended."""
        await self._stop_changed.wait()
        assert self.stop is not None
        if self.stop.kill_at > linux.boottime():
            await self._signal("SIGTERM")
        while True:
            left = self.stop.kill_at - linux.boottime()
            if left > 0:
                self._stop_changed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop_changed.wait(), left)
                continue
            self.stop.killed = True
            await self._signal("SIGKILL")
            await asyncio.sleep(_KILL_AGAIN_S)

    async def _signal(self, name: str) -> None:
        async with self._signalling:
            try:
                await self._answered(
                    lambda: self._client.ask("POST", f"{self._path}/kill?signal={name}"), until_stopped=False
                )
                self._signalled = True
            except EngineRefused as error:
                if error.status not in (404, 409, 500):  # it is gone, or has ended
                    self._say(f"the engine refuses to send {name}: {error.message}")

    def _end_if_stopped(self) -> None:
        if self.stop is not None:
            raise EndEarly(ends.never_started(self.launch, "stopped before it started", self.stop.reason))

    # The engine

    async def _inspect_all(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = await self._client.ask("GET", f"{self._path}/json")
        except EngineRefused as error:
            if error.status == 404:
                return None
            raise EngineUnreachable(error.message) from None
        return found

    async def _inspect(self) -> dict[str, Any] | None:
        found = await self._inspect_all()
        return None if found is None else found.get("State") or {}

    async def _answered(self, request: Callable[[], Any], *, until_stopped: bool) -> Any:
        """Ask until the engine answers. `until_stopped`: a stop ends the attempt instead."""
        wait_s = _BACKOFF_S[0]
        while True:
            if until_stopped:
                self._end_if_stopped()
            try:
                answer = await request()
            except EngineUnreachable as error:
                self._no_answer(error)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, _BACKOFF_S[1])
                continue
            if self._silent_since is not None:
                self._silent_since = None
                self._say("")
            return answer

    def _no_answer(self, error: EngineUnreachable) -> None:
        if self._silent_since is None:
            self._silent_since = time.time()
        since = time.strftime("%H:%M:%S", time.gmtime(self._silent_since))
        self._say(f"the engine does not answer since {since} UTC: {error}")

    def _say(self, text: str) -> None:
        if self.launch.progress is not None and text != self._said:
            self._said = text
            self.launch.progress(self.launch.task_id, self.launch.attempt, text)

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


async def remove_container(client: EngineClient, name: str, answered: Callable[..., Any], *, kill: bool) -> None:
    """Until the engine says that the container does not exist. `kill`: it may be running; Podman alone would let it
    ignore SIGTERM for ten seconds."""
    path = f"/containers/{quote(name)}"
    wait_s = _BACKOFF_S[0]
    if kill:
        with suppress(EngineRefused):
            await answered(lambda: client.ask("POST", f"{path}/kill?signal=SIGKILL"), until_stopped=False)
    while True:
        try:
            await answered(lambda: client.ask("DELETE", f"{path}?force=1&v=1"), until_stopped=False)
        except EngineRefused as error:
            if error.status == 404:
                return
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, _BACKOFF_S[1])
            continue
        try:
            await answered(lambda: client.ask("GET", f"{path}/json"), until_stopped=False)
        except EngineRefused as error:
            if error.status == 404:
                return
        await asyncio.sleep(wait_s)
