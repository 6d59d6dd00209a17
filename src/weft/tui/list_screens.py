"""Nodes, dead letters, triggers, pools, and what one node runs: lists of one kind of thing each."""

from collections.abc import Sequence
from typing import Any

from weft.cli.terminal.formats import ago, clock, duration, size
from weft.cli.terminal.terminal import printable
from weft.operations.replies import ClaimInfo, NodeInfo, PoolInfo, TaskInfo, TriggerInfo
from weft.tui.line_table import Column
from weft.tui.link import TopLink
from weft.tui.live_screen import LiveScreen
from weft.tui.looks import BOLD, DIM, PLAIN, YELLOW, Cell, bar, state_cell
from weft.tui.prompts import Words

DEAD_MAX = 1000
RUNS_ASKED = 20  # runs whose state is asked for, to offer no retry that would be refused


class ListScreen(LiveScreen):
    """All rows are asked for, and filtered here."""

    def __init__(self, link: TopLink) -> None:
        super().__init__(link)
        self.now = 0
        self._all: list[Any] = []

    def load(self, connection: Any) -> list[Any]:
        raise NotImplementedError

    def words(self, row: Any) -> str:
        """What a filter looks at."""
        raise NotImplementedError

    async def update(self) -> None:
        self._all, self.now = await self.link.ask(lambda connection: (self.load(connection), connection.now()))
        await self.filtered()

    async def filtered(self) -> None:
        wanted = self.filter.lower().split()
        rows = [row for row in self._all if all(word in self.words(row).lower() for word in wanted)]
        self.table.empty = "" if rows else f" no {self.title_text}"
        self.table.put(rows, searched=bool(self.filter))
        self.draw_frame()

    def details(self) -> str:
        return f"filter: {self.filter}" if self.filter else ""


class NodesScreen(ListScreen):
    title_text = "nodes"
    columns = (
        Column("node", 0), Column("state", 10), Column("slots", 7, 2, right=True), Column("", 10, 6),
        Column("leads", 8, 3), Column("load", 5, 4, right=True), Column("memory free", 11, 7, right=True),
        Column("seen", 8, 5, right=True), Column("labels", 20, 8),
    )  # fmt: skip

    def load(self, connection: Any) -> list[NodeInfo]:
        found: list[NodeInfo] = connection.nodes()
        return found

    def words(self, row: NodeInfo) -> str:
        return f"{row.node} {row.health} {row.session} {' '.join(row.labels)}"

    def key_of(self, row: NodeInfo) -> str:
        return row.session

    def cells(self, row: NodeInfo) -> Sequence[Cell]:
        load, free = row.resources.get("load"), row.resources.get("memory_free")
        labels = ",".join(f"{name}={value}" if value else name for name, value in sorted(row.labels.items()))
        slots = row.slots or 0
        return (
            (printable(row.node), BOLD), state_cell(row.health),
            (f"{row.running}/{'?' if row.slots is None else slots}", PLAIN), (bar(row.running, slots), PLAIN),
            (f"term {row.term}" if row.leader else "", PLAIN), ("" if load is None else f"{load:g}", PLAIN),
            ("" if free is None else size(free), PLAIN),
            ("" if row.seen_at is None else ago(self.now - row.seen_at).removesuffix(" ago"), DIM),
            (printable(labels), DIM),
        )  # fmt: skip

    def more_keys(self) -> list[tuple[str, str]]:
        return [("enter", "what it runs")] if self.table.row is not None else []

    async def pressed(self, key: str) -> bool:
        if key != "enter" or self.table.row is None:
            return False
        self.top.push_screen(NodeScreen(self.link, self.table.row))
        return True


class NodeScreen(ListScreen):
    """The attempts that one node holds."""

    columns = (
        Column("run", 12), Column("task", 0), Column("attempt", 7, 2, right=True),
        Column("runs for", 8, 1, right=True),
    )  # fmt: skip

    def __init__(self, link: TopLink, node: NodeInfo) -> None:
        super().__init__(link)
        self._node = node
        self._what = ""
        self.title_text = f"node {node.node}"

    def load(self, connection: Any) -> list[ClaimInfo]:
        work = connection.node_work(self._node.session)
        ended = ", ".join(f"{count} {name}" for name, count in work.outcomes.items())
        self._what = f"{work.health} · {work.running_count} running · {work.claims} claimed" + f" · {ended}" * bool(
            ended
        )
        found: list[ClaimInfo] = work.running
        return found

    def details(self) -> str:
        return self._what

    def words(self, row: ClaimInfo) -> str:
        return f"{row.run_id} {row.task}"

    def key_of(self, row: ClaimInfo) -> tuple[str, str]:
        return row.run_id, row.task

    def cells(self, row: ClaimInfo) -> Sequence[Cell]:
        began = row.started_at or row.claimed_at
        took = "" if began is None else duration(self.now - began)
        return (row.run_id, PLAIN), (row.task, BOLD), (str(row.attempt), PLAIN), (took, PLAIN)

    def more_keys(self) -> list[tuple[str, str]]:
        return [("enter", "open")] if self.table.row is not None else []

    async def pressed(self, key: str) -> bool:
        if key != "enter" or self.table.row is None:
            return False
        self.top.open_task(self.table.row.run_id, self.table.row.task)
        return True


class DeadScreen(ListScreen):
    title_text = "dead letters"
    _open_runs: frozenset[str] = frozenset()
    columns = (
        Column("run", 12), Column("task", 0), Column("tries", 5, 3, right=True), Column("ended", 8, 4, right=True),
        Column("node", 12, 5), Column("reason", 20, 1, wide=40),
    )  # fmt: skip

    def load(self, connection: Any) -> list[TaskInfo]:
        found: list[TaskInfo] = connection.dead_letters(limit=DEAD_MAX)[0]
        runs = {task.run_id for task in found}
        asked = runs if len(runs) <= RUNS_ASKED else ()
        self._open_runs = frozenset(run for run in asked if not connection.run(run).finished)
        return found

    def subject(self) -> Any:
        """Of a run that goes on no dead letter can be retried."""
        row = self.table.row
        return None if row is None or row.run_id in self._open_runs else row

    def words(self, row: TaskInfo) -> str:
        return f"{row.run_id} {row.title} {row.node or ''} {row.reason or ''}"

    def key_of(self, row: TaskInfo) -> tuple[str, str]:
        return row.run_id, row.name

    def cells(self, row: TaskInfo) -> Sequence[Cell]:
        ended = "" if row.finished_at is None else ago(self.now - row.finished_at).removesuffix(" ago")
        return (
            (row.run_id, PLAIN), (printable(row.title), BOLD), (str(row.attempt), PLAIN), (ended, DIM),
            (printable(row.node or ""), PLAIN), (printable(row.reason or ""), PLAIN),
        )  # fmt: skip

    def more_keys(self) -> list[tuple[str, str]]:
        return [("enter", "open"), ("w", "why"), ("o", "its run")] if self.table.row is not None else []

    async def pressed(self, key: str) -> bool:
        task = self.table.row
        if task is None or key not in ("enter", "w", "o"):
            return False
        if key == "enter":
            self.top.open_task(task.run_id, task.name)
        elif key == "o":
            self.top.open_run(task.run_id)
        else:
            self.top.explain(task.run_id, task.name)
        return True


class TriggersScreen(ListScreen):
    title_text = "triggers"
    columns = (
        Column("trigger", 0), Column("when", 22, 3), Column("state", 8), Column("next", 9, 2, right=True),
        Column("last", 18, 4),
    )  # fmt: skip

    def load(self, connection: Any) -> list[TriggerInfo]:
        found: list[TriggerInfo] = connection.triggers()
        return found

    def words(self, row: TriggerInfo) -> str:
        return f"{row.id} {row.kind} {'paused' if row.paused else ''}"

    def key_of(self, row: TriggerInfo) -> str:
        return row.id

    def cells(self, row: TriggerInfo) -> Sequence[Cell]:
        last = "" if row.last is None else f"{clock(row.last.at)} {row.last.outcome}"
        after = "" if row.next_at is None else f"in {duration(max(0, row.next_at - self.now))}"
        state: Cell = ("‖ paused", YELLOW) if row.paused else ("", PLAIN)
        if row.problem:
            state = ("! broken", YELLOW)
        return (printable(row.id), BOLD), (printable(row.what), PLAIN), state, (after, PLAIN), (last, DIM)

    def more_keys(self) -> list[tuple[str, str]]:
        return [("enter", "its runs")] if self.table.row is not None else []

    async def pressed(self, key: str) -> bool:
        if key != "enter" or self.table.row is None:
            return False
        self.top.open_runs(self.table.row.id)
        return True


class PoolsScreen(ListScreen):
    title_text = "pools"
    columns = (
        Column("pool", 0), Column("used", 9, 1, right=True), Column("", 10, 3), Column("waiting", 7, 2, right=True),
        Column("held by", 30, 4),
    )  # fmt: skip

    def load(self, connection: Any) -> list[PoolInfo]:
        found: list[PoolInfo] = connection.pools()
        return found

    def words(self, row: PoolInfo) -> str:
        return f"{row.name} {' '.join(row.holders)}"

    def key_of(self, row: PoolInfo) -> str:
        return row.name

    def cells(self, row: PoolInfo) -> Sequence[Cell]:
        return (
            (printable(row.name), BOLD), (f"{row.used}/{row.size}", PLAIN), (bar(row.used, row.size), PLAIN),
            (str(row.waiting) if row.waiting else "", YELLOW), (printable(", ".join(row.holders)), DIM),
        )  # fmt: skip

    def more_keys(self) -> list[tuple[str, str]]:
        return [("enter", "who holds it")] if self.table.row is not None else []

    async def pressed(self, key: str) -> bool:
        pool = self.table.row
        if key != "enter" or pool is None:
            return False
        self.top.push_screen(
            Words(f"{pool.name}: {pool.used} of {pool.size} taken", pool.holders or ["nobody holds it"])
        )
        return True
