"""One run: its tasks by level with the node of each, live; and as they were after any event of its history."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from weft.cli.terminal.formats import clock, counted, duration, state_word
from weft.cli.terminal.terminal import printable
from weft.client.verbs import Connection
from weft.core.states import TERMINAL
from weft.operations.replies import EventInfo, RunInfo, TaskInfo
from weft.tui.graph_lines import GraphLine, GraphLines, line_of
from weft.tui.line_table import Column
from weft.tui.link import TopLink
from weft.tui.live_screen import ERRORS, LiveScreen
from weft.tui.looks import BOLD, DIM, LOOKS, PLAIN, RED, Cell, state_cell
from weft.tui.run_history import RunHistory
from weft.tui.verbs import RunTask, Verb, offered

PAGE: Final = 1000
LIVE_S: Final = 0.25
ENDED_S: Final = 2.0
LOAD_EVERY_S: Final = 1.0
LOAD_COST_FACTOR: Final = 15  # a load that takes a second is repeated every fifteen seconds while events come
BAD: Final = ("failed", "dead_letter", "cancelled")


class RunScreen(LiveScreen):
    columns = (
        Column("lvl", 3), Column("task", 0), Column("state", 13), Column("node", 10, 2, wide=20),
        Column("try", 3, 4, right=True), Column("time", 10, 3, right=True), Column("needs", 24, 6),
        Column("reason", 24, 5),
    )  # fmt: skip
    cost_factor = 2.0

    def __init__(self, link: TopLink, run_id: str) -> None:
        super().__init__(link)
        self.run_id = run_id
        self.run: RunInfo | None = None
        self.live = GraphLines()
        self.past: GraphLines | None = None  # what is shown instead, of an earlier moment
        self.at = 0  # how many events that moment has
        self.history: RunHistory | None = None
        self._reading = False
        self._signals: dict[int, str] | None = None  # that waits wait for, by position; None: not asked for yet
        self._seq: int | None = None
        self._stale = False  # events came that say less than a load
        self._loaded_at = 0.0
        self._load_cost = 0.0
        self._ahead_ms = 0.0  # of the store's clock, before this machine's
        self.title_text = f"run {run_id}"

    # Staying true

    def every_s(self) -> float:
        return ENDED_S if self.run is not None and self.run.finished and not self._stale else LIVE_S

    async def update(self) -> None:
        if self._seq is None:
            await self._load()
        if self._signals is None:
            self._signals = await self.link.ask(self._find_signals)
            self._show()
            return
        events = await self.link.ask(self._news)
        for event in events:
            self._stale = not self.live.apply(event) or self._stale or event.kind != "progress"
        if events:
            self._seq = events[-1].seq
            await self._look_at_run()
            self._show()
            if len(events) == PAGE:
                self.soon()
        due = max(LOAD_EVERY_S, self._load_cost * LOAD_COST_FACTOR)
        ended = self.run is not None and self.run.finished
        if self._stale and (ended or time.monotonic() - self._loaded_at >= due):
            await self._load()
        if self.past is not None and self.history is not None:
            await self.link.ask(self._read_on)

    def _news(self, connection: Connection) -> list[EventInfo]:
        assert self._seq is not None
        return connection.events(self.run_id, after=self._seq, limit=PAGE)

    def _find_signals(self, connection: Connection) -> dict[int, str]:
        assert self.run is not None
        tasks = connection.workflow_of_hash(self.run.workflow).tasks
        return {pos: task.spec["signal"] for pos, task in enumerate(tasks) if "signal" in task.spec}

    async def _look_at_run(self) -> None:
        def look(connection: Connection) -> tuple[RunInfo, int]:
            return connection.run(self.run_id), connection.now()

        run, now = await self.link.ask(look)
        self.run, self.run_id = run, run.id
        self._ahead_ms = now - time.time() * 1000
        self.title_text = f"run {run.id} {printable(run.name)}"

    def _page(self, after: int, connection: Connection) -> tuple[list[TaskInfo], int | None]:
        return connection.tasks(self.run_id, after=after, limit=PAGE)

    async def _load(self) -> None:
        """All tasks, a page at a time; those of a first load are shown as they come."""
        began = time.monotonic()
        await self._look_at_run()
        seq = await self.link.ask(lambda connection: connection.last_event(self.run_id))
        lines: list[GraphLine] = []
        after: int | None = 0
        while after is not None:
            page, after = await self.link.ask(partial(self._page, after))
            lines += [line_of(task) for task in page]
            if self._seq is None:
                self.live.load(lines)
                self._show()
        self.live.load(lines)
        self._seq = seq
        self._stale = False
        self._loaded_at = time.monotonic()
        self._load_cost = self._loaded_at - began
        self._show()

    # What is shown

    def _show(self) -> None:
        lines = self.live if self.past is None else self.past
        rows = lines.rows(self.filter)
        self.table.empty = "" if rows else " no tasks" + (" that have that" if self.filter else "")
        self.table.put(rows, searched=bool(self.filter))
        self.draw_frame()

    async def filtered(self) -> None:
        self._show()

    def key_of(self, row: GraphLine) -> str:
        return row.name

    def details(self) -> str:
        run = self.run
        if run is None:
            return ""
        filtered = f" · filter: {self.filter}" if self.filter else ""
        if self.past is not None and self.history is not None:
            event = self.history.events[self.at - 1]
            what = f"{event.kind} {event.task or ''} {state_word(str(event.data.get('state', '')))}"
            state = self.history.state_at(self.at)
            generation = f" · generation {self.history.generation_at(self.at)}" if run.generation > 1 else ""
            where = f"event {self.at} of {len(self.history.events)}"
            return f"AS IT WAS {clock(event.at)} · {where}: {what} · {state}{generation}"
        state = "paused" if run.paused and not run.finished else run.state
        took = duration((run.finished_at or self._now()) - run.started_at) if run.started_at else ""
        counts = self.live.count()
        parts = [f"{counts[name]} {state_word(name)}" for name in LOOKS if counts[name]]
        reason = f" · {run.reason}" if run.reason else ""
        return f"{LOOKS[state][0]} {state} {took} · {', '.join(parts)}{reason}{filtered}"

    def _now(self) -> int:
        if self.past is not None and self.history is not None:
            return self.history.events[self.at - 1].at
        return int(time.time() * 1000 + self._ahead_ms)

    def cells(self, row: GraphLine) -> Sequence[Cell]:
        level = str(row.level + 1) if row.first else ""
        name = printable(row.title)
        if row.idx >= 0:
            name = f"  {name}"
        elif row.elements is not None:
            lines = self.live if self.past is None else self.past
            name = f"{'▾' if row.pos in lines.opened else '▸'} {name} ×{row.elements}"
        node = row.node or (f"run {row.child}" if row.child else "")
        if row.state == "waiting" and self._signals and row.pos in self._signals:
            node = f"← {self._signals[row.pos]}"
        return (
            (level, DIM), (name, BOLD), self._state(row), (printable(node), PLAIN),
            (str(row.attempt) if row.attempt else "", RED if row.attempt > 1 else PLAIN), (self._time(row), PLAIN),
            (", ".join(row.needs), DIM), (printable(row.reason or ""), DIM),
        )  # fmt: skip

    def _state(self, row: GraphLine) -> Cell:
        """Of a mapped task: how many of its elements have ended, and how many of those badly."""
        if not row.elements:
            return state_cell(row.shown_state)
        counts = (self.live if self.past is None else self.past).counts.get(row.pos)
        if counts is None:
            return state_cell(row.shown_state)
        done = sum(counts[state] for state in TERMINAL) + counts["held"]
        bad = sum(counts[state] for state in BAD)
        sign, style = LOOKS.get(row.shown_state, (" ", PLAIN))
        return f"{sign} {done}/{row.elements}" + f" ✗{bad}" * bool(bad), RED if bad else style

    def _time(self, row: GraphLine) -> str:
        if row.state in ("waiting", "scheduled") and row.wake_at is not None:
            return f"in {duration(max(0, row.wake_at - self._now()))}"
        if row.started_at is None or (row.finished_at is None and row.state not in ("running", "waiting")):
            return ""
        return duration(max(0, (row.finished_at or self._now()) - row.started_at))

    # Keys

    def subject(self) -> Any:
        row = self.table.row
        if row is None or self.run is None or self.past is not None:
            return None
        return RunTask(self.run, row, (self._signals or {}).get(row.pos))

    def verbs(self) -> list[tuple[Verb, Any]]:
        """Those of the task, and with capital letters those of its run."""
        if self.past is not None:
            return []
        of_run = [] if self.run is None else offered(self.run, self.link.may)
        capitals = [verb._replace(key=verb.key.upper(), name=f"{verb.name} run") for verb in of_run]
        return [*super().verbs(), *((verb, self.run) for verb in capitals)]

    def more_keys(self) -> list[tuple[str, str]]:
        row = self.table.row
        keys: list[tuple[str, str]] = []
        if row is not None:
            mapped = row.elements is not None
            keys = [("enter", "elements" if mapped else "output"), ("w", "why")]
            if row.child and self.past is None:
                keys.append(("o", "its run"))
        generations = [("<", "generation before")] if self.run is not None and self.run.generation > 1 else []
        if self.past is None:
            return [*keys, ("[", "back in time"), *generations]
        return [*keys, ("[", "earlier"), ("]", "later"), ("{ }", "far"), *generations, ("esc", "now")]

    async def pressed(self, key: str) -> bool:
        row = self.table.row
        if key in ("[", "]", "{", "}", "<", ">"):
            self.travel(key)
        elif key == "escape" and self.past is not None:
            self._return()
        elif row is None:
            return False
        elif key == "enter" and row.elements is not None:
            (self.live if self.past is None else self.past).toggle(row)
            self._show()
        elif key in ("enter", "l"):
            self.top.open_task(self.run_id, row.name)
        elif key == "w":
            then = None if self.past is None or self.history is None else self.history.events[self.at - 1].seq
            self.top.explain(self.run_id, row.name, then)
        elif key == "o" and row.child:
            self.top.open_run(row.child)
        else:
            return False
        return True

    # The past

    def travel(self, key: str) -> None:
        if self.history is None:
            if key in ("[", "{", "<") and not self._reading and self.run is not None:
                self._reading = True
                self.say("reading the history of the run")
                self.run_worker(self._begin_travel("[" if key == "{" else key), group="history")
            return
        count = len(self.history.events)
        far = max(10, count // 20)
        now = count if self.past is None else self.at
        if key in ("<", ">"):
            to = self.history.generation_end(now, before=key == "<")
        else:
            to = now + {"[": -1, "]": 1, "{": -far, "}": far}[key]
        if to >= count:
            if self.past is not None:
                self._return()
            return
        self._go_to(max(1, to))

    def _go_to(self, at: int) -> None:
        assert self.history is not None
        if self.past is None:
            self.past = GraphLines()
            self.past.opened = dict(self.live.opened)
        self.at = at
        lines = self.history.at(at)
        for line in lines:
            known = self.live.by_name.get(line.name)
            if known is not None:
                line.title = known.title
        self.past.load(lines)
        self._show()

    def _return(self) -> None:
        self.past = None
        self._show()

    async def _begin_travel(self, key: str) -> None:
        run = self.run
        assert run is not None

        def read(connection: Connection) -> RunHistory:
            history = RunHistory(run, connection.workflow_of_hash)
            while page := connection.events(run.id, after=history.last_seq, limit=PAGE):
                history.add(page)
            return history

        try:
            self.history = await self.link.ask(read)
        except ERRORS as problem:
            self.say(f"the history cannot be read: {problem}", error=True)
        else:
            self.travel(key)
            self.say(counted(len(self.history.events), "event"))
        finally:
            self._reading = False

    def _read_on(self, connection: Connection) -> None:
        assert self.history is not None
        self.history.add(connection.events(self.run_id, after=self.history.last_seq, limit=PAGE))
