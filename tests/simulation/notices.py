"""Deadlines and notifications in the simulated world: what is late is reported once and never before its moment, and
what is to be delivered gets there, at least once, whatever becomes of leaders."""

import asyncio
import random
from typing import TYPE_CHECKING, Any

from tests.simulation.violations import Violation, require
from weft.core.rows import NotificationRow
from weft.node.ports import Delivery

if TYPE_CHECKING:
    from tests.simulation.world import World

TARGET = {"on": ["failed", "recovered", "dead_letter", "late", "waiting"], "webhook": "https://notices.example"}


def add_deadlines(document: dict[str, Any], seed: int, number: int) -> None:
    """To some definitions, by numbers of their own."""
    rng = random.Random(f"deadlines-{seed}-{number}")
    if rng.random() < 0.5:
        document["notify"] = TARGET
    if rng.random() < 0.4:
        document["deadline"] = {"finish_by": rng.choice(["500ms", "3s", "1m"])}
    if rng.random() < 0.3:
        start_by = rng.choice(["10ms", "1s"])
        deadline = document.setdefault("deadline", {})
        deadline["start_by"] = "10ms" if deadline.get("finish_by") == "500ms" else start_by  # else it is refused
    for task in document["tasks"].values():
        if rng.random() < 0.1:
            task["deadline"] = {rng.choice(["start_by", "finish_by"]): rng.choice(["100ms", "2s", "5s"])}


class SimulatedSender:
    """Sometimes it takes long, sometimes nobody answers."""

    def __init__(self, world: "World", owner: int) -> None:
        self._world = world
        self._random = random.Random(f"sender-{world.seed}-{owner}")

    async def send(self, row: NotificationRow, result: str | None) -> Delivery:
        await asyncio.sleep(self._random.choice([0.01, 0.01, 1.0]))
        if self._random.random() < 0.2:
            return Delivery("nobody answered")
        self._world.sent.append(row.id)
        return Delivery()


class LateReports:
    """What the auditor knows of deadlines."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int | None, str]] = set()
        self.objections: list[Violation] = []

    def event(self, run_no: int, pos: int | None, data: Any, now: int) -> None:
        key = (run_no, pos, data["by"])
        if key in self.seen:
            self.objections.append(Violation("late twice", f"{key} was reported twice"))
        if now < data["at"]:
            self.objections.append(Violation("late early", f"{key} was reported at {now}, due {data['at']}"))
        self.seen.add(key)


def is_quiet(world: "World") -> bool:
    """Nothing is to be delivered, and what has passed is judged."""
    reader = world.store.reader()
    pending = reader.execute("SELECT count(*) FROM notifications WHERE state = 'pending'").get
    late = "SELECT count(*) FROM deadlines WHERE state = 'open' AND at < ?"
    return not pending and not reader.execute(late, (world.now() - 5000,)).get


def check_notices(world: "World") -> None:
    reader = world.store.reader()
    delivered = [id for (id,) in reader.execute("SELECT id FROM notifications WHERE state = 'delivered'")]
    never = [id for id in delivered if id not in world.sent]
    require(not never, "delivered", f"{never} count as delivered and were never sent")
    twice = len(world.sent) - len(set(world.sent))
    require(twice <= 2 + len(world.loop.dead) * 8, "delivered often", f"{twice} were sent more than once")
    reports = {(run_no, -1 if pos is None else pos, by) for run_no, pos, by in world.late_reports.seen}
    late = {tuple(row) for row in reader.execute("SELECT run_no, pos, by FROM deadlines WHERE state = 'late'")}
    require(late == reports, "late", f"{late} are late, {reports} were reported")
    judged = "SELECT run_no, at, state FROM deadlines WHERE by = 'finish_by' AND pos = -1 AND state <> 'open'"
    for run_no, at, state in list(reader.execute(judged)):
        finished = "SELECT at FROM events WHERE run_no = ? AND kind = 'run_finished' ORDER BY seq"
        ends = [end for (end,) in reader.execute(finished, (run_no,))]
        if len(ends) == 1:  # it was never resumed
            text = f"run {run_no} ended at {ends[0]}, due {at}: {state}"
            require((ends[0] > at) == (state == "late"), "late end", text)
