"""The page in a real browser: what people see of their runs, and what they do about them."""

from collections.abc import Callable
from typing import Any

from tests.api.conftest import CHAIN, until
from tests.api.test_graph import Everybody
from tests.ui.conftest import TOKEN, Page
from weft.core.states import TERMINAL

NASTY = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>\u202eevil"
PRINTS = "printf '\\033[31mred\\033[0m <b>bold</b>\\033]0;title\\007 end\\n'; head -c 300000 /dev/zero | tr '\\0' x"
BUILD: dict[str, Any] = {
    "name": "build",
    "on_failure": "continue",
    "tasks": {
        "lint": PRINTS,
        "docs": "exit 3",
        "wheel": {"needs": ["lint"], "run": "echo wheel"},
        "part": {"needs": ["lint"], "replicas": 4, "run": "test $WEFT_INDEX != 2"},
        "approve": {"needs": ["wheel"], "wait": {"signal": "approve"}},
        "publish": {"needs": ["approve"], "run": "echo published"},
    },
}

#: Where a task is on the screen.
PLACE = """(pos) => {
  const graph = document.querySelector("weft-graph"), camera = graph.camera, box = graph.getBoundingClientRect();
  const x = graph.model.graph.column[pos] * 256 + 20, y = graph.model.graph.row[pos] / 4 * 46 + 17;
  return [box.x + (x - camera.x) * camera.scale, box.y + (y - camera.y) * camera.scale];
}"""
#: The states that the page shows, by task.
SHOWN = """async () => {
  const files = document.querySelector("weft-app").api.files;
  const {STATES} = await import(new URL("parts/states.js", files));
  const model = document.querySelector("weft-run").model;
  return Object.fromEntries(model.graph.names.map((name, pos) => [name, STATES[model.states[pos]]]));
}"""


def test_signing_in(page: Page) -> None:
    page.browser.open(page.url)
    page.until("document.querySelector('#token') !== null")
    for token, said in (("wrong", "this token is not known here"), ("no token: ä", "this is not a token")):
        page.eval(
            f"document.querySelector('#token').value = {token!r}; document.querySelector('form button').click()"
        )
        page.until_text("#said", said)
    page.sign_in()
    page.until_text("weft-runs", "No runs yet")
    page.until_text(".heard", "live")
    page.eval("window.before = true; location.reload()")
    page.until("!window.before && document.querySelector('weft-runs') !== null")
    page.click("header button", "Sign out")
    page.until("document.querySelector('#token') !== null && sessionStorage.length === 0")
    assert page.eval("document.cookie") == ""
    sent = [request for request in page.browser.requested if request["url"].startswith("http")]
    assert not any(TOKEN in request["url"] for request in sent)

    code = page.server.post("/v1/sign-ins").json["code"]
    page.browser.open("about:blank")
    page.browser.open(f"{page.url}#/sign-in?code={code}")
    page.until("document.querySelector('weft-runs') !== null && !location.hash.includes('code')")
    assert page.broken == []


def test_runs_come_and_change_by_themselves(page: Page) -> None:
    page.sign_in()
    page.until_text("weft-runs", "No runs yet")
    run = page.server.submit(CHAIN, labels={"why": NASTY})
    page.until_text("weft-runs tbody", run, "succeeded", "2/2", NASTY)
    other = page.server.submit({**CHAIN, "name": "other", "tasks": {"a": "exit 1"}})
    page.until_text("weft-runs tbody", other, "failed", "a: exit code 1")
    page.click(".chip", "failed1")
    page.until(f"location.hash.includes('state=failed') && !document.body.textContent.includes({run!r})")
    page.go("#/runs?name=chain")
    page.until_text("weft-runs tbody", run)
    assert other not in page.text("weft-runs tbody")
    page.press("/")
    assert page.eval("document.activeElement.matches('[data-filter]')")
    page.type("[data-filter]", "nothing like it")
    page.until_text("weft-runs", "No run passes these filters")
    page.go("#/runs")
    page.until(f"document.querySelector('tbody tr')?.textContent.includes({other!r})")
    page.eval("document.activeElement.blur()")
    page.press("j")
    page.press("j")
    page.press("Enter")
    page.until(f"location.hash === '#/runs/{run}'")
    assert page.eval("document.title") != "broken"
    assert page.broken == []


def test_a_run_from_its_graph_to_its_end(page: Page) -> None:
    run = page.server.submit(BUILD)
    page.sign_in(place=f"#/runs/{run}")
    page.until_text(".legend", "1 waiting", "1 pending")
    assert "6 tasks" in str(page.eval("document.querySelector('weft-graph canvas').getAttribute('aria-label')"))

    page.browser.click_at(*page.eval(f"({PLACE})(0)"))
    page.until_text("weft-task", "lint", "it succeeded", "red")
    assert page.text("weft-task .output-text").startswith("x"), "the tail comes first"
    assert "48.0 KiB of 293.0 KiB" in page.text("weft-output")
    while "Earlier" in page.text(".output-tools button"):
        page.click(".output-tools button", "Earlier")
        page.browser.until_idle()
    assert "red <b>bold</b> end" in page.until_text("weft-task .output-text", "red")
    assert page.eval("document.querySelector('.output-text .a-1').textContent") == "red"
    assert page.eval("document.querySelectorAll('.output-text b').length") == 0

    page.go(f"#/runs/{run}/table?task=part")
    page.until_text("weft-task", "Elements: 4", "3", "1")
    page.until("document.querySelectorAll('weft-task .cells a').length === 4")
    page.until_text("weft-task-table tbody", "docs", "approve", "× 4")
    page.go(f"#/runs/{run}/table?task=publish")
    page.until_text("weft-task", "approve")
    page.click("weft-task .why a, weft-task p a", "approve")
    page.click("weft-task button", "Answer")
    page.click("dialog button", "Answer")
    page.until_text(".run-title", "failed", "Run again")
    page.go(f"#/runs/{run}/timeline")
    page.until("document.querySelector('weft-timeline canvas')?.getAttribute('aria-label').includes('Timeline of')")
    page.go(f"#/runs/{run}/events")
    page.until_text("weft-events", "run_finished", "signalled")
    same_as_the_store(page, run)
    assert page.broken == []


def same_as_the_store(page: Page, run: str) -> None:
    tasks, _ = page.server.connection.tasks(run)
    states = {task.name: task.state for task in tasks if task.idx < 0}
    assert set(states.values()) <= TERMINAL
    page.until(
        f"({SHOWN})().then((shown) => Object.entries({states}).every(([name, state]) => shown[name] === state))"
    )


def test_verbs_are_offered_by_role(page_of: Callable[..., Page]) -> None:
    page = page_of(gate=Everybody(), node=False)
    run = page.server.client("operator").post("/v1/runs", {"definition": CHAIN}).json["run"]
    page.sign_in("viewer", f"#/runs/{run}")
    page.until_text(".legend", "queued")
    assert "read only" in page.text(".who")
    assert page.eval("document.querySelectorAll('.actions button').length") == 0
    page.press("k", ctrlKey=True)
    page.until("document.querySelectorAll('.palette li').length > 0")
    assert "cancel run" not in page.text(".palette li")
    page.eval("document.querySelector('dialog').close()")
    page.eval("document.querySelector('weft-app').signOut()")
    page.sign_in("operator", f"#/runs/{run}")
    page.click(".actions button", "Pause")
    page.click("dialog button", "Do it")
    page.until_text(".run-title", "paused", "Unpause")
    page.press("k", ctrlKey=True)
    page.until("document.querySelectorAll('.palette li').length > 0")
    page.type(".palette input", "cancel run")
    page.until("document.querySelector('.palette li').textContent.startsWith('cancel run')")
    page.press("Enter")
    page.until_text("dialog", "reason")
    page.eval(f"[...document.querySelectorAll('dialog input[type=text]')].at(-1).value = {NASTY!r}")
    page.click("dialog button", "Do it")
    page.until_text(".run-head", "cancelled", NASTY)
    page.press("?")
    page.until_text("dialog", "Keys", "this list")
    assert page.eval("document.title") != "broken"
    assert page.server.connection.run(run).state == "cancelled"
    assert page.broken == []


def test_a_server_that_goes_away_and_comes_back(page_of: Callable[..., Page]) -> None:
    page = page_of(node=False)
    run = page.server.submit(CHAIN)
    page.sign_in(place=f"#/runs/{run}")
    page.until_text(".legend", "1 queued", "1 pending")
    port = page.server.port
    page.stop_server()
    page.until_text(".heard", "not heard from the server since")
    again = page_of(port=port)
    until(lambda: again.server.connection.run(run).finished)
    page.until_text(".heard", "live")
    page.until_text(".legend", "2 succeeded")
    page.until_text(".run-title", "succeeded")
    same_as_the_store(again, run)
