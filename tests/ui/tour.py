"""Something to see in every view, and the address of each: what the tests of accessibility and looks go through."""

import re
from typing import Any

from tests.api.conftest import Running, until
from tests.architecture.source import SRC

ETL: dict[str, Any] = {
    "name": "etl",
    "on_failure": "continue",
    "inputs": {
        "day": {"type": "string", "description": "which day's files"},
        "rows": {"type": "integer", "default": 10},
    },
    "triggers": [{"name": "nightly", "cron": "0 2 * * *", "inputs": {"day": "today"}}],
    "tasks": {
        "extract": "printf '\\033[32mfetched\\033[0m %s rows\\n' 1200",
        "shard": {"needs": ["extract"], "replicas": 6, "run": "test $WEFT_INDEX != 4"},
        "check": {"needs": ["extract"], "run": "echo 'no such column: price' >&2; exit 3"},
        "load": {"needs": ["shard"], "run": "echo loaded"},
        "fragile": {"run": "exit 75", "retry": {"max": 1, "backoff": "1ms"}},
        "approve": {"needs": ["extract"], "wait": {"signal": "approve"}},
        "publish": {"needs": ["approve"], "run": "echo published"},
    },
}
NEWER: dict[str, Any] = {**ETL, "tasks": {**ETL["tasks"], "publish": {"needs": ["approve"], "run": "echo out"}}}


class Tour:
    """A store with runs in all states, a schedule, a pool that is held, dead letters and a token."""

    def __init__(self, server: Running) -> None:
        self._server = server
        for definition in (ETL, NEWER):
            assert server.call("PUT", "/v1/workflows/etl", {"definition": definition}).status in (200, 201)
        assert server.call("PUT", "/v1/pools/database", {"size": 2}).status in (200, 201)
        assert server.post("/v1/tokens", {"label": "ci", "role": "viewer", "expires_ms": 86_400_000}).status == 201
        sleeps = {"name": "backup", "tasks": {"copy": {"run": "sleep 600", "pools": ["database"]}}}
        self.backup = server.submit(sleeps, labels={"team": "storage"})
        self.done = server.submit({"name": "hello", "tasks": {"greet": "echo hello"}})
        before = server.submit(ETL, inputs={"day": "2026-11-16", "rows": 5})
        server.connection.cancel(before, None, "superseded by the next day")
        self.run = server.submit(NEWER, inputs={"day": "2026-11-17"})
        until(lambda: server.connection.run(self.done).finished and server.connection.run(before).finished)
        until(lambda: self._settled(server))
        self.before = before

    def _settled(self, server: Running) -> bool:
        tasks, _ = server.connection.tasks(self.run)
        states = {task.name: task.state for task in tasks if task.idx < 0}
        return states["approve"] == "waiting" and states["shard"] == "failed" and states["fragile"] == "dead_letter"

    def end(self) -> None:
        """Nothing runs any more: a node would wait for it."""
        runs = (self.backup, self.run)
        for run in runs:
            self._server.connection.cancel(run, None, "the tour is over", now=True)
        until(lambda: all(self._server.connection.run(run).finished for run in runs))

    def places(self) -> dict[str, str]:
        """The address of each view by a name, in the order of the bar."""
        run = f"#/runs/{self.run}"
        return {
            "home": "#/home", "runs": "#/runs", "runs-none": "#/runs?text=nothing-like-it",
            "run-graph": f"{run}/graph", "run-task": f"{run}/graph?task=check", "run-map": f"{run}/table?task=shard",
            "run-table": f"{run}/table", "run-timeline": f"{run}/timeline", "run-events": f"{run}/events",
            "run-details": f"{run}/details",
            "workflows": "#/workflows", "workflow": "#/workflows/etl", "workflow-start": "#/workflows/etl/start",
            "workflow-versions": "#/workflows/etl/versions", "workflow-edit": "#/workflows/etl/edit", "new": "#/new",
            "correct": f"#/correct/{self.before}", "audit": "#/audit", "schedules": "#/schedules",
            "schedule": "#/schedules/etl/nightly", "compare": f"#/compare/{self.before}/{self.run}",
            "dead": "#/dead", "nodes": "#/nodes", "pools": "#/pools", "tokens": "#/tokens", "events": "#/events",
            "no-such-run": "#/runs/r-nothing", "no-such-view": "#/nothing",
        }  # fmt: skip

    def addresses_missed(self) -> set[str]:
        """Views and tabs of the page that no address here shows."""
        views = set(re.findall(r'name: "(\w+)", title:', (SRC / "ui/shell/views.js").read_text()))
        tabs = set(re.findall(r'^  \["(\w+)", "', (SRC / "ui/views/run.js").read_text(), re.MULTILINE))
        shown = "\n".join(self.places().values())
        return {one for one in views if f"#/{one}" not in shown} | {one for one in tabs if f"/{one}" not in shown}
