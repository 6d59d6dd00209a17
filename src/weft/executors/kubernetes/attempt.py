"""One attempt on a cluster: created suspended, released while the node is trusted, watched, removed, reported.

It is one coroutine, which sleeps until the namespace's watch, a stop or a patience wakes it. It is reported only when
the cluster says that nothing of it is left, however long that takes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from weft.executors.boot_clock import boottime
from weft.executors.kubernetes.api import Api, KubernetesError
from weft.executors.kubernetes.log_follower import LogFollower
from weft.executors.kubernetes.manifest import NAME, PROCESS, BadTask, job_manifest, secret_manifest
from weft.executors.kubernetes.objects import Job, Named, Pod
from weft.executors.kubernetes.outcome import Ending, make_outcome
from weft.executors.kubernetes.pod_state import PodState, pod_state
from weft.executors.kubernetes.removal import Removal
from weft.executors.protocol import Ended, Handle, Launch, StopReason
from weft.executors.remote.http_connection import Unreachable

_AGAIN_S = 0.25
_AGAIN_MAX_S = 10.0
_LOOK_S = 1.0  # at what is left, when no watch says it
_LOOK_MAX_S = 3.0
_NO_POD_S = 5.0  # after which a Job that is over without a pod that we saw is believed
_T = TypeVar("_T")


class StopRequest(msgspec.Struct):
    reason: StopReason
    grace_s: float
    asked: float  # when it was first asked for; CLOCK_BOOTTIME


class KubernetesAttempt:
    def __init__(
        self,
        api: Api,
        launch: Launch,
        handle: Handle,
        process: str,
        trusted: Callable[[], bool],
        watch_process: Callable[[str, str], None],
        patience_s: float,
    ) -> None:
        self._api = api
        self.launch = launch
        self.handle = handle
        self._process = process
        self._trusted = trusted
        self._watch_process = watch_process  # (namespace, process): watch what that process has made
        self._patience_s = patience_s
        self._follower = LogFollower(api, launch, handle.place)
        self._changed = asyncio.Event()
        self._exists = False  # the cluster was asked to create something, or has it since an earlier attempt
        self._uid = ""
        self.pod: Pod | None = None
        self._pod_gone = False
        self._job_over: str | None = None  # how the Job ended, by its own conditions
        self._job_gone = False
        self._job_missed = False
        self._event = ""  # what a Kubernetes event says about it
        self.started: float | None = None
        self.stop_request: StopRequest | None = None
        self._said = ""
        self._away_since: str | None = None

    # -- what others say ---------------------------------------------------------------------------------

    def begin(self, on_ended: Ended) -> "asyncio.Task[None]":
        return asyncio.get_running_loop().create_task(self.run(on_ended))

    @property
    def stopping(self) -> StopReason | None:
        return None if self.stop_request is None else self.stop_request.reason

    def stop(self, reason: StopReason, grace_s: float) -> None:
        asked = self.stop_request.asked if self.stop_request else boottime()
        self.stop_request = StopRequest(reason, grace_s, asked)
        self._changed.set()

    def job_changed(self, job: Job, gone: bool) -> None:
        if self._uid and job.metadata.uid != self._uid:
            return
        self._job_gone = gone
        for condition in job.status.conditions:
            if condition.status == "True" and condition.type in ("Complete", "Failed"):
                said = f"{condition.reason}: {condition.message}" if condition.type == "Failed" else ""
                self._job_over = said
        self._changed.set()

    def pod_changed(self, pod: Pod, gone: bool) -> None:
        if self.pod is not None and pod.metadata.uid != self.pod.metadata.uid:
            return  # a Job makes one pod; another one is removed with the rest
        self.pod = pod
        self._pod_gone = gone
        self._changed.set()

    def listed(self, kind: str, names: frozenset[str]) -> None:
        """All Jobs or pods that are there now: what was known and is not among them is gone."""
        if kind == "pods" and self.pod is not None and self.pod.metadata.name not in names:
            self._pod_gone = True
        elif kind == "jobs" and self._uid and self.handle.name not in names:
            self._job_missed = True  # it may also have been created after the list was made
        self._changed.set()

    def event(self, text: str) -> None:
        if text != self._event:
            self._event = text
            self._changed.set()

    def away(self, why: str | None) -> None:
        """The API server does not answer, or (None) does again."""
        if why is None:
            if self._away_since is not None:
                self._away_since = None
                self._changed.set()
            return
        if self._away_since is None:
            self._away_since = time.strftime("%H:%M:%S UTC", time.gmtime())
        self._say(f"the engine does not answer since {self._away_since}: {why}")

    # -- the attempt -------------------------------------------------------------------------------------

    async def run(self, on_ended: Ended) -> None:
        try:
            ending = await self._live()
        except asyncio.CancelledError:
            await self._follower.close()
            raise
        except Exception as error:
            ending = Ending(f"the executor failed: {error!r}")
        if self._exists:
            await self._remove(ending)
        await self._follower.last_words()
        on_ended(make_outcome(self.launch, ending, self._follower.finish(), self._follower.missing))

    async def _live(self) -> Ending:
        early = await (self._adopt() if self.launch.adopted else self._create())
        if early is not None:
            return early
        ending = await self._watch()
        if ending.state is not None and self.pod is not None and not self._pod_gone:
            await self._follower.read_rest(self.pod.metadata.name)
        return ending

    async def _create(self) -> Ending | None:
        """None: it is released, and its pod will come."""
        launch, handle, api = self.launch, self.handle, self._api
        try:
            manifest = job_manifest(launch, handle, self._process)
            secret = secret_manifest(launch, handle, self._process, "")
        except BadTask as error:
            return Ending(f"cannot start: {error}")
        try:
            early = await self._create_job(manifest)
            if early is not None:
                return early
            if secret is not None:
                secret["metadata"]["ownerReferences"][0]["uid"] = self._uid
                await self._insist(lambda: api.create(Named, "secrets", handle.place, secret), exists_is_fine=True)
            release = {"metadata": {"uid": self._uid}, "spec": {"suspend": False}}
            await self._insist(lambda: self._release(release))
        except KubernetesError as error:
            return Ending(f"Kubernetes refuses it: {error}")
        return self._stopped() if self.stop_request else None

    async def _create_job(self, manifest: dict[str, object]) -> Ending | None:
        api, handle = self._api, self.handle

        async def create() -> Job:
            self._exists = True  # even if the answer is lost
            return await api.create(Job, "jobs", handle.place, manifest)

        try:
            job = await self._insist(create)
        except KubernetesError as error:
            if error.status != 409:
                self._exists = False
                raise
            job = await self._insist(lambda: api.get(Job, "jobs", handle.place, handle.name))
            # Created by a request of this attempt whose answer was lost, or by another process.
            labels = job.metadata.labels if job is not None else {}
            if self.stop_request is None and (labels.get(PROCESS), labels.get(NAME)) != (self._process, handle.name):
                self._exists = False
                return Ending(f"refused: {handle.place} has a Job {handle.name} already, which is not this attempt's")
        if job is None:
            return self._stopped()
        self._uid = job.metadata.uid
        return None

    async def _release(self, patch: dict[str, object]) -> Job | None:
        """Past its trust nothing is released: the attempt may be another node's by now."""
        if not self._trusted():
            self.stop("lease", 0.0)
            return None
        return await self._api.patch(Job, "jobs", self.handle.place, self.handle.name, patch)

    async def _adopt(self) -> Ending | None:
        try:
            job = await self._insist(lambda: self._api.get(Job, "jobs", self.handle.place, self.handle.name))
        except KubernetesError as error:
            return Ending(f"Kubernetes refuses it: {error}")
        if self.stop_request is not None:
            self._exists = True
            return self._stopped()
        if job is None or job.metadata.labels.get(NAME) != self.handle.name:
            return Ending("the cluster does not have it any more", forgotten=True)
        self._exists = True
        self._uid = job.metadata.uid
        self._watch_process(self.handle.place, job.metadata.labels.get(PROCESS, self._process))
        if job.spec.suspend:  # the earlier attempt did not come to release it
            try:
                await self._insist(
                    lambda: self._release({"metadata": {"uid": self._uid}, "spec": {"suspend": False}})
                )
            except KubernetesError as error:
                return Ending(f"Kubernetes refuses it: {error}")
        return None

    async def _watch(self) -> Ending:
        loop = asyncio.get_running_loop()
        retried_since: float | None = None
        over_since: float | None = None
        while True:
            self._changed.clear()
            state = pod_state(self.pod)
            if state.phase == "ended":
                return self._ended(state)
            if self.stop_request is not None:
                return self._stopped()
            if self._job_missed:
                await self._look_for_job()
            if self._pod_gone or self._job_gone:
                return Ending(
                    f"its {'pod' if self._pod_gone else 'Job'} was removed, and not by Weft", None, self.started
                )
            if state.phase == "hopeless":
                return Ending(state.text)
            now = loop.time()
            retried_since = (retried_since or now) if state.phase == "retried" else None
            over_since = (over_since or now) if self.pod is None and self._job_over is not None else None
            if retried_since is not None and now - retried_since >= self._patience_s:
                return Ending(f"{state.text} (for {self._patience_s:g} s)")
            if over_since is not None and now - over_since >= _NO_POD_S:
                return Ending(self._job_over or None, None if self._job_over else 0, missing="its pod is gone")
            if state.phase == "running" and self.pod is not None:
                self.started = self.started or boottime()
                self._follower.start(self.pod.metadata.name)
            self._say_state(state)
            ends = [retried_since and retried_since + self._patience_s, over_since and over_since + _NO_POD_S]
            await self._change(min((end - now for end in ends if end), default=None))

    async def _look_for_job(self) -> None:
        self._job_missed = False
        try:
            found = await self._api.get(Job, "jobs", self.handle.place, self.handle.name)
            self._job_gone = found is None or found.metadata.uid != self._uid
        except (Unreachable, KubernetesError) as error:
            self.away(str(error))
            self._job_missed = True
            await self._change(_AGAIN_S)

    def _say_state(self, state: PodState) -> None:
        if self._away_since is not None:
            return
        text = state.text
        if self.pod is not None and self.pod.metadata.deletion_timestamp:
            text = "Kubernetes ends its pod"
        elif self._event and state.phase == "waiting":
            text = self._event
        self._say(text)

    def _ended(self, state: PodState) -> Ending:
        ended = boottime()
        return Ending(state.text or None, state.exit_code, self.started, state=state, ended=ended)

    def _stopped(self) -> Ending:
        return Ending("", None, self.started, stopped=self.stop_request)

    # -- removal -----------------------------------------------------------------------------------------

    async def _remove(self, ending: Ending) -> None:
        """Until nothing is left."""
        launch = self.launch
        process = None if launch.adopted else self._process
        removal = Removal(self._api, self.handle, process, bool(launch.secrets) or launch.input is not None)
        pause = _AGAIN_S
        asked: StopRequest | None = None
        first = True
        while True:
            try:
                if first or self.stop_request is not asked:
                    asked = self.stop_request
                    await removal.ask(None if asked is None else asked.grace_s)
                    first, look = False, _LOOK_S
                self._note_end(ending)
                left = await removal.left()
                self.away(None)
                if left is None:
                    ending.gone = boottime()
                    await self._until_gone(asked, _LOOK_S)  # the watch may be about to say how the container ended
                    self._note_end(ending)
                    return
                self._say(f"waits until {left} is gone")
                pause = _AGAIN_S
                await self._until_gone(asked, look)
                look = min(look * 1.5, _LOOK_MAX_S)
            except (Unreachable, KubernetesError) as error:
                self.away(str(error))
                first = True
                await asyncio.sleep(pause)
                pause = min(pause * 2, _AGAIN_MAX_S)

    async def _until_gone(self, asked: StopRequest | None, most_s: float) -> None:
        """Wait until the watch says that all is gone, another stop is asked for, or it is time to look again."""
        loop = asyncio.get_running_loop()
        end = loop.time() + most_s
        while loop.time() < end and self.stop_request is asked:
            if self._job_gone and (self.pod is None or self._pod_gone):
                return
            self._changed.clear()
            await self._change(end - loop.time())

    def _note_end(self, ending: Ending) -> None:
        """How the container of a stopped attempt ended, as far as its pod said so before it went."""
        state = pod_state(self.pod)
        if ending.stopped is not None:
            ending.stopped = self.stop_request
            if state.phase == "ended":
                ending.exit_code, ending.state = state.exit_code, state

    # -- waiting -----------------------------------------------------------------------------------------

    async def _insist(self, call: Callable[[], Awaitable[_T]], exists_is_fine: bool = False) -> _T | None:
        """The answer of a request that is repeated until the server answers; None: the attempt was stopped first.
        Raises KubernetesError for what another try cannot change."""
        pause = _AGAIN_S
        while self.stop_request is None:
            try:
                answer = await call()
                self.away(None)
                return answer
            except Unreachable as error:
                self.away(str(error))
            except KubernetesError as error:
                if exists_is_fine and error.status == 409:
                    return None
                if not error.passing:
                    raise
                self.away(str(error))
                pause = max(pause, error.retry_after or 0.0)
            self._changed.clear()
            if self.stop_request is None:
                await self._change(pause)
            pause = min(pause * 2, _AGAIN_MAX_S)
        return None

    async def _change(self, timeout_s: float | None) -> None:
        """Wait until something has changed."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _say(self, text: str) -> None:
        if text != self._said and self.launch.progress is not None:
            self._said = text
            self.launch.progress(self.launch.task_id, self.launch.attempt, text)
