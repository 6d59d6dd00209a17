"""What ran where in the last minutes or hours, on all nodes and of all runs: from the newest events backwards."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from weft.core.history.batches import expanded
from weft.core.rows import WHOLE
from weft.core.states import TERMINAL
from weft.operations.graph.reading import LETTERS
from weft.operations.reading.nodes import RUNNING_SHOWN

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

ROWS: Final = 1000
EVENTS_MAX: Final = 100_000  # looked at
SPANS_MAX: Final = 10_000
_ENDS: Final = ("finished", "lost", "returned")
_MARKED: Final = ("leader_elected", "node_joined", "node_left", "node_dead", "drain_started")


class ClusterMark(msgspec.Struct, kw_only=True):
    """What happened to a node, or who was elected to lead."""

    at: int
    kind: str
    node: str | None
    term: int | None


class ClusterTimeline(msgspec.Struct, kw_only=True):
    """Lists are by span: an attempt that runs, or that ended since. Times are ms since 1970."""

    now: int
    since: int  # nothing that ended after this is missing; later than asked for if there was more than is shown
    nodes: list[str]
    runs: list[str]
    node: list[int]  # places in `nodes`
    run: list[int]  # places in `runs`
    task: list[str]
    attempt: list[int]
    began: list[int]
    ended: list[int]  # 0: it runs
    states: str  # a letter for each
    marks: list[ClusterMark]


class _Spans:
    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.runs: dict[str, int] = {}
        self.rows: list[tuple[int, int, str, int, int, int, str]] = []

    def add(
        self, node: str, run: str, task: str, attempt: int, began: int, ended: int, state: str
    ) -> None:  # fmt: skip
        place = self.nodes.setdefault(node, len(self.nodes))
        self.rows.append((
            place, self.runs.setdefault(run, len(self.runs)), task, attempt, began, ended, LETTERS[state],  # type: ignore[index]
        ))  # fmt: skip


def cluster_timeline(access: "StoreAccess", since_ms: int) -> ClusterTimeline:
    now = access.now()
    spans = _Spans()
    for session, node in [(row[0], row[1]) for row in access.read("sessions_all", False)]:
        spans.nodes.setdefault(node, len(spans.nodes))
        for run, workflow, pos, idx, attempt, claimed, started in access.read(
            "tasks_of_session", session, RUNNING_SHOWN
        ):
            began = started or claimed
            if began is not None:
                spans.add(node, run, access.workflow(workflow).tasks[pos].called(idx), attempt, began, 0, "running")
    since, marks = _ended(access, spans, now - since_ms)
    columns = list(zip(*sorted(spans.rows, key=lambda row: row[4]), strict=True)) or [()] * 7
    node_of, run_of, task, attempts, began_at, ended_at, letters = columns
    return ClusterTimeline(
        now=now, since=since, nodes=list(spans.nodes), runs=list(spans.runs), node=list(node_of), run=list(run_of),
        task=list(task), attempt=list(attempts), began=list(began_at), ended=list(ended_at), states="".join(letters),
        marks=marks[::-1],
    )  # fmt: skip


def _ended(access: "StoreAccess", spans: _Spans, since: int) -> tuple[int, list[ClusterMark]]:
    """(since when nothing is missing, marks from the newest on)."""
    before, looked = 2**62, 0
    marks: list[ClusterMark] = []
    while True:
        rows = access.read("events_before", before, ROWS)
        for seq, at, pos, idx, kind, many, text, node, run, workflow in rows:
            before, looked = seq, looked + many
            if at < since:
                return since, marks
            if kind in _MARKED:
                data = msgspec.json.decode(text)
                marks.append(ClusterMark(at=at, kind=kind, node=node, term=data.get("term")))
            elif kind in _ENDS and run is not None and node is not None:
                _add(access, spans, (seq, at, pos, idx, kind, many, text), node, run, workflow)
            if len(spans.rows) >= SPANS_MAX or looked >= EVENTS_MAX:
                return at, marks
        if len(rows) < ROWS:
            return since, marks


def _add(access: "StoreAccess", spans: _Spans, row: Any, node: str, run: str, workflow: str) -> None:
    tasks, at = access.workflow(workflow).tasks, row[1]
    for _, pos, idx, data in expanded(row):
        began, state = data.get("started_at"), data.get("end", data.get("state"))
        if pos is not None and began is not None:
            name = tasks[pos].called(WHOLE if idx is None else idx)
            looks = state if state in TERMINAL else "failed" if row[4] == "finished" else "cancelled"
            spans.add(node, run, name, data.get("attempt", 0), began, at, str(looks))
