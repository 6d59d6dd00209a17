"""Figures for a monitor, read from the store in one moment. Each read is served by an index, or is as small as the
number of nodes: whoever asks every few seconds must not be felt."""

from typing import TYPE_CHECKING, Any

import msgspec

from weft.core.placement.budgets import POOL
from weft.core.rows import BudgetRow
from weft.operations.reading import nodes as node_reading
from weft.operations.reading.budgets import budget_info
from weft.operations.replies import BudgetInfo, LeaderInfo, NodeInfo

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess


class QueueFigures(msgspec.Struct, kw_only=True):
    state: str
    priority: int
    tasks: int
    oldest_s: float  # queued: since it was ready; running: since it was claimed; scheduled: since it was due


class Figures(msgspec.Struct, kw_only=True):
    queue: list[QueueFigures]
    open: dict[int, int]  # by priority: tasks that have not ended
    runs: dict[str, int]
    dead_letters: int
    stale_reports: dict[str, int]  # by node
    leases_expired: dict[str, int]  # by node
    counted: dict[str, list[dict[str, Any]]]  # by node: what each of its live sessions has counted (node/meter.py)
    nodes: list[NodeInfo]
    leader: LeaderInfo
    events: int
    budgets: dict[str, BudgetInfo]  # of pools


def figures(access: "StoreAccess") -> Figures:
    with access.snapshot():
        now = access.now()
        counted: dict[str, list[dict[str, Any]]] = {}
        for node, body in access.read("metrics_counted"):
            found = msgspec.json.decode(body).get("counted")
            if found is not None:
                counted.setdefault(node, []).append(found)
        rows = access.read("budgets_of_pools")
        return Figures(
            queue=[
                QueueFigures(
                    state=state, priority=priority, tasks=tasks,
                    oldest_s=0.0 if since is None else max(0, now - since) / 1000,
                )
                for state, priority, tasks, since in access.read("metrics_queue")
            ],
            open={priority: int(tasks) for priority, tasks in access.read("metrics_open")},
            runs=dict(access.read("count_runs")),
            dead_letters=int(access.read("metrics_dead_letters")[0][0]),
            stale_reports=dict(access.read("metrics_stale")),
            leases_expired=dict(access.read("metrics_expired")),
            counted=counted, nodes=node_reading.nodes(access, False), leader=node_reading.leader(access),
            events=int(access.read("event_last")[0][0]),
            budgets={row[0].removeprefix(POOL): budget_info(BudgetRow(*row)) for row in rows},
        )  # fmt: skip
