"""Workflows, schedules, home, comparing runs, dead letters, pools and tokens in a real browser."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.conftest import Running, until
from tests.api.test_graph import Everybody
from tests.ui.conftest import Page
from tests.ui.test_in_browser import NASTY
from weft.operations.replies import RunInfo
from weft.operations.table import OPERATIONS

LOAD: dict[str, Any] = {
    "name": "load",
    "inputs": {
        "day": {"type": "string", "description": NASTY},
        "rows": {"type": "integer", "default": 10},
        "mode": {"type": "string", "enum": ["full", "delta"], "default": "delta"},
        "only": {"type": "array", "required": False},
    },
    "triggers": [{"name": "nightly", "cron": "0 2 1 1 *", "inputs": {"day": "today"}}],
    "tasks": {
        "extract": "echo ${{ inputs.day }}",
        "check": {"needs": ["extract"], "run": "test ${{ inputs.rows }} -lt 50"},
        "store": {"needs": ["check"], "run": "true"},
    },
}
OTHER: dict[str, Any] = {**LOAD, "tasks": {**LOAD["tasks"], "store": {"needs": ["check"], "run": "echo stored"}}}


def applied(server: Running) -> list[str]:
    """The hashes of both versions."""
    answers = [server.call("PUT", "/v1/workflows/load", {"definition": one}) for one in (LOAD, OTHER)]
    return [answer.json["hash"] for answer in answers]


def ended(page: Page, run: str) -> RunInfo:
    """Without a request: a server ends a connection on which nothing came while the browser was busy."""
    until(lambda: page.server.connection.run(run).finished)
    return page.server.connection.run(run)


def test_the_graph_of_a_workflow(quiet: Running) -> None:
    old, new = applied(quiet)
    graph = quiet.get("/v1/workflows/load/graph").json
    assert (graph["names"], graph["edges"], graph["workflow"]) == (["extract", "check", "store"], [0, 1, 1, 2], new)
    run = quiet.submit(OTHER, inputs={"day": "d"})
    assert quiet.get(f"/v1/runs/{run}/graph").json == {**graph, "run": run}
    assert quiet.get(f"/v1/workflows/load/graph?version={old[:8]}").json["workflow"] == old
    assert quiet.get("/v1/workflows/load/graph?version=abcdef").code == "not_found"
    assert quiet.get("/v1/workflows/none/graph").code == "not_found"


def test_a_workflow_from_its_list_to_a_run(page: Page) -> None:
    old, new = applied(page.server)
    page.sign_in(place="#/workflows")
    page.click("weft-workflows a", "load")
    page.until_text("weft-workflow", "no runs yet")
    page.until("document.querySelector('weft-graph canvas')?.getAttribute('aria-label') === 'Graph of 3 tasks.'")
    page.go("#/workflows/load?task=store")
    page.until_text(".task-definition", "echo stored")
    page.click("weft-workflow .tabs a", "Versions")
    shown = page.until_text("weft-versions", "current", old[:12], new[:12], "+    run: echo stored")
    assert "-    run: 'true'" in shown
    page.click("weft-versions td a", old[:12])
    page.until_text("weft-versions .section", "It is the first version.")

    page.go("#/workflows/load/start")
    page.until_text("weft-start", NASTY)
    page.eval("document.querySelector('weft-start textarea').value = '[1'")
    page.click("weft-start button", "Start a run")
    page.until_text("weft-start [role=alert]", "only is not JSON")
    page.eval("document.querySelector('weft-start textarea').value = ''")
    page.eval(f"document.querySelector('weft-start input').value = {NASTY!r}")
    page.click("weft-start button", "Start a run")
    page.until("document.querySelector('weft-run') !== null")
    run = page.eval("location.hash.split('/')[2]")
    inputs = ended(page, run).inputs
    assert (inputs["day"], inputs["rows"], inputs["mode"]) == (NASTY, 10, "delta")

    page.go("#/workflows")
    page.until("document.querySelector('weft-workflows .strip')?.getAttribute('aria-label').includes('1 succeeded')")
    page.until_text("weft-workflows tbody", "100 %")
    assert page.eval("document.title") != "broken"
    assert page.broken == []


def test_a_trigger_is_paused_and_fired(page: Page) -> None:
    applied(page.server)
    page.sign_in(place="#/schedules")
    page.until_text("weft-schedules tbody", "load/nightly", "0 2 1 1 *", "never")
    page.click("weft-schedules button", "Pause")
    page.until_text("weft-schedules tbody", "paused")
    page.click("weft-schedules button", "Resume")
    page.click("weft-schedules button", "Pause")
    page.until_text("weft-schedules tbody", "paused")
    page.click("weft-schedules a", "load/nightly")
    page.until_text("weft-schedule", "paused", "It has never fired.")
    page.click("weft-schedule button", "Fire now")
    page.until_text("weft-schedule tbody", "started", "by hand", "1 started")
    page.click("weft-schedule button", "Resume")
    page.until_text("weft-schedule", "to come", "T02:00:00")
    assert page.broken == []


def test_home_and_two_runs_compared(page: Page) -> None:
    wait = {"name": "release", "tasks": {"approve": {"wait": {"signal": "go"}}}}
    bad = page.server.submit(LOAD, inputs={"day": NASTY, "rows": 70})
    ended(page, bad)
    good = page.server.submit(OTHER, inputs={"day": "d"})
    ended(page, good)
    waits = page.server.submit(wait)
    page.sign_in(place="#/home")
    page.until_text("weft-home", "check: exit code 1", "1 since", "waits for the signal", "3 runs submitted")
    page.click("weft-home button", "I have seen them")
    page.until_text("weft-home", "Nothing failed.")
    page.click("weft-home button", "Answer")
    page.click("dialog button", "Answer")
    page.until_text("weft-home", "Nothing waits for a person.")
    assert ended(page, waits).state == "succeeded"

    page.go("#/runs?name=load")
    page.until("document.querySelectorAll('weft-runs tbody input').length === 2")
    page.eval("document.querySelectorAll('weft-runs tbody input').forEach((one) => one.click())")
    page.click("weft-selection a", "Compare")
    shown = page.until_text(
        "weft-compare", "<script>document.title='broken'</script>", "70", "+    run: echo stored", "store changed"
    )
    assert page.eval("location.hash") == f"#/compare/{bad}/{good}"
    assert "store changedcancelledsucceeded" in shown
    page.go(f"#/runs/{good}")
    page.click(".actions a", "Compare")
    page.until(f"location.hash === '#/compare/{bad}/{good}'")
    assert page.eval("document.title") != "broken"
    assert page.broken == []


@pytest.mark.skipif(
    not any(operation.name == "change_runs" for operation in OPERATIONS), reason="there is no operation change_runs"
)
def test_runs_are_changed_together(page_of: Callable[..., Page]) -> None:
    page = page_of(node=False)
    runs = [page.server.submit(LOAD, inputs={"day": NASTY}) for _ in range(3)]
    page.server.connection.cancel(runs[0], None, "before")
    page.sign_in(place="#/runs")
    for state, many in (("paused", 1), ("cancelled", 3)):
        page.until("document.querySelectorAll('weft-runs tbody input').length === 3")
        if state == "paused":
            page.eval("[0, 2].forEach((nth) => document.querySelectorAll('weft-runs tbody input')[nth].click())")
            page.until_text("weft-selection", "2 selected")
            page.click("weft-selection button", "Pause")
            page.until_text("dialog", "Pause 1 run:", "Left as it is:", "it is cancelled already")
        else:
            page.go("#/runs?name=load")
            page.until_text("weft-selection", "All that the filters find:")
            page.click("weft-selection button", "Cancel")
            page.until_text("dialog", "Cancel 2 runs:")
            page.eval(f"document.querySelector('dialog input').value = {NASTY!r}")
        page.click("dialog button", "Do it")
        page.until(f"document.querySelectorAll('weft-runs tbody .state-{state}.state').length === {many}")
    assert {page.server.connection.run(run).state for run in runs} == {"cancelled"}
    assert page.server.connection.run(runs[1]).reason == NASTY
    assert page.eval("document.title") != "broken"
    assert page.broken == []


def test_dead_letters_and_pools(page: Page) -> None:
    page.server.call("PUT", "/v1/pools/db", {"size": 1})
    failing = {"run": "exit 3", "retry": {"max": 1, "backoff": "1ms"}}
    run = page.server.submit({"name": "fragile", "tasks": {"a": failing}})
    ended(page, run)
    holds = page.server.submit({"name": "holds", "tasks": {"w": {"run": "sleep 600", "pools": ["db"]}}})
    page.sign_in(place="#/pools")
    page.until_text("weft-pools", "1/1", f"{holds}/w")
    page.click("weft-pools button", "Resize")
    page.eval("document.querySelector('dialog input').value = '3'")
    page.click("dialog button", "Do it")
    page.until_text("weft-pools", "1/3")
    page.go("#/dead")
    page.until_text("weft-dead tbody", run, "exit code 3")
    page.eval("document.querySelector('weft-dead tbody input').click()")
    page.click("weft-dead button", "Retry the 1 selected")
    until(lambda: page.server.connection.run(run).generation == 2)
    page.server.connection.cancel(holds, None, "the test is over")
    ended(page, holds)
    assert page.broken == []


def test_tokens_are_for_admins(page_of: Callable[..., Page]) -> None:
    page = page_of(gate=Everybody(), node=False)
    page.sign_in("operator", "#/nodes")
    page.until_text("weft-nodes .tabs", "Pools")
    assert "Tokens" not in page.text("weft-nodes .tabs")
    page.eval("document.querySelector('weft-app').signOut()")
    page.sign_in("admin", "#/tokens")
    page.click("weft-tokens button", "New token")
    page.eval(f"document.querySelector('dialog input').value = {NASTY!r}")
    page.eval("document.querySelector('dialog input[type=number]').value = ''")
    page.click("dialog button", "Make it")
    page.until_text("dialog", "This is the only time that it is shown.")
    token = page.eval("document.querySelector('dialog input').value")
    assert token.startswith("weft_")
    page.click("dialog button", "I have it")
    page.until_text("weft-tokens tbody", NASTY, "viewer", "valid", "never")
    assert token not in page.eval("document.documentElement.outerHTML")
    page.click("weft-tokens button", "Revoke")
    page.click("dialog button", "Do it")
    page.until_text("weft-tokens tbody", "revoked")
    assert page.eval("document.title") != "broken"
    assert page.broken == []
