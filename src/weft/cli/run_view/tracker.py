"""A run as its events tell it: what runs now, and what changed. Reads little, however large the run is."""

from typing import NamedTuple

import msgspec

from weft.client.following import EventFollower
from weft.client.verbs import Connection
from weft.core.workflow import Workflow
from weft.operations.replies import EventInfo, titled

_INITIAL_RUNNING = 200


class Running(NamedTuple):
    task: str
    attempt: int
    since: int  # the store's clock
    node: str | None
    session: str | None
    label: str | None = None  # of an element

    @property
    def title(self) -> str:
        return titled(self.task, self.label)


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
    label: str | None = None  # of an element

    @property
    def title(self) -> str:
        return titled(self.task, self.label)


class Tracker:
    def __init__(self, connection: Connection, follower: EventFollower, run_id: str, workflow: Workflow) -> None:
        self._connection = connection
        self.follower = follower
        self.run_id = run_id
        self.workflow = workflow
        self.running: dict[str, Running] = {}
        self.again: dict[str, None] = {}  # tasks that needed more than one attempt
        self.ended: list[Running] = []  # attempts that are over since the last read
        self.children: dict[str, str] = {}  # runs that its tasks have started, and the task's name
        self.wanted: dict[str, str] = {}  # signals that tasks wait for now, by task
        self.titles: dict[str, str] = {}  # of elements with labels, by name
        self.run_ended = False

    def look_at_running(self) -> None:
        """For a run that was under way before we came."""
        tasks, _ = self._connection.tasks(self.run_id, states=["running"], limit=_INITIAL_RUNNING)
        for task in tasks:
            if task.elements is None and task.claimed_at is not None and task.held is None:
                if task.child is not None:
                    self.children[task.child] = task.name
                self.running[task.name] = Running(
                    task.name, task.attempt, task.claimed_at, task.node, task.session, task.label
                )  # fmt: skip
        tasks, _ = self._connection.tasks(self.run_id, states=["waiting"], limit=_INITIAL_RUNNING)
        for task in tasks:
            spec = self.workflow.tasks[task.pos].spec
            if "signal" in spec and task.held is None:
                self.wanted[task.name] = spec["signal"]

    def take(self, events: list[EventInfo]) -> list[Change]:
        """What the next page of events means."""
        self.ended = []
        changes = []
        for event in events:
            change = self._apply(event)
            if change is not None:
                change.label = event.label
                if event.label is not None:
                    self.titles[change.task] = change.title
                changes.append(change)
        return changes

    def _apply(self, event: EventInfo) -> Change | None:
        kind, data, name = event.kind, event.data, event.task or ""
        if kind in ("assigned", "begun", "waiting", "resumed"):
            self.run_ended = False
        elif kind == "run_finished":
            self.run_ended = True
        if kind in ("assigned", "begun"):
            return self._started(event, name)
        if kind in ("finished", "lost", "returned"):
            return self._attempt_ended(event, name)
        if kind == "waiting":
            return self._waits(event, name)
        if kind == "skipped":
            return Change(event.at, name, "skipped", why=data.get("reason"))
        if kind == "refused":
            return Change(event.at, name, data["state"], why=data.get("error"))
        if kind in ("answered", "closed"):
            self.wanted.pop(name, None)
            return Change(event.at, name, data["state"], why=data.get("reason"))
        if kind in ("decided", "paused", "unpaused"):
            return self._by_hand(event, name)
        if kind == "expanded" and data["elements"] == 0:
            return Change(event.at, name, "succeeded")
        if kind in ("cancelled", "voided"):
            return self._cancelled(event) if data["tasks"] else None
        if kind == "level":
            return Change(event.at, f"level {data['level'] + 1}", "committed")
        if kind == "dropped":
            places = [*data["tasks"], *data["later"]]
            return Change(event.at, self._names(places), "lost", why="they run again", count=len(places))
        return None

    def _started(self, event: EventInfo, name: str) -> Change:
        attempt = event.data["attempt"]
        if attempt > 1:
            self.again[name] = None
        if event.kind == "assigned":
            self.running[name] = Running(name, attempt, event.at, event.node, event.session, event.label)
            return Change(event.at, name, "running", attempt)
        child = event.data["run"]  # which no node holds
        self.running[name] = Running(name, attempt, event.at, None, None, event.label)
        self.children[child] = name
        return Change(event.at, name, "running", attempt, why=f"as run {child}")

    def _attempt_ended(self, event: EventInfo, name: str) -> Change:
        data = event.data
        known = self._end(name, data["attempt"], event)
        if event.kind != "finished":
            took = None if known is None else event.at - known.since
            state = event.kind if data["state"] == "queued" else data["state"]
            return Change(event.at, name, state, data["attempt"], took, data.get("reason"))
        started, wake = data.get("started_at"), data.get("wake_at")
        return Change(
            event.at, name, data["state"], data["attempt"],
            None if started is None else event.at - started,
            data.get("error"),
            None if wake is None else wake - event.at,
            data["cached"]["run"] if "cached" in data else None,
        )  # fmt: skip

    def _by_hand(self, event: EventInfo, name: str) -> Change:
        """What a person has decided about a task, or about the whole run."""
        self.wanted.pop(name, None)
        by = event.data.get("by")
        why = f"{event.data.get('reason') or 'by hand'}{f' ({by})' if by else ''}"
        state = event.data["state"] if event.kind == "decided" else event.kind
        return Change(event.at, name or "the run", state, why=why)

    def _waits(self, event: EventInfo, name: str) -> Change:
        signal, wake = event.data.get("signal"), event.data.get("wake_at")
        if signal:
            self.wanted[name] = signal
        why = f"for the signal {signal}" if signal else None
        left = None if wake is None else max(0, wake - event.at)
        return Change(event.at, name, "waiting", why=why, wake_in_ms=left)

    def _end(self, name: str, attempt: int, event: EventInfo) -> Running | None:
        known = self.running.pop(name, None)
        self.ended.append(known or Running(name, attempt, event.at, event.node, event.session, event.label))
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
