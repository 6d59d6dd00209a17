"""Remote attempts as their node sees them: a handle in the store before the engine is asked, notes on what they wait
for, and orphans that this node would adopt."""

import asyncio
import os
from collections.abc import Callable

from weft.core import commands as c
from weft.executors.output import StreamName, output_path
from weft.executors.protocol import Handle, Launch
from weft.node.ports import LinkLost, Ports

RETRY_S = 0.1
NOTE_EVERY_S = 2.0  # of one attempt; what comes sooner is left out, unless nothing follows it
NOTE_MAX = 500  # characters
NOTES_MAX = 200  # of one attempt: a history is read by people


class HandleKeeper:
    def __init__(self, ports: Ports, session: str, trusted: Callable[[], bool]) -> None:
        self._ports = ports
        self._session = session
        self._trusted = trusted
        self.remote: dict[int, None] = {}  # tasks with reports to come whose attempts run on engines
        self.offers: list[tuple[int, int]] = []  # task, attempt of orphans that this node would adopt
        self._notes: dict[tuple[int, int], str] = {}  # not sent yet
        self._noted: dict[tuple[int, int], tuple[float, int]] = {}  # when the last one was sent, and how many were

    async def open(self, launch: Launch, handle: Handle) -> bool:
        """Store the handle, or learn which one to adopt; False: the attempt is not this session's any more, or its
        engine is not this node's."""
        command = c.OpenHandle(
            self._session, launch.task_id, launch.attempt, launch.kind, handle.engine, handle.name, handle.place,
            launch.adoptable,
        )  # fmt: skip
        while True:
            try:
                reply = await self._ports.link.open_handle(command)
                break
            except LinkLost:
                if not self._trusted():
                    return False
                await asyncio.sleep(RETRY_S)
        if reply.status == "stale" or reply.engine != handle.engine:
            return False
        launch.handle = Handle(reply.engine, reply.name, reply.place)
        launch.progress = self.note
        if reply.status == "adopted":
            launch.adopted = True
            launch.stored = self._stored(launch, reply.earlier)
        return True

    def _stored(self, launch: Launch, earlier: list[tuple[int, int, int]]) -> tuple[int, int]:
        """What readers can see of the attempts before: output in the store, or in files beside it."""
        if self._ports.ship is not None:
            return sum(out for _, out, _ in earlier), sum(err for _, _, err in earlier)

        def size(attempt: int, stream: StreamName) -> int:
            try:
                return os.stat(output_path(launch.output_dir, launch.task, attempt, stream)).st_size
            except OSError:
                return 0

        return sum(size(n, "stdout") for n, _, _ in earlier), sum(size(n, "stderr") for n, _, _ in earlier)

    def note(self, task_id: int, attempt: int, text: str) -> None:
        self._notes[(task_id, attempt)] = text[:NOTE_MAX]

    @property
    def has_notes(self) -> bool:
        return bool(self._notes)

    def take_notes(self) -> list[tuple[int, int, str]]:
        """Those that are due; the others wait for their time."""
        now, out = self._ports.clock(), []
        for key in list(self._notes):
            at, count = self._noted.get(key, (float("-inf"), 0))
            if count >= NOTES_MAX:
                del self._notes[key]
            elif now - at >= NOTE_EVERY_S:
                self._noted[key] = (now, count + 1)
                out.append((*key, self._notes.pop(key)))
        return out

    def take_offers(self) -> list[tuple[int, int]]:
        offers, self.offers = self.offers, []
        return offers

    def ended(self, task_id: int, attempt: int) -> None:
        self._notes.pop((task_id, attempt), None)
        self._noted.pop((task_id, attempt), None)

    def take_remote(self, reports: list[c.Report]) -> list[int]:
        """Of reported tasks, those that run on engines: their handles are closed with them."""
        if not self.remote:
            return []
        found = [report.task_id for report in reports if report.task_id in self.remote]
        for task_id in found:
            self.remote.pop(task_id, None)
        return found
