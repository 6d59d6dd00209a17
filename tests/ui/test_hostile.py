"""Names, inputs, outputs, labels and reasons that try to be more than text, and a megabyte without a space."""

import time
from typing import Any

from tests.api.conftest import until
from tests.ui.conftest import Page
from tests.ui.test_in_browser import NASTY

LONG = "x" * (1024 * 1024)
STEERS = "\\033]0;broken\\007\\033[2J\\033[31mred\\033[0m"
HOSTILE: dict[str, Any] = {
    "name": "hostile",
    "on_failure": "continue",
    "description": NASTY,
    "inputs": {
        "text": {"type": "string", "description": NASTY},
        "long": {"type": "string", "default": "y" * 100_000},
    },
    "tasks": {
        "print": f"printf '{STEERS}'; printf %s ${{{{ inputs.text }}}}; head -c 1048576 /dev/zero | tr '\\0' x",
        "fail": "printf %s ${{ inputs.text }} >&2; exit 3",
        "each": {
            "map": [NASTY, LONG[:50_000], "\u202eabc"],
            "run": "test -n ${{ item }}",
            "label": "${{ item }}",
        },
        "ask": {"wait": {"signal": "go"}},
    },
}
FOREIGN = "document.querySelectorAll('main script, main img, main iframe, main b b, [onerror]').length"


def test_it_is_text_everywhere(page: Page) -> None:
    assert page.server.call("PUT", "/v1/workflows/hostile", {"definition": HOSTILE}).status in (200, 201)
    run = page.server.submit(
        HOSTILE, inputs={"text": LONG[:90_000] + NASTY}, labels={"why": NASTY, "long": LONG[:250]}
    )
    other = page.server.submit({**HOSTILE, "tasks": {"a": "false"}}, inputs={"text": NASTY})
    until(lambda: page.server.connection.run(other).finished)
    until(lambda: page.server.connection.run(run).failed)
    places = [
        "#/home", "#/runs", "#/events", "#/nodes", "#/dead", "#/schedules", "#/workflows", "#/workflows/hostile",
        "#/workflows/hostile/start", "#/workflows/hostile/versions", "#/workflows/hostile/definition",
        *(f"#/runs/{run}/{tab}" for tab in ("graph", "table", "timeline", "events")),
        *(f"#/runs/{run}/table?task={task}" for task in ("print", "fail", "each", "each.1", "ask")),
        f"#/compare/{other}/{run}", f"#/runs?text={NASTY}", f"#/runs/{NASTY}", f"#/{NASTY}",
    ]  # fmt: skip
    page.sign_in()
    slow = {}
    for place in places:
        began = time.monotonic()
        page.go(place)
        page.browser.until_idle()
        slow[place[:60]] = round(time.monotonic() - began, 1)
        assert page.eval(FOREIGN) == 0, place
        assert page.eval("document.title") != "broken", place
        assert page.eval("document.documentElement.scrollWidth <= innerWidth"), place
    assert max(slow.values()) < 20, slow
    page.go(f"#/runs/{run}/table?task=fail")
    page.until_text("weft-output", "<img src=x onerror=", "<script>")
    assert page.broken == []


#: Addresses that somebody mistyped, cut off, or kept for too long.
NONSENSE = [
    "#/runs/%E0%A4",
    "#/%",
    "#/runs?cursor=none",
    "#/runs?since=yesterday&state=none",
    "#/runs/nothing/graph?at=-1",
    "#/workflows/nothing",
    "#/workflows/nothing/edit",
    "#/schedules/nothing/at-all",
    "#/schedules?cursor=none",
    "#/compare/one/other",
    "#/correct/nothing",
    "#/dead?cursor=none",
    "#/audit?cursor=none",
    "#/workflows?cursor=none",
    "#/runs/RUN/nothing",
    "#/runs/RUN?task=nothing&open=nothing",
    "#/runs/RUN?at=0",
    "#/runs/RUN/timeline?at=99999999999",
    "#/runs/RUN/table?task=a.17",
    "#/runs/RUN/details?at=nothing",
]
VIEWS = [
    "home",
    "runs",
    "workflows",
    "schedules",
    "dead",
    "nodes",
    "pools",
    "tokens",
    "audit",
    "new",
    "events",
    "compare",
]


def says_something(page: Page, place: str) -> None:
    page.go(place)
    page.browser.until_idle()
    assert len(page.text("main").strip()) > 3, f"{place} is blank"
    assert "is not a function" not in page.text("main")
    assert page.broken == [], place


def test_no_address_leaves_a_blank_page(page: Page) -> None:
    """An empty store, nonsense, and then a server that has gone."""
    page.sign_in()
    for view in VIEWS:
        says_something(page, f"#/{view}")
    run = page.server.submit({"name": "one", "tasks": {"a": "true"}})
    until(lambda: page.server.connection.run(run).finished)
    for place in NONSENSE:
        says_something(page, place.replace("RUN", run))
    page.stop_server()
    page.until_text(".heard", "not heard from the server")
    for view in [
        *VIEWS,
        f"runs/{run}",
        "workflows/one",
        "schedules/one/none",
        "workflows/one/edit",
        f"correct/{run}",
    ]:
        says_something(page, f"#/{view}")
    assert "does not answer" in page.text("main")
