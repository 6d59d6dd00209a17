"""A run's state rebuilt from its events alone.

It never calls `decide`. Events say what happened to attempts and what was skipped, cancelled or admitted; only
readiness (a task whose needs are done is queued) is derived here. Dependents count an end when the next event of
another kind comes, because a halt in the same transaction comes first.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from weft.core.rows import WHOLE
from weft.core.rules.maps import array_hash
from weft.core.rules.names import OUTCOME, outcome_text
from weft.core.rules.readiness import ending_of, goes_on, judge
from weft.core.states import TERMINAL
from weft.core.workflow import Workflow

#: Events that may stand between an end and what follows from it, within one transaction.
_BEFORE_TELLING = frozenset((
    "finished", "lost", "returned", "overdue", "unverified", "released", "progress", "promoted", "reopened",
    "halted", "stopped", "voided", "begun", "budget", "taken_over", "late",
))  # fmt: skip


class Replayed(msgspec.Struct):
    """One task according to the events."""

    generation: int
    state: str = "pending"
    attempt: int = 0
    failures: int = 0
    lost: int = 0
    wake_at: int | None = None
    upstream: bool = False
    hash: str | None = None
    open: int = 0
    failed: int = 0
    skipped: int = 0
    elements: int | None = None
    admitted: int = 0
    let_in: bool = True  # of an element: its map's max_parallel has let it start
    held: str | None = None  # finished; its level has not been committed
    ready_at: int | None = None  # since when nothing but room was missing


def _copies(tasks: dict[tuple[int, int], Replayed]) -> dict[tuple[int, int], Replayed]:
    # `msgspec.structs.replace` does the same in twice the time; typeshed does not know that Structs can do this.
    return {place: task.__copy__() for place, task in tasks.items()}  # type: ignore[attr-defined]


class Replay:
    def __init__(self, workflow: Workflow, limited: bool, others: Callable[[str], Workflow] | None = None) -> None:
        """`others` finds the definitions that the run had before it was corrected, by hash."""
        self._others = others
        self._use(workflow)
        self.paused = False
        self._limited = limited  # the run bounds how much runs at a time: readiness alone does not queue
        self.tasks: dict[tuple[int, int], Replayed] = {}
        self.state = "pending"
        self.generation = 1
        self.level: int | None = None if workflow.level_plan is None else 0
        self.halted = False
        self.stop: str | None = None
        self.handlers = False  # it was stopped, and handlers may still start
        self._ended: list[tuple[int, int]] = []
        self.arrays: dict[tuple[int, int], str] = {}  # hashes of what maps over the context map over
        self.labels: dict[tuple[int, int], str] = {}  # hashes of the labels of their elements
        self._elements_before: dict[tuple[int, int], Replayed] = {}  # of earlier generations
        self._at = 0  # the time of the last event
        self._taking_over = False  # what is taken over has ended before anything starts
        self.open_main = 0  # tasks not ended that the handlers of the whole run wait for

    def _use(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self._level_plan = workflow.level_plan
        self._after_all = [p for p, d in enumerate(workflow.tasks) if d.final and not d.needs]

    def _correct(self, data: dict[str, Any]) -> None:
        if data.get("workflow", self.workflow.hash) != self.workflow.hash and self._others is not None:
            self._use(self._others(data["workflow"]))

    def apply(self, kind: str, place: tuple[int, int] | None, data: dict[str, Any], at: int = 0) -> None:
        """`at` is the event's time; what follows from an end is as old as that end."""
        if kind not in _BEFORE_TELLING:
            self.settle()
        self._at = at
        handler = getattr(self, f"_on_{kind}", None)
        if handler is None:
            raise ValueError(f"replay knows no event {kind!r}")
        handler(place, data)

    def copy(self) -> "Replay":
        """The same state, to go on from twice: views of the past start from copies that they have kept."""
        twin = Replay(self.workflow, self._limited, self._others)
        vars(twin).update(vars(self))
        twin.tasks = _copies(self.tasks)
        twin._elements_before = _copies(self._elements_before)
        twin._ended = list(self._ended)
        twin.arrays, twin.labels = dict(self.arrays), dict(self.labels)
        return twin

    # -- events ------------------------------------------------------------------------------------------

    def _on_submitted(self, place: Any, data: dict[str, Any]) -> None:
        self._correct(data)
        self.paused = data.get("paused", False)  # as the run is whose task starts it
        for pos in range(len(self.workflow.tasks)):
            self._fresh(pos, 1)
        self._taking_over = "taken_from" in data
        if not self._taking_over:
            self._start_ready(range(len(self.workflow.tasks)))

    def _on_taken_over(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        task = self.tasks[place]
        task.attempt, task.hash = data["attempt"], data.get("hash")
        if "elements" in data:
            task.elements = task.admitted = len(data["elements"])
            for idx, (state, attempt, hash) in enumerate(data["elements"]):
                self.tasks[(place[0], idx)] = Replayed(task.generation, state, attempt, hash=hash)
        for name, known in (("array", self.arrays), ("labels", self.labels)):
            if name in data:
                known[(place[0], task.generation)] = data[name]
        self._set(place, data["state"])

    def _on_resumed(self, place: Any, data: dict[str, Any]) -> None:
        self._correct(data)
        self.generation = data["generation"]
        self.level = data.get("level")
        self.state, self.halted, self.stop, self.paused = "running", False, None, False
        positions: list[int] = data["tasks"]
        for pos in positions:
            old = self.tasks.get((pos, WHOLE))  # none: a corrected definition brought it
            for idx in range(0 if old is None else old.elements or 0):
                self._elements_before[(pos, idx)] = self.tasks.pop((pos, idx))
            self._fresh(pos, self.generation, attempt=0 if old is None else old.attempt)
        for pos in positions:
            self._count_needs(pos)
        self._start_ready(positions)

    def _on_concluded(self, place: Any, data: dict[str, Any]) -> None:
        self.arrays[(OUTCOME, self.generation)] = array_hash(outcome_text(data))

    def _on_assigned(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        task = self.tasks[place]
        task.state, task.attempt, task.wake_at = "running", data["attempt"], None

    def _on_begun(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        if self.state == "pending":  # what it waited for has ended, and is not counted yet
            self.state = "running"
        task = self.tasks[place]
        task.state, task.attempt, task.wake_at = "running", data["attempt"], None

    def _on_started(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        pass

    def _on_finished(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        task = self.tasks[place]
        task.wake_at = data.get("wake_at")
        if data.get("end", data["state"]) in ("failed", "dead_letter", "scheduled"):
            task.failures += 1
        if data["state"] == "held":
            self._hold(place, data["end"])
            return
        if data["state"] == "succeeded":
            task.hash = data.get("hash")
        self._set(place, data["state"])

    def _on_lost(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        self.tasks[place].lost += 1
        self._set_or_hold(place, data)

    def _on_returned(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        self._set(place, data["state"])

    def _on_overdue(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        """Its node is told to stop it; if it is taken away, `lost` follows."""

    def _on_unverified(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        """Its node is lost; `lost` follows when its engine says that it is gone, or it is adopted or released."""

    _on_adopted = _on_released = _on_progress = _on_late = _on_unverified

    def _on_decided(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        task = self.tasks[place]
        task.attempt, task.hash, task.wake_at, task.upstream = data["attempt"], data.get("hash"), None, False
        self._set(place, data["state"])

    def _on_paused(self, place: Any, data: dict[str, Any]) -> None:
        self.paused = True
        for pos, idx in data["tasks"]:
            self.tasks[(pos, idx)].state = "pending"

    def _on_unpaused(self, place: Any, data: dict[str, Any]) -> None:
        self.paused = False

    def _on_skipped(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        self.tasks[place].upstream = data["upstream"]
        self._set(place, "skipped")

    def _on_cancelled(self, place: Any, data: dict[str, Any]) -> None:
        for pos, idx in data["tasks"]:
            self.tasks[(pos, idx)].held = None
            self._set((pos, idx), "cancelled")

    def _on_voided(self, place: Any, data: dict[str, Any]) -> None:
        """Held ends of a level that failed. Mapped tasks heard of their elements when those were held."""
        for pos, idx in [*data["tasks"], *data["failed"]]:
            task = self.tasks[(pos, idx)]
            state = task.held if [pos, idx] in data["failed"] else "cancelled"
            task.held = None
            if task.elements == 0:
                task.elements = None
            if idx < 0:
                self._set((pos, idx), state or "failed")
            else:
                task.state = state or "failed"

    def _on_refused(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        self._set(place, data["state"])

    def _on_budget(self, place: tuple[int, int] | None, data: dict[str, Any]) -> None:
        """A run may spend more from now on; or a task of it does not start, because it might spend too much."""
        if place is not None:
            self._set(place, data["state"])

    def _on_waiting(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        self.tasks[place].state, self.tasks[place].wake_at = "waiting", data["wake_at"]

    def _on_answered(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        if data["state"] == "succeeded":
            self.tasks[place].hash = data.get("hash")
        self._set_or_hold(place, data)

    def _on_signalled(self, place: Any, data: dict[str, Any]) -> None:
        """The signal itself moves nothing; its wait's answer is an event of its own."""

    def _on_context_conflict(self, place: Any, data: dict[str, Any]) -> None:
        """For people: the context keeps the writer that is last in the graph."""

    def _on_closed(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        self._set_or_hold(place, data)

    def _on_promoted(self, place: Any, data: dict[str, Any]) -> None:
        for pos, idx in data["tasks"]:
            task = self.tasks[(pos, idx)]
            task.wake_at = None
            task.state = "pending"
            self._make_ready(pos, task)

    def _on_placed(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        self.tasks[place].wake_at = data["wake_at"]

    def _on_reopened(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        self.tasks[place].wake_at = None

    def _on_admitted(self, place: Any, data: dict[str, Any]) -> None:
        for pos, idx in data["tasks"]:
            self.tasks[(pos, idx)].state = "queued"

    def _on_expanded(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        pos = place[0]
        whole = self.tasks[place]
        whole.elements = count = data["elements"]
        if "array" in data:
            self.arrays[(place[0], whole.generation)] = data["array"]
        if "labels" in data:
            self.labels[(place[0], whole.generation)] = data["labels"]
        again: list[int] = data.get("again", list(range(count)))
        renewed = frozenset(again)
        for idx in range(count):
            if idx not in renewed:
                self.tasks[(pos, idx)] = self._elements_before[(pos, idx)]
        if not again and self._level_plan is not None:
            whole.state, whole.held = "running", "succeeded"
            return
        if not again:
            self._set(place, "succeeded")
            return
        whole.state, whole.open, whole.failed = "running", len(again), 0
        let_in = min(len(again), self.workflow.tasks[pos].max_parallel or len(again))
        whole.admitted = count - len(again) + let_in
        for nth, idx in enumerate(again):
            before = self._elements_before.get((pos, idx))
            attempt = before.attempt if before is not None else 0
            self.tasks[(pos, idx)] = element = Replayed(whole.generation, "pending", attempt, let_in=nth < let_in)
            if nth < let_in:
                self._make_ready(pos, element)
        self.open_main += 0 if self.workflow.tasks[pos].final else len(again)

    def _on_halted(self, place: Any, data: dict[str, Any]) -> None:
        self.halted = True

    def _on_stopped(self, place: Any, data: dict[str, Any]) -> None:
        self.stop, self.handlers, self.paused = data["why"], "handlers_until" in data, False

    def _on_began(self, place: Any, data: dict[str, Any]) -> None:
        """A level begins: what its needs allow is ready."""
        assert self._level_plan is not None
        self.level = data["level"]
        bad = self.stop == "timeout" or self._anything_failed()
        for pos in self._level_plan.tasks[data["level"]]:
            task, definition = self.tasks[(pos, WHOLE)], self.workflow.tasks[pos]
            if definition.final and not definition.needs:
                task.open, task.failed = 0, int(bad)
            self._start_if_ready(pos)

    def _on_merged(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        """Its level has committed. Tasks that had ended before (skipped, cancelled) are named for the record only."""
        task = self.tasks[place]
        if task.held is None:
            return
        if data["state"] == "succeeded":
            task.hash = data.get("hash")
        task.held = None
        if place[1] < 0:
            self._set(place, data["state"])
        else:
            task.state = data["state"]

    def _on_level(self, place: Any, data: dict[str, Any]) -> None:
        self.level = data["level"] + 1

    def _on_advanced(self, place: Any, data: dict[str, Any]) -> None:
        """For people: what it lets in has events of its own."""

    def _on_owned(self, place: Any, data: dict[str, Any]) -> None:
        """For people: it says who may take the run's tasks, not what becomes of them."""

    _on_disowned = _on_owned

    def _on_dropped(self, place: Any, data: dict[str, Any]) -> None:
        """What a lost owner held runs again; some elements have to be let in again first."""
        for let_in, places in ((True, data["tasks"]), (False, data["later"])):
            for pos, idx in places:
                task, whole = self.tasks[(pos, idx)], self.tasks[(pos, WHOLE)]
                if idx >= 0:
                    whole.open += 1
                    whole.failed -= task.held != "succeeded"
                    whole.admitted -= not let_in
                    whole.held = None
                task.held, task.failures, task.let_in = None, 0, let_in
                task.state = self._ready_state if let_in else "pending"

    def _on_run_finished(self, place: Any, data: dict[str, Any]) -> None:
        self.state = data["state"]

    # -- what follows from them --------------------------------------------------------------------------

    @property
    def _ready_state(self) -> str:
        if self.state == "pending":
            self.state = "running"
        return "pending" if self._limited or self.paused else "queued"

    def _set_or_hold(self, place: tuple[int, int], data: dict[str, Any]) -> None:
        if data["state"] == "held":
            self._hold(place, data["end"])
        else:
            self._set(place, data["state"])

    def _hold(self, place: tuple[int, int], end: str) -> None:
        self.tasks[place].held = end
        self.tasks[place].wake_at = None
        if place[1] >= 0:
            self._ended.append(place)  # its mapped task hears of it now

    def _make_ready(self, pos: int, task: Replayed, *, whole: bool = False) -> None:
        """It is queued; or it maps, waits or runs another workflow, and an event of its own says what it does."""
        definition = self.workflow.tasks[pos]
        state = self._ready_state
        task.ready_at = self._at
        if not ((whole and definition.mapped) or definition.kind in ("wait", "workflow")):
            task.state = state  # of the others, the events may say more already

    def _set(self, place: tuple[int, int], state: str) -> None:
        self.tasks[place].state = state
        if state in TERMINAL:
            self._ended.append(place)
            self.open_main -= not self.workflow.tasks[place[0]].final

    def _fresh(self, pos: int, generation: int, attempt: int = 0) -> None:
        definition = self.workflow.tasks[pos]
        after_all = definition.final and not definition.needs
        self.open_main += not definition.final
        self.tasks[(pos, WHOLE)] = Replayed(
            generation, attempt=attempt, open=1 if after_all else len(definition.needs)
        )

    def _count_needs(self, pos: int) -> None:
        """In a later generation some needs have ended already."""
        for need in self.workflow.tasks[pos].needs:
            before = self.tasks[(need, WHOLE)]
            if before.generation != self.generation and before.state in TERMINAL:
                self._count(pos, need, before)

    def _count(self, pos: int, need: int, before: Replayed) -> None:
        task = self.tasks[(pos, WHOLE)]
        task.open -= 1
        ending = ending_of(before.state, before.upstream, self.workflow.tasks[need].allow_failure)
        if need in self.workflow.tasks[pos].accepts:
            return
        task.failed += ending == "failed"
        task.skipped += ending == "skipped"

    def _start_ready(self, positions: Any) -> None:
        for pos in positions if self._level_plan is None else ():  # in levels, each begins with an event
            self._start_if_ready(pos)

    def _start_if_ready(self, pos: int) -> None:
        task, definition = self.tasks[(pos, WHOLE)], self.workflow.tasks[pos]
        if task.state != "pending" or task.open:
            return
        if self._level_plan is None and definition.final and not definition.needs:
            return
        if judge(definition.when, len(definition.needs), 0, task.failed, task.skipped) == "start":
            self._make_ready(pos, task, whole=True)

    def settle(self) -> None:
        """Tell dependents of everything that ended since the last time."""
        if self._taking_over:
            self._taking_over = False
            self._start_ready(range(len(self.workflow.tasks)))
        while self._ended:
            ended, self._ended = self._ended, []
            for pos, idx in ended:
                if idx >= 0:
                    self._count_in_map(pos, self.tasks[(pos, idx)])
                else:
                    self._count_in_dependents(pos)
        self._start_final()

    def _count_in_dependents(self, pos: int) -> None:
        before = self.tasks[(pos, WHOLE)]
        for after in self.workflow.successors[pos]:
            if not self._goes_on(after):
                continue
            task = self.tasks[(after, WHOLE)]
            if task.state == "pending" and task.open > 0:
                self._count(after, pos, before)
                if self._level_plan is None:
                    self._start_if_ready(after)

    def _count_in_map(self, pos: int, element: Replayed) -> None:
        whole = self.tasks[(pos, WHOLE)]
        whole.open -= 1
        whole.failed += (element.held or element.state) != "succeeded"
        if whole.elements is None or whole.admitted >= whole.elements or not self._goes_on(pos):
            return
        if whole.failed <= self.workflow.tasks[pos].tolerate.of(whole.elements) or self._all_run(pos):
            following = self._next_element(pos, whole)
            whole.admitted += 1
            if following is not None and following.state == "pending":
                following.let_in = True
                self._make_ready(pos, following)

    def _all_run(self, pos: int) -> bool:
        """In a level, elements go on past what is tolerated, unless that voids the level."""
        if self._level_plan is None or self.level is None:
            return False
        return self.workflow.tasks[pos].allow_failure or self.level >= self._level_plan.handlers

    def _next_element(self, pos: int, whole: Replayed) -> Replayed | None:
        if whole.generation == 1 and self._level_plan is None:
            return self.tasks[(pos, whole.admitted)]
        rows = (self.tasks[(pos, idx)] for idx in range(whole.elements or 0))
        return next((t for t in rows if not t.let_in and t.state == "pending"), None)

    def _start_final(self) -> None:
        if (
            self._level_plan is not None
            or self.open_main
            or not self.tasks
            or self.state not in ("pending", "running")
        ):
            return
        waiting = [p for p in self._after_all if self.tasks[(p, WHOLE)].open and self._goes_on(p)]
        waiting = [p for p in waiting if self.tasks[(p, WHOLE)].state == "pending"]
        if not waiting:
            return
        bad = self.stop == "timeout" or self._anything_failed()
        for pos in waiting:
            task = self.tasks[(pos, WHOLE)]
            task.open = 0
            if self.workflow.tasks[pos].when == "always" or bad:
                self._make_ready(pos, task, whole=True)

    def _goes_on(self, pos: int) -> bool:
        return goes_on(self.workflow.tasks[pos], self.halted, self.stop, self.handlers)

    def _anything_failed(self) -> bool:
        for (pos, idx), task in self.tasks.items():
            definition = self.workflow.tasks[pos]
            if task.state == "cancelled" and not (definition.mapped and idx < 0 and task.elements is not None):
                return True
            if task.state in ("failed", "dead_letter") and idx < 0 and not definition.allow_failure:
                return True
        return False
