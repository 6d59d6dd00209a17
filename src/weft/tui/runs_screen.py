"""Runs, newest first: states, progress, since when. `/` takes words; those that are states filter by state."""

from collections.abc import Sequence
from typing import Any, Final

from weft.cli.terminal.formats import ago, duration
from weft.cli.terminal.terminal import printable
from weft.core.states import RUN_STATES
from weft.operations.replies import RunInfo
from weft.tui.line_table import Column
from weft.tui.link import TopLink
from weft.tui.live_screen import LiveScreen
from weft.tui.looks import BOLD, DIM, PLAIN, RED, Cell, bar, state_cell

PAGE: Final = 200
RUNS_MAX: Final = 2000  # beyond these, a filter finds them


class RunsScreen(LiveScreen):
    title_text = "runs"
    columns = (
        Column("run", 12), Column("workflow", 0), Column("state", 11), Column("done", 9, 2, right=True),
        Column("", 10, 5), Column("began", 8, 3, right=True), Column("took", 7, 4, right=True),
        Column("labels", 24, 6),
    )  # fmt: skip

    def __init__(self, link: TopLink, trigger: str | None = None) -> None:
        super().__init__(link)
        self._trigger = trigger
        self._wanted = PAGE
        self._now = 0
        if trigger is not None:
            self.title_text = f"runs of {trigger}"

    async def update(self) -> None:
        words = self.filter.split()
        states: list[Any] = [word for word in words if word in RUN_STATES]
        text = " ".join(word for word in words if word not in states) or None
        wanted, trigger = self._wanted, self._trigger

        def load(connection: Any) -> tuple[list[RunInfo], int]:
            found = connection.runs(states=states or None, text=text, trigger=trigger, limit=wanted)
            return found, connection.now()

        asked = self.filter
        runs, self._now = await self.link.ask(load)
        if asked == self.filter:
            self.table.empty = "" if runs else " no runs" + (" that have that" if self.filter else " yet")
            self.table.put(runs, searched=bool(self.filter))
            self.top.known_runs = [run.id for run in runs]

    def on_line_table_moved(self) -> None:
        if self.table.cursor > len(self.table.rows) - 20 and len(self.table.rows) == self._wanted < RUNS_MAX:
            self._wanted += PAGE
            self.soon()

    def details(self) -> str:
        runs = self.table.rows
        parts = [f"{sum(run.state == state for run in runs)} {state}" for state in RUN_STATES]
        shown = " · ".join(part for part in parts if not part.startswith("0 "))
        more = f" of the newest {len(runs)}" if len(runs) == self._wanted else ""
        return f"{shown}{more}" + (f" · filter: {self.filter}" if self.filter else "")

    def key_of(self, row: RunInfo) -> str:
        return row.id

    def cells(self, row: RunInfo) -> Sequence[Cell]:
        done = row.succeeded + row.failed + row.dead_letter + row.cancelled + row.skipped
        bad = row.failed + row.dead_letter
        state = "paused" if row.paused and not row.finished else row.state
        end = row.finished_at or self._now
        labels = [f"{name}={value}" for name, value in row.labels.items()]
        return (
            (row.id, DIM if row.parent else PLAIN), (printable(row.name), BOLD), state_cell(state),
            (f"{done}/{row.total}", RED if bad else PLAIN), (bar(done, row.total), RED if bad else PLAIN),
            (ago(self._now - row.created_at).removesuffix(" ago"), DIM),
            (duration(end - row.started_at) if row.started_at else "", PLAIN),
            (printable(" ".join([*labels, row.trigger or ""])), DIM),
        )  # fmt: skip

    def more_keys(self) -> list[tuple[str, str]]:
        return [("enter", "open"), ("w", "why")] if self.table.row is not None else []

    async def pressed(self, key: str) -> bool:
        run = self.table.row
        if key == "enter" and run is not None:
            self.top.open_run(run.id)
        elif key == "w" and run is not None:
            self.top.explain(run.id, None)
        else:
            return False
        return True
