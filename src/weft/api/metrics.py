"""/metrics for Prometheus: the store's figures, what nodes have counted, and what this server does.

`METRICS` is the table of all of them: what is not in it cannot be shown; docs/reference/metrics.md is made from it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from weft import __version__
from weft.api.app_state import AppState
from weft.api.calls import OperationCall, handles
from weft.node.meter import HISTOGRAMS
from weft.operations.errors import ApiError
from weft.operations.reading.figures import Figures
from weft.operations.resources.server import get_metrics


class Known(NamedTuple):
    kind: str
    labels: tuple[str, ...]
    help: str


_NODE = ("node",)
METRICS: dict[str, Known] = {
    "weft_build_info": Known("gauge", ("version",), "Always 1; the version of this server"),
    "weft_runs": Known("gauge", ("state",), "Runs that the store holds, by state"),
    "weft_tasks_open": Known("gauge", ("priority",), "Tasks that have not ended, by the priority of their run"),
    "weft_queue_tasks": Known("gauge", ("state", "priority"), "Tasks that are queued, scheduled or running"),
    "weft_queue_oldest_seconds": Known(
        "gauge", ("state", "priority"),
        "Of the oldest of these: how long it has been ready (queued), overdue (scheduled), or claimed (running)",
    ),
    "weft_dead_letters": Known("gauge", (), "Tasks whose retries are used up"),
    "weft_events": Known("counter", (), "The number of the newest event"),
    "weft_nodes": Known("gauge", ("health",), "Live sessions of nodes, by health"),
    "weft_node_slots": Known("gauge", _NODE, "Attempts that it runs at a time"),
    "weft_node_running": Known("gauge", _NODE, "Attempts that it holds"),
    "weft_leader_term": Known("gauge", (), "The number of the leader's term, or of the last one"),
    "weft_leader": Known("gauge", _NODE, "1 for the node that leads; nothing while nobody does"),
    "weft_lease_expirations": Known("counter", _NODE, "Sessions that others ended: past their lease, or gone"),
    "weft_stale_reports": Known("counter", _NODE, "Reports that came too late, and changed nothing"),
    "weft_claims": Known("counter", _NODE, "Attempts that it claimed"),
    "weft_claim_contention": Known("counter", _NODE, "Commits that met another writer, and waited or began anew"),
    "weft_attempts": Known("counter", ("node", "outcome"), "Attempts that it reported, by how they ended"),
    "weft_retries": Known("counter", _NODE, "Failures that are tried again"),
    "weft_agent_tokens": Known("counter", _NODE, "Tokens that its agents have spent, input, caches and output"),
    "weft_agent_usd": Known("counter", _NODE, "US dollars that its agents have spent, where prices are known"),
    "weft_exchange_seconds": Known("histogram", _NODE, "How long its exchanges with the store took"),
    "weft_exchange_reports": Known("histogram", _NODE, "How many reports an exchange carried"),
    "weft_start_latency_seconds": Known("histogram", _NODE, "From when a task was ready to when its attempt started"),
    "weft_attempt_seconds": Known("histogram", _NODE, "How long attempts lasted"),
    "weft_budget_limit": Known("gauge", ("pool", "unit"), "What the tasks in a pool may spend: usd, tokens"),
    "weft_budget_spent": Known("gauge", ("pool", "unit"), "What the tasks in a pool have spent since it was renewed"),
    "weft_budget_reserved": Known("gauge", ("pool", "unit"), "What running tasks in a pool may still spend"),
    "weft_stream_readers": Known("gauge", (), "Streams that are read from this server"),
    "weft_requests_waiting": Known("gauge", (), "Requests to this server that wait for a thread, or have one"),
}  # fmt: skip


@handles(get_metrics)
def metrics(call: OperationCall) -> Response:
    state = call.state
    if state.figures is None:
        raise ApiError("no_metrics", "this server has no store of its own", "ask the one that has")
    registry = CollectorRegistry()
    registry.register(_Shown(list(shown(state.figures(), state))))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class _Shown:
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def shown(figures: Figures, state: AppState) -> Iterator[Metric]:
    yield _values("weft_build_info", [((__version__,), 1)])
    yield _values("weft_runs", [((state,), count) for state, count in sorted(figures.runs.items())])
    yield _values("weft_tasks_open", [((str(p),), count) for p, count in sorted(figures.open.items())])
    yield _values("weft_queue_tasks", [((q.state, str(q.priority)), q.tasks) for q in figures.queue])
    yield _values("weft_queue_oldest_seconds", [((q.state, str(q.priority)), q.oldest_s) for q in figures.queue])
    yield _values("weft_dead_letters", [((), figures.dead_letters)])
    yield _values("weft_events", [((), figures.events)])
    yield from _of_budgets(figures)
    yield from _of_nodes(figures)
    yield from _counted(figures)
    yield _values("weft_stream_readers", [((), state.hub.readers)])
    yield _values("weft_requests_waiting", [((), state.waiting)])


def _of_budgets(figures: Figures) -> Iterator[Metric]:
    units = [(pool, unit, budget) for pool, budget in sorted(figures.budgets.items()) for unit in ("usd", "tokens")]
    limits = [((pool, unit), getattr(budget, unit)) for pool, unit, budget in units]
    yield _values("weft_budget_limit", [(labels, limit) for labels, limit in limits if limit is not None])
    for what in ("spent", "reserved"):
        samples = [((pool, unit), getattr(budget, f"{unit}_{what}")) for pool, unit, budget in units]
        yield _values(f"weft_budget_{what}", samples)


def _of_nodes(figures: Figures) -> Iterator[Metric]:
    health: dict[str, int] = {}
    slots: dict[str, int] = {}
    running: dict[str, int] = {}
    for node in figures.nodes:
        health[node.health] = health.get(node.health, 0) + 1
        slots[node.node] = slots.get(node.node, 0) + (node.slots or 0)
        running[node.node] = running.get(node.node, 0) + node.running
    yield _values("weft_nodes", [((name,), count) for name, count in sorted(health.items())])
    yield _values("weft_node_slots", [((name,), count) for name, count in sorted(slots.items())])
    yield _values("weft_node_running", [((name,), count) for name, count in sorted(running.items())])
    yield _values("weft_leader_term", [((), figures.leader.term)])
    yield _values("weft_leader", [((figures.leader.node,), 1)] if figures.leader.node is not None else [])
    yield _values("weft_lease_expirations", [((name,), count) for name, count in figures.leases_expired.items()])
    yield _values("weft_stale_reports", [((name,), count) for name, count in figures.stale_reports.items()])


def _counted(figures: Figures) -> Iterator[Metric]:
    """Of sessions of one name, the sum. A session that ends takes its counts along: to a monitor, a restart."""
    nodes = sorted(figures.counted.items())
    for metric, name in (
        ("weft_claims", "claims"),
        ("weft_claim_contention", "contended"),
        ("weft_retries", "retries"),
        ("weft_agent_tokens", "agent_tokens"),
        ("weft_agent_usd", "agent_usd"),
    ):
        yield _values(metric, [((node,), sum(one.get(name, 0) for one in counts)) for node, counts in nodes])
    outcomes: dict[tuple[str, ...], float] = {}
    for node, counts in nodes:
        for one in counts:
            for outcome, count in one.get("outcomes", {}).items():
                outcomes[(node, outcome)] = outcomes.get((node, outcome), 0) + count
    yield _values("weft_attempts", sorted(outcomes.items()))
    for name, bounds in HISTOGRAMS.items():
        yield _histogram(
            f"weft_{name}", bounds, [(node, [one[name] for one in counts if name in one]) for node, counts in nodes]
        )


def _values(name: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    known = METRICS[name]
    family: type[CounterMetricFamily | GaugeMetricFamily]
    family = CounterMetricFamily if known.kind == "counter" else GaugeMetricFamily
    metric = family(name, known.help, labels=known.labels)
    for labels, value in samples:
        metric.add_metric(labels, value)
    return metric


def _histogram(name: str, bounds: tuple[float, ...], nodes: list[tuple[str, list[dict[str, Any]]]]) -> Metric:
    known = METRICS[name]
    metric = HistogramMetricFamily(name, known.help, labels=known.labels)
    edges = [*(f"{bound:g}" for bound in bounds), "+Inf"]
    for node, counts in nodes:
        fitting = [one for one in counts if len(one["counts"]) == len(edges)]  # another version has other bounds
        sums = [sum(one["counts"][at] for one in fitting) for at in range(len(edges))]
        up_to = [sum(sums[: at + 1]) for at in range(len(edges))]
        if fitting:
            metric.add_metric((node,), list(zip(edges, up_to, strict=True)), sum(one["sum"] for one in fitting))
    return metric
