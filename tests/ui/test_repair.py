"""Backfills, corrected definitions, reruns from a task, answers to waits, and runs over time, in a real browser."""

from collections.abc import Callable

from tests.api.conftest import until
from tests.api.test_graph import Everybody
from tests.ui.conftest import Page
from tests.ui.test_in_browser import NASTY
from tests.ui.test_views import ended

TIMED = {"name": "timed", "triggers": [{"name": "hourly", "cron": "0 * * * *"}], "tasks": {"a": "true"}}
BROKEN = {
    "name": "broken",
    "inputs": {"day": {"type": "string", "default": "monday"}},
    "tasks": {
        "first": "true",
        "bad": {"needs": ["first"], "run": "exit 3"},
        "last": {"needs": ["bad"], "run": "true"},
    },
}


def test_a_backfill_from_its_preview_to_its_runs(page: Page) -> None:
    page.server.call("PUT", "/v1/workflows/timed", {"definition": TIMED})
    page.sign_in(place="#/schedules/timed/hourly")
    page.until("document.querySelector('weft-backfills form') !== null")
    at = "new Date(Date.now() - new Date().getTimezoneOffset() * 60000 - 3 * 3600000).toISOString().slice(0, 16)"
    page.eval(f"document.querySelector('weft-backfills input').value = {at}")
    page.click("weft-backfills button", "Preview")
    page.until_text("weft-backfills", "3 times, 0 of them have a run: 3 runs would start.")
    assert page.server.get("/v1/runs").json["runs"] == []
    page.click("weft-backfills button", "Start 3 runs")
    page.until_text("weft-backfills tbody", "complete", "3/3")
    page.click("weft-backfills button", "Preview")
    page.until_text("weft-backfills", "3 of them have a run: 0 runs would start.")
    assert len(page.server.get("/v1/runs").json["runs"]) == 3
    assert page.broken == []


def test_a_run_goes_on_with_a_corrected_definition(page: Page) -> None:
    run = page.server.submit(BROKEN)
    ended(page, run)
    page.sign_in(place=f"#/runs/{run}")
    page.click(".actions a", "Resume with changes")
    page.until_text(".code-said", "valid")
    text = page.eval("document.querySelector('.code-area').value")
    page.type(".code-area", text.replace("exit 3", "exit 0"))
    page.until("document.querySelector('.edit-tools button.main:not([disabled])') !== null")
    page.click("weft-correct button", "What would run again?")
    page.until_text("weft-correct", "2 run again, 1 keep their results", "changed")
    assert page.server.connection.run(run).generation == 1
    page.click("weft-correct button", "Go on with it")
    page.until("document.querySelector('weft-run') !== null")
    until(lambda: page.server.connection.run(run).state == "succeeded")
    assert page.server.connection.run(run).generation == 2

    page.go(f"#/runs/{run}/table?task=last")
    page.click("weft-task button", "Run again from here")
    page.until_text("dialog", "1 run: last", "2 are taken over")
    page.eval(f"document.querySelector('dialog input').value = {NASTY!r}")
    page.click("dialog button", "Start a run")
    page.until(f"location.hash.startsWith('#/runs/') && !location.hash.includes('{run}')")
    again = ended(page, page.eval("location.hash.split('/')[2].split('?')[0]"))
    assert (again.inputs, again.state) == ({"day": NASTY}, "succeeded")
    assert page.eval("document.title") != "broken"
    assert page.broken == []


def test_a_wait_is_answered_by_a_form_of_its_data(page: Page) -> None:
    wait = {"signal": "go", "timeout": "1h", "default": {"by": "nobody", "count": 3, "sure": False}}
    definition = {"name": "asks", "tasks": {"w": {"wait": wait}, "v": {"wait": {"signal": "no"}}}}
    run = page.server.submit(definition)
    page.sign_in(place=f"#/runs/{run}/table?task=w")
    page.click("weft-task button", "Answer")
    page.until_text("dialog", "by", "count", "sure")
    page.eval(f"document.querySelector('dialog input').value = {NASTY!r}")
    page.eval("document.querySelector('dialog select').value = 'true'")
    page.click("dialog button", "Answer")
    until(lambda: page.server.connection.task(run, "w").state == "succeeded")
    found = str(page.server.connection.attempts(run, "w")[-1].result)
    assert "'count': 3" in found
    assert "'sure': True" in found
    page.go(f"#/runs/{run}/table?task=v")
    page.until_text("weft-task h2", "v")
    page.click("weft-task button", "Answer")
    page.click("dialog button", "Reject")
    page.until_text("dialog [role=alert]", "say why")
    page.eval("document.querySelector('dialog input').value = 'not today'")
    page.click("dialog button", "Reject")
    assert ended(page, run).state == "failed"
    assert page.broken == []


def test_runs_over_time_and_filters(page: Page) -> None:
    for day in ("monday", "tuesday"):
        ended(page, page.server.submit(BROKEN, inputs={"day": day}, labels={"team": "data"}))
    ended(page, page.server.submit(TIMED))
    page.sign_in(place="#/runs")
    page.until("document.querySelectorAll('.run-chart a').length > 0")
    said = page.eval("[...document.querySelectorAll('.run-chart a')].map((a) => a.getAttribute('aria-label')).join()")
    assert "2 failed" in said
    assert "1 succeeded" in said
    page.eval("document.querySelector('.run-chart a').click()")
    page.until("location.hash.includes('since=') && document.querySelectorAll('weft-runs tbody tr').length === 3")
    page.go("#/runs")
    page.until("document.querySelector('.more-filters') !== null && !location.hash.includes('since')")
    page.eval(
        "(() => { const f = document.querySelector('.more-filters form'); f.elements.input.value = 'day=tuesday';"
        " f.elements.label.value = 'team=data'; f.requestSubmit(); })()"
    )
    page.until("document.querySelectorAll('weft-runs tbody tr').length === 1")
    page.until_text(".filters", "input: day=tuesday", "label: team=data")
    now = page.server.connection.now()
    counted = page.server.get(f"/v1/runs:counts?since={now - 3_600_000}&until={now + 1000}&name=broken").json
    assert sum(sum(one["states"].values()) for one in counted["buckets"]) == 2
    assert page.server.get("/v1/runs:counts?since=5&until=4").code == "invalid"
    assert page.broken == []


def test_who_did_what(page_of: Callable[..., Page]) -> None:
    page = page_of(gate=Everybody(), node=False)
    operator = page.server.client("operator")
    run = operator.post("/v1/runs", {"definition": BROKEN}).json["run"]
    operator.post(f"/v1/runs/{run}/cancel", {"reason": NASTY})
    admin = page.server.client("admin")
    admin("PUT", "/v1/pools/db", {"size": 3})
    assert operator.get("/v1/audit").code == "forbidden"
    newest = admin.get("/v1/audit?limit=1").json
    assert (newest["events"][0]["data"]["actor"], len(newest["events"])) == ("admin's", 1)
    rest = admin.get(f"/v1/audit?cursor={newest['next']}").json
    assert {one["data"]["actor"] for one in rest["events"]} == {"operator's"}
    assert rest["next"] is None
    page.sign_in("admin", "#/audit")
    page.until_text("weft-audit tbody", "operator's", "admin's", run)
    page.click("weft-audit tbody a", "admin's")
    page.until_text("weft-audit .filters", "by admin's")
    page.until("document.querySelectorAll('weft-audit tbody tr').length === 1")
    assert page.eval("document.title") != "broken"
    assert page.broken == []
