"""A run as its events tell it: what runs now, and what changed. Reads little, however large the run is."""

from typing import NamedTuple

import msgspec

from weft.client.following import Followed
from weft.client.verbs import Control
from weft.core.workflow import Workflow
from weft.operations.replies import EventInfo

PAGE = 500
_INITIAL_RUNNING = 200


class Running(NamedTuple):
    task: str
    attempt: int
    since: int  # the store's clock
    node: str | None
    session: str | None


class Change(msgspec.Struct):
    """One thing that people want to hear of."""

    at: int
    task: str
    state: str  # a task's state, or lost, returned
    attempt: int = 0
    took_ms: int | None = None
    why: str | None = None
    wake_in_ms: int | None = None
    cached: str | None = None  # nothing ran: the result is that of this run
    count: int = 1  # more than one: so many tasks at once, `task` names some of them


class Tracker:
    def __init__(self, control: Control, followed: Followed, run_id: str, workflow: Workflow, after: int = 0) -> None:
        self._control = control
        self.followed = followed
        self.run_id = run_id
        self.workflow = workflow
        self.seq = after
        self.running: dict[str, Running] = {}
        self.again: dict[str, None] = {}  # tasks that needed more than one attempt
        self.ended: list[Running] = []  # attempts that are over since the last read
        self.children: dict[str, str] = {}  # runs that its tasks have started, and the task's name
        self.wanted: dict[str, str] = {}  # signals that tasks wait for now, by task
        self.run_ended = False

    def look_at_running(self) -> None:
        """For a run that was under way before we came."""
        tasks, _ = self._control.tasks(self.run_id, states=["running"], limit=_INITIAL_RUNNING)
        for task in tasks:
            if task.elements is None and task.claimed_at is not None and task.held is None:
                if task.child is not None:
                    self.children[task.child] = task.name
                self.running[task.name] = Running(task.name, task.attempt, task.claimed_at, task.node, task.session)
        tasks, _ = self._control.tasks(self.run_id, states=["waiting"], limit=_INITIAL_RUNNING)
        for task in tasks:
            spec = self.workflow.tasks[task.pos].spec
            if "signal" in spec and task.held is None:
                self.wanted[task.name] = spec["signal"]

    def read(self) -> tuple[list[EventInfo], list[Change]]:
        """The next page of events and what they mean; empty when there is nothing new."""
        events = self.followed.events(PAGE)
        self.ended = []
        changes: list[Change] = []
        for event in events:
            self.seq = event.seq
            change = self._apply(event)
            if change is not None:
                changes.append(change)
        return events, changes

    def _apply(self, event: EventInfo) -> Change | None:
        kind, data, name = event.kind, event.data, event.task or ""
        if kind == "assigned":
            self.run_ended = False
            self.running[name] = Running(name, data["attempt"], event.at, event.node, event.session)
            if data["attempt"] > 1:
                self.again[name] = None
            return Change(event.at, name, "running", data["attempt"])
        if kind == "begun":
            self.run_ended = False
            self.running[name] = Running(name, data["attempt"], event.at, None, None)
            self.children[data["run"]] = name
            if data["attempt"] > 1:
                self.again[name] = None
            return Change(event.at, name, "running", data["attempt"], why=f"as run {data['run']}")
        if kind == "finished":
            self._end(name, data["attempt"], event)
            started = data.get("started_at")
            wake = data.get("wake_at")
            return Change(
                event.at, name, data["state"], data["attempt"],
                None if started is None else event.at - started,
                data.get("error"),
                None if wake is None else wake - event.at,
                data["cached"]["run"] if "cached" in data else None,
            )  # fmt: skip
        if kind in ("lost", "returned"):
            known = self._end(name, data["attempt"], event)
            took = None if known is None else event.at - known.since
            state = kind if data["state"] == "queued" else data["state"]
            return Change(event.at, name, state, data["attempt"], took, data.get("reason"))
        if kind == "skipped":
            return Change(event.at, name, "skipped", why=data.get("reason"))
        if kind == "refused":
            return Change(event.at, name, data["state"], why=data.get("error"))
        if kind == "waiting":
            self.run_ended = False
            wake = data.get("wake_at")
            why = f"for the signal {data['signal']}" if data.get("signal") else None
            if data.get("signal"):
                self.wanted[name] = data["signal"]
            left = None if wake is None else max(0, wake - event.at)
            return Change(event.at, name, "waiting", why=why, wake_in_ms=left)
        if kind == "answered":
            self.wanted.pop(name, None)
            return Change(event.at, name, data["state"], why=data.get("reason"))
        if kind == "expanded" and data["elements"] == 0:
            return Change(event.at, name, "succeeded")
        if kind == "closed":
            return Change(event.at, name, data["state"], why=data.get("reason"))
        if kind in ("cancelled", "voided"):
            return self._cancelled(event) if event.data["tasks"] else None
        if kind == "level":
            return Change(event.at, f"level {data['level'] + 1}", "committed")
        if kind == "dropped":
            places = [*data["tasks"], *data["later"]]
            return Change(event.at, self._names(places), "lost", why="they run again", count=len(places))
        if kind == "resumed":
            self.run_ended = False
        elif kind == "run_finished":
            self.run_ended = True
        return None

    def _end(self, name: str, attempt: int, event: EventInfo) -> Running | None:
        known = self.running.pop(name, None)
        self.ended.append(known or Running(name, attempt, event.at, event.node, event.session))
        return known

    def _cancelled(self, event: EventInfo) -> Change | None:
        places = event.data["tasks"]
        for name in [self._name(pos, idx) for pos, idx in places] if self.wanted else ():
            self.wanted.pop(name, None)
        return Change(
            event.at, self._names(places), "cancelled", why=event.data.get("reason"), count=len(places)
        )  # fmt: skip

    def _names(self, places: list[list[int]]) -> str:
        names = ", ".join(self._name(pos, idx) for pos, idx in places[:3])
        return names + (f" and {len(places) - 3:,} more" if len(places) > 3 else "")

    def _name(self, pos: int, idx: int) -> str:
        return self.workflow.tasks[pos].called(idx)
