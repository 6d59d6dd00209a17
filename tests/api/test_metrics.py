"""/metrics: every metric of the table, in a form that Prometheus reads, with figures that are right."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api.conftest import CHAIN, Running, until
from tests.docs.metrics import metrics_reference
from weft.api.access.auth import OneToken
from weft.api.metrics import METRICS
from weft.core.commands import Exchange, ExchangeReply, Report
from weft.node.meter import HISTOGRAMS, Meter

ROOT = Path(__file__).parents[2]
FAILING = {
    "name": "failing", "on_failure": "continue",
    "tasks": {"poor": {"run": "exit 3", "retry": {"max": 1, "backoff": "10ms"}}, "fine": {"run": "true"}},
}  # fmt: skip


def figures(server: Running) -> dict[tuple[str, ...], float]:
    """(name, label values…) -> value"""
    answer = server.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def test_the_page_of_metrics_is_what_the_code_says() -> None:
    assert (ROOT / "docs/reference/metrics.md").read_text() == metrics_reference(), "make docs"


def test_every_metric_of_the_table_is_shown_and_no_other(server: Running) -> None:
    server.ended(server.submit(FAILING))
    text = server.get("/metrics").body.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(families) == set(METRICS)
    for name, known in METRICS.items():
        assert families[name].type == known.kind
        assert families[name].documentation == known.help
        for sample in families[name].samples:
            assert set(sample.labels) - {"le"} == set(known.labels)


def test_figures_of_the_store(quiet: Running) -> None:
    quiet.submit(CHAIN, priority=3)
    quiet.submit(CHAIN)
    found = figures(quiet)
    assert found["weft_runs", "running"] == 2
    assert found["weft_tasks_open", "3"] == 2
    assert found["weft_queue_tasks", "0", "queued"] == 1
    assert found["weft_queue_tasks", "3", "queued"] == 1
    assert found["weft_queue_oldest_seconds", "3", "queued"] >= 0
    assert found["weft_dead_letters",] == 0
    assert found["weft_events_total",] == quiet.connection.last_event()
    assert found["weft_leader_term",] == 0
    assert not [key for key in found if key[0] == "weft_leader"]


def test_what_a_node_counts_arrives(server: Running) -> None:
    run = server.submit(FAILING)
    server.ended(run)
    found = until(lambda: (now := figures(server)).get(("weft_attempts_total", "here", "failed")) == 2 and now)
    assert found["weft_claims_total", "here"] == 3
    assert found["weft_attempts_total", "here", "succeeded"] == 1
    assert found["weft_retries_total", "here"] == 1
    assert found["weft_dead_letters",] == 1
    assert found["weft_attempt_seconds_count", "here"] == 3
    assert found["weft_start_latency_seconds_count", "here"] == 3
    assert 0 < found["weft_start_latency_seconds_sum", "here"] < 60
    assert found["weft_exchange_seconds_count", "here"] >= 3
    assert found["weft_exchange_reports_sum", "here"] == 3
    assert found["weft_node_slots", "here"] == 4
    assert found["weft_nodes", "healthy"] == 1
    assert "counted" not in server.get("/v1/nodes/here").json["resources"]


def test_buckets_add_up_whatever_falls_on_a_bound() -> None:
    meter = Meter()
    for ms in (0, 1, 5, 5, 6, 10**9):
        meter.started(ms, 0.0)
    shown = meter.snapshot()["start_latency_seconds"]
    assert sum(shown["counts"]) == 6
    assert shown["counts"][0] == 2, "at most a millisecond"
    assert shown["counts"][-1] == 1
    assert len(shown["counts"]) == len(HISTOGRAMS["start_latency_seconds"]) + 1
    reports = [Report(1, 0, -1, 1, "succeeded", started_ago_ms=30, ended_ago_ms=10), Report(2, 0, -1, 1, "returned")]
    meter.exchanged(Exchange("s", 1, reports, 0, [], 0), ExchangeReply([], [], [], None, False, retries=2), 0.002)
    shown = meter.snapshot()
    assert shown["outcomes"] == {"succeeded": 1, "returned": 1}
    assert shown["attempt_seconds"]["sum"] == 0.02
    assert shown["retries"] == 2


def test_a_token_is_needed_as_elsewhere(serving: Callable[..., Running]) -> None:
    server = serving(node=False, gate=OneToken("0123456789abcdef"))
    assert server.get("/metrics").status == 401
    assert server.client("0123456789abcdef").get("/metrics").status == 200


def test_nodes_of_another_version_do_not_break_it(quiet: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    read = quiet.connection.figures

    def strange() -> Any:
        found = read()
        found.counted = {"old": [{"claims": 1}, {"exchange_seconds": {"counts": [1, 2], "sum": 3}}]}
        return found

    monkeypatch.setattr(quiet.app.state, "figures", strange)
    found = figures(quiet)
    assert found["weft_claims_total", "old"] == 1
    assert ("weft_exchange_seconds_count", "old") not in found


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed here")
def test_promtool_has_nothing_to_say(server: Running) -> None:
    server.ended(server.submit(FAILING))
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=server.get("/metrics").body, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
