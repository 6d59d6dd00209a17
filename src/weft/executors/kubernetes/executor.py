"""The Kubernetes executor: each attempt is a Job with one pod.

The Job has the attempt's name, is created suspended, and is released only while the node may hold the attempt: a
request that arrives late finds either nothing or something that does not run. All attempts of a namespace share one
watch of its Jobs and one of its pods. A node that restarts has another process id: what the old one left is removed
by `remove`, or adopted.
"""

import asyncio
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from weft.executors.kubernetes.api import Api, KubernetesError, decode
from weft.executors.kubernetes.attempt import KubernetesAttempt
from weft.executors.kubernetes.cluster_config import BadClusterConfig, load_config
from weft.executors.kubernetes.manifest import ADOPTABLE, NAME, PROCESS, name_of
from weft.executors.kubernetes.namespace_watch import NamespaceWatch
from weft.executors.kubernetes.objects import Event, Job, Named, Pod
from weft.executors.kubernetes.pod_state import pod_state
from weft.executors.kubernetes.removal import Removal
from weft.executors.protocol import Ended, Handle, Launch
from weft.executors.remote.awaited_attempts import AwaitedAttempts, Key, misplaced
from weft.executors.remote.http_connection import Unreachable

PATIENCE_S = 120.0  # with images that cannot be pulled
_CHECK_TIMEOUT_S = 5.0
_REMOVE_GRACE_S = 5.0
_REMOVE_S = 15.0
_REMOVE_AT_ONCE = 16
_EVENTS_EVERY_S = 10.0


class KubernetesExecutor(AwaitedAttempts[KubernetesAttempt]):
    takes_slot = False  # its attempts wait for a cluster
    kinds = frozenset({"kubernetes"})

    def __init__(self, environment: Mapping[str, str] | None = None, patience_s: float = PATIENCE_S) -> None:
        """`environment` is the node's own by default; `patience_s` bounds what the kubelet tries again."""
        super().__init__()
        self._environment = os.environ if environment is None else environment
        self._patience_s = patience_s
        self.process = secrets.token_hex(8)
        self._api: Api | None = None
        self._known: str | None = None  # the cluster's identity, of the last check that succeeded
        self._answers = False
        self._by_name: dict[tuple[str, str], KubernetesAttempt] = {}
        self._watches: dict[str, NamespaceWatch] = {}
        self._processes: dict[str, set[str]] = {}  # whose attempts are watched, by namespace
        self._strays: set[asyncio.Task[None]] = set()
        self._events_task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._load()

    def _load(self) -> str | None:
        """Why there is no cluster to ask."""
        if self._api is None:
            try:
                self._api = Api(load_config(self._environment))
            except BadClusterConfig as error:
                return str(error)
        return None

    # -- the engine --------------------------------------------------------------------------------------

    async def check(self) -> str | None:
        problem = self._load()
        if problem is None:
            problem = await self._identify()
        self._answers = problem is None
        return problem

    async def _identify(self) -> str | None:
        assert self._api is not None
        try:
            answer = await self._api.request("GET", "/api/v1/namespaces/kube-system", timeout_s=_CHECK_TIMEOUT_S)
            uid = decode(answer, Named).metadata.uid
        except Unreachable as error:
            return f"the API server does not answer: {error}"
        except KubernetesError as error:
            return f"the API server does not tell the UID of kube-system, which identifies the cluster: {error}"
        identity = f"kubernetes:{uid}"
        if self._known is not None and identity != self._known and self._attempts:
            return f"this is another cluster ({identity}) than the one that runs our attempts ({self._known})"
        self._known = identity
        return None

    @property
    def engine(self) -> str | None:
        return self._known if self._answers else None

    def handle(self, launch: Launch) -> Handle:
        if self._api is None or self._known is None:
            raise RuntimeError("no cluster has answered yet")
        given = launch.spec.get("kubernetes") or {}
        return Handle(self._known, name_of(launch), given.get("namespace") or self._api.config.namespace)

    # -- attempts ----------------------------------------------------------------------------------------

    def start(self, launch: Launch, on_ended: Ended) -> None:
        loop = asyncio.get_running_loop()
        refused = misplaced(launch, self._known)
        if refused is not None:
            loop.call_soon(on_ended, refused)
            return
        handle = launch.handle
        assert self._api is not None
        assert handle is not None
        attempt = KubernetesAttempt(
            self._api, launch, handle, self.process, self._trusts, self._watch_process, self._patience_s
        )
        self._by_name[handle.place, handle.name] = attempt
        self._watch_process(handle.place, self.process)
        self._begin(attempt, on_ended)
        if self._events_task is None:
            self._events_task = loop.create_task(self._read_events())

    def _forget(self, key: Key) -> None:
        handle = self._attempts[key].handle
        self._by_name.pop((handle.place, handle.name), None)
        super()._forget(key)

    async def close(self) -> None:
        await self._end_all(self._answers_now)
        background = [*self._strays, *([self._events_task] if self._events_task else [])]
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        if self._api is not None:
            self._api.close()

    async def _answers_now(self) -> bool:
        return await self.check() is None

    # -- what the watches say ----------------------------------------------------------------------------

    def _watch_process(self, namespace: str, process: str) -> None:
        assert self._api is not None
        watch = self._watches.get(namespace)
        if watch is None:
            watch = self._watches[namespace] = NamespaceWatch(
                self._api, namespace, partial(self._changed, namespace), partial(self._listed, namespace),
                partial(self._away, namespace),
            )  # fmt: skip
        processes = self._processes.setdefault(namespace, set())
        processes.add(process)
        watch.watch(processes)

    def _changed(self, namespace: str, found: Job | Pod, gone: bool) -> None:
        name = found.metadata.labels.get(NAME, "")
        attempt = self._by_name.get((namespace, name))
        if attempt is None:
            self._remove_stray(namespace, name, found, gone)
        elif isinstance(found, Job):
            attempt.job_changed(found, gone)
        else:
            attempt.pod_changed(found, gone)

    def _remove_stray(self, namespace: str, name: str, found: Job | Pod, gone: bool) -> None:
        """A request to create a Job that arrived after its attempt was over: it is suspended, and never runs."""
        labels = found.metadata.labels
        if gone or not isinstance(found, Job) or found.metadata.deletion_timestamp is not None:
            return
        if labels.get(PROCESS) == self.process and ADOPTABLE not in labels and self._known is not None:
            task = asyncio.get_running_loop().create_task(self._remove_one(Handle(self._known, name, namespace)))
            self._strays.add(task)
            task.add_done_callback(self._strays.discard)

    async def _remove_one(self, handle: Handle) -> None:
        await self.remove([handle])

    def _listed(self, namespace: str, kind: str, names: frozenset[str]) -> None:
        for attempt in self._in(namespace):
            attempt.listed(kind, names)

    def _away(self, namespace: str, why: str | None) -> None:
        for attempt in self._in(namespace):
            attempt.away(why)

    def _in(self, namespace: str) -> Iterable[KubernetesAttempt]:
        return [attempt for (place, _), attempt in self._by_name.items() if place == namespace]

    async def _read_events(self) -> None:
        """Why Jobs make no pods and pods do not start, where their status does not say it: two lists for all."""
        while self._attempts:
            await asyncio.sleep(_EVENTS_EVERY_S)
            for namespace in {place for place, _ in self._by_name}:
                podless = {a.handle.name: a for a in self._in(namespace) if a.pod is None}
                waiting = {
                    a.pod.metadata.name: a
                    for a in self._in(namespace)
                    if a.pod and pod_state(a.pod).phase == "waiting"
                }
                await self._take_events(namespace, "involvedObject.kind=Job,type=Warning", podless)
                await self._take_events(namespace, "involvedObject.kind=Pod,type=Warning", waiting)
        self._events_task = None

    async def _take_events(self, namespace: str, selector: str, attempts: dict[str, KubernetesAttempt]) -> None:
        if not attempts or self._api is None:
            return
        try:
            items, _ = await self._api.list("events", namespace, {"fieldSelector": selector})
            events = [decode(item, Event) for item in items]
        except (Unreachable, KubernetesError):
            return  # they only explain; the attempts themselves are watched
        for event in events:
            attempt = attempts.get(event.involved_object.name)
            if attempt is not None:
                attempt.event(f"{event.reason}: {' '.join(event.message.split())}"[:300])

    # -- what others left --------------------------------------------------------------------------------

    async def remove(self, handles: Sequence[Handle]) -> list[Handle]:
        if self._api is None or await self._identify() is not None:
            return []
        limit = asyncio.Semaphore(_REMOVE_AT_ONCE)

        async def remove_one(handle: Handle) -> bool:
            async with limit:
                return await self._removed(handle)

        gone = await asyncio.gather(*map(remove_one, handles))
        return [handle for handle, removed in zip(handles, gone, strict=True) if removed]

    async def _removed(self, handle: Handle) -> bool:
        api = self._api
        if api is None or handle.engine != self._known or (handle.place, handle.name) in self._by_name:
            return False
        try:
            async with asyncio.timeout(_REMOVE_S):
                removal = Removal(api, handle, None)
                await removal.ask(_REMOVE_GRACE_S)
                pause = 0.1
                while await removal.left() is not None:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 2.0)
                return True
        except (Unreachable, KubernetesError, TimeoutError):
            return False
