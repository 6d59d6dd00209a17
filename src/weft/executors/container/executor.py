"""The container executor: each attempt a container, through the Docker Engine API of Docker or Podman.

Containers are no children of this process. Three things end them when their node does: `trust` (this process removes
them), the last will that the node's spawner carries out when the node is dead or past its trust, and other nodes,
through `remove`. Attempts that may be adopted are left running by all three.
"""

import asyncio
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol
from urllib.parse import quote

import msgspec

from weft.executors import linux
from weft.executors.container import ends
from weft.executors.container.address import (
    BadAddress,
    EngineFacts,
    choose_api,
    find_address,
    place_identity,
    read_facts,
)
from weft.executors.container.attempt import ContainerAttempt
from weft.executors.container.client import EngineClient, EngineRefused, EngineUnreachable
from weft.executors.container.mounted_files import LABEL, parent_directory, remove_abandoned, remove_files
from weft.executors.container.patience import remove_now
from weft.executors.output import ANSWER_BYTES_MAX
from weft.executors.protocol import Ended, Handle, Launch, Outcome, StopReason
from weft.executors.remote.names import readable_name

_CHECK_S = 5.0
_CLOSE_S = 5.0  # for an engine that does not answer
_REMOVE_S = 60.0
_REMOVE_ALL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "remove_all.py")


class Wills(Protocol):
    """Runs a command when this process is dead or past its trust. The next one replaces it."""

    def last_will(self, argv: tuple[bytes, ...]) -> None: ...


class ContainerExecutor:
    kinds = frozenset({"container"})

    def __init__(
        self,
        socket: str | None = None,
        *,
        wills: Wills | None = None,
        answer_max: int = ANSWER_BYTES_MAX,
        private_root: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`socket` is the engine's: a path, unix:// or tcp://; by default it is looked for. `wills` is the shell
        executor, whose spawner outlives this process; without it, containers of a process that is killed go on until
        another node removes them. `answer_max` bounds the bytes read of $WEFT_OUTPUT and $WEFT_CONTEXT. In
        `private_root`, a directory that the engine sees under the same path, attempts have their private files; by
        default it is the one for temporary files."""
        self._chosen = socket
        self._environment = os.environ if environment is None else environment
        self._wills = wills
        self._answer_max = answer_max
        self._private_root = private_root
        self._client: EngineClient | None = None
        self._facts: EngineFacts | None = None  # of the last check that succeeded
        self._answers = False
        self._attempts: dict[tuple[int, int], tuple[ContainerAttempt, asyncio.Task[None]]] = {}
        self._trusted_until = float("inf")
        self._trust_timer: asyncio.TimerHandle | None = None
        self._process = secrets.token_hex(8)
        self._cleaned = False
        self._open = False

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open = True

    # The engine

    async def check(self) -> str | None:
        try:
            client = self._find()
            async with asyncio.timeout(_CHECK_S):
                version = await client.ask("GET", "/version")
                client.api = choose_api(version)
                podman = "podman" in str(version).lower()
                info = None if podman else await client.ask("GET", "/info")
        except BadAddress as error:
            return self._unusable(str(error))
        except EngineUnreachable as error:
            return self._unusable(f"{self._where}: {error}")
        except TimeoutError:
            return self._unusable(f"{self._where}: no answer within {_CHECK_S:g} s")
        except EngineRefused as error:
            return self._unusable(f"{self._where}: {error.message}")
        self._facts = read_facts(client.address, version, info)
        if not self._answers:
            self._answers = True
            self._make_will()
        if not self._cleaned:
            await self._remove_abandoned_files(client)
        return None

    def _unusable(self, error: str) -> str:
        self._answers = False
        return error

    @property
    def _where(self) -> str:
        return "the container engine" if self._client is None else f"the container engine at {self._client.address}"

    def _find(self) -> EngineClient:
        if self._client is None:
            address = find_address(self._chosen, self._environment)
            if address is None:
                raise BadAddress("no socket of a container engine was found (WEFT_CONTAINER_SOCKET names one)")
            self._client = EngineClient(address)
        return self._client

    @property
    def engine(self) -> str | None:
        return self._facts.identity if self._answers and self._facts is not None else None

    @property
    def flavor(self) -> str | None:
        """`docker` or `podman`, of the engine that answered the last check."""
        return self._facts.flavor if self._answers and self._facts is not None else None

    async def _remove_abandoned_files(self, client: EngineClient) -> None:
        try:
            containers = await client.ask("GET", f"/containers/json?all=1&filters={_label_filter('weft.run')}")
            names = {name.lstrip("/") for found in containers for name in found.get("Names") or []}
            remove_abandoned(parent_directory(self._private_root), names)
        except (EngineUnreachable, EngineRefused, OSError):
            return
        self._cleaned = True

    # Attempts

    def handle(self, launch: Launch) -> Handle:
        identity = self._facts.identity if self._facts is not None else place_identity(self._find().address)
        return Handle(identity, readable_name(launch.run_id, launch.task, launch.attempt))

    def start(self, launch: Launch, on_ended: Ended) -> None:
        if not self._open:
            raise RuntimeError("the container executor is not open")
        if launch.handle is None:
            launch = msgspec.structs.replace(launch, handle=self.handle(launch))
        client, facts = self._client, self._facts
        if client is None or facts is None:
            outcome = ends.never_started(launch, "the container engine has not answered yet", startable=False)
            self._loop.call_soon(on_ended, outcome)
            return
        attempt = ContainerAttempt(
            launch, client, facts, self._labels(launch), self._is_trusted, self._answer_max,
            self._private_root,
        )  # fmt: skip
        task = self._loop.create_task(self._run(attempt, on_ended))
        self._attempts[launch.task_id, launch.attempt] = attempt, task

    def _labels(self, launch: Launch) -> dict[str, str]:
        labels = {
            "weft.run": launch.run_id,
            "weft.task": launch.task,
            "weft.attempt": str(launch.attempt),
            "weft.process": self._process,
        }
        if launch.adoptable:
            labels["weft.adoptable"] = "true"
        return labels

    async def _run(self, attempt: ContainerAttempt, on_ended: Ended) -> None:
        launch = attempt.launch
        key = (launch.task_id, launch.attempt)
        try:
            outcome = await attempt.run()
        except asyncio.CancelledError:
            if not attempt.released:
                self._attempts.pop(key, None)
                raise
            outcome = attempt.released_outcome()
        self._attempts.pop(key, None)
        self._report(launch, on_ended, outcome)

    def _report(self, launch: Launch, on_ended: Ended, outcome: Outcome) -> None:
        try:
            on_ended(outcome)
        except Exception as error:
            context = {"message": f"the callback of {launch.task} failed", "exception": error}
            self._loop.call_exception_handler(context)

    def stop(self, task_id: int, attempt: int, reason: StopReason, grace_s: float) -> None:
        found = self._attempts.get((task_id, attempt))
        if found is None:
            return
        if reason == "lease" and found[0].launch.adoptable:
            self._release(*found)
        else:
            found[0].ask_to_stop(reason, grace_s)

    def _release(self, attempt: ContainerAttempt, task: "asyncio.Task[None]") -> None:
        """Leave it to the attempt that adopts it, which would miss what this one removes."""
        attempt.released = True
        task.cancel()

    def started(self, task_id: int, attempt: int, accepted: float) -> float | None:
        found = self._attempts.get((task_id, attempt))
        return accepted if found is None else found[0].started

    # The node's trust

    def _is_trusted(self) -> bool:
        return linux.boottime() < self._trusted_until

    def trust(self, until: float) -> None:
        if not self._is_trusted():
            self._trust_expired()
        self._trusted_until = float(until)
        if self._trust_timer is not None:
            self._trust_timer.cancel()
        self._check_trust()

    def _check_trust(self) -> None:
        self._trust_timer = None
        left = self._trusted_until - linux.boottime()
        if left <= 0:
            self._trust_expired()
        elif left != float("inf") and self._open:
            self._trust_timer = self._loop.call_later(min(left, 3600.0), self._check_trust)

    def _trust_expired(self) -> None:
        """What was started so far must end. The spawner removes it, too: by the process's id, so that containers of
        the next session have another."""
        for task_id, attempt in list(self._attempts):
            self.stop(task_id, attempt, "lease", 0.0)
        self._process = secrets.token_hex(8)
        self._make_will()

    def _make_will(self) -> None:
        if self._wills is not None and self._client is not None:
            address = str(self._client.address)
            # Of an earlier session, those that are not gone yet.
            earlier = {attempt.process for attempt, _ in self._attempts.values()} - {self._process}
            api = self._client.api
            argv = (sys.executable, "-I", "-S", _REMOVE_ALL, address, api, self._process, *sorted(earlier))
            self._wills.last_will(tuple(map(os.fsencode, argv)))

    async def close(self) -> None:
        self._open = False
        began = linux.boottime()
        if self._trust_timer is not None:
            self._trust_timer.cancel()
        waiting = []
        for attempt, task in list(self._attempts.values()):
            if attempt.launch.adoptable:
                task.cancel()
            else:
                attempt.ask_to_stop("drain", 0.0)
            waiting.append(task)
        while waiting:
            await asyncio.wait(waiting, timeout=0.5)
            waiting = [task for task in waiting if not task.done()]
            if self._client is None or max(began, self._client.answered) < linux.boottime() - _CLOSE_S:
                break  # the engine is away
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if self._client is not None:
            await self._client.close()

    # What others left

    async def remove(self, handles: Sequence[Handle]) -> list[Handle]:
        engine, client = self.engine, self._client
        if engine is None or client is None:
            return []
        gone = await asyncio.gather(
            *[self._remove_one(client, handle) for handle in handles if handle.engine == engine]
        )
        return [handle for handle in gone if handle is not None]

    async def _remove_one(self, client: EngineClient, handle: Handle) -> Handle | None:
        try:
            async with asyncio.timeout(_REMOVE_S):
                labels = await remove_now(client, handle.name)
        except (EngineUnreachable, TimeoutError):
            return None
        with suppress(OSError):
            remove_files((labels or {}).get(LABEL))
        return handle


def _label_filter(label: str) -> str:
    return quote(msgspec.json.encode({"label": [label]}).decode())
