"""A run's history in a real browser: the past of graph, table, timeline and why; the timeline by task and by node."""

from collections.abc import Callable
from typing import Any

from tests.api.conftest import until
from tests.ui.conftest import Page
from tests.ui.test_in_browser import NASTY, SHOWN

FLOW: dict[str, Any] = {
    "name": "flow",
    "on_failure": "continue",
    "tasks": {
        "first": "true",
        "bad": {"needs": ["first"], "run": "exit 3"},
        "part": {"needs": ["first"], "replicas": 6, "run": "true"},
        "ask": {"needs": ["first"], "wait": {"signal": "go"}},
        "last": {"needs": ["ask"], "run": "true"},
    },
}


def waiting(page: Page) -> str:
    run = page.server.submit(FLOW)
    connection = page.server.connection
    until(lambda: connection.task(run, "ask").state == "waiting" and connection.task(run, "bad").state == "failed")
    until(lambda: connection.task(run, "part").state == "succeeded")
    return run


def states_then(page: Page, run: str, seq: int) -> dict[str, str]:
    return {task.name: task.state for task in page.server.connection.run_at(run, seq).tasks if task.idx < 0}


def shown(page: Page, states: dict[str, str]) -> None:
    page.until(
        f"({SHOWN})().then((shown) => Object.entries({states}).every(([name, state]) => shown[name] === state))"
    )


def test_a_run_is_rewound_while_it_goes_on(page: Page) -> None:
    run = waiting(page)
    events = page.server.connection.events(run, limit=1000)
    page.sign_in(place=f"#/runs/{run}?task=last")
    page.until_text(".legend", "1 waiting")
    page.press("[")
    page.until_text(".said", f"event {len(events) - 1} of {len(events)}")
    assert page.eval("location.hash").endswith(f"at={events[-2].seq}")
    for event in reversed(events[:-2]):
        page.press("[")
        page.until(f"location.hash.endsWith('at={event.seq}')")
        page.until(f"document.querySelector('weft-run').model.past.event.seq === {event.seq}")
        shown(page, states_then(page, run, event.seq))
    page.until_text(".said", "submitted", f"event 1 of {len(events)}")
    page.until_text("weft-task", "it waits for ask", "ask is pending")
    assert page.eval("document.querySelectorAll('.actions button').length") == 0

    page.server.connection.signal(run, "go")  # the run goes on meanwhile
    until(lambda: page.server.connection.run(run).finished)
    page.until_text(".said", "since you went back")
    page.press("]")
    page.until(f"location.hash.endsWith('at={events[1].seq}')")
    shown(page, states_then(page, run, events[1].seq))
    page.go(f"#/runs/{run}/table?at={events[0].seq}")
    page.until_text("weft-task-table tbody", "queued")
    assert "succeeded" not in page.text("weft-task-table tbody")
    page.click(".scrubbing a", "Back to now")
    page.until_text(".run-title", "failed")
    page.until_text("weft-task-table tbody", "succeeded")
    page.until("document.querySelector('weft-scrubber[data-past]') === null")
    assert page.broken == []


def test_a_history_is_played_and_dragged(page: Page) -> None:
    run = waiting(page)
    page.server.connection.signal(run, "go")
    until(lambda: page.server.connection.run(run).finished)
    events = page.server.connection.events(run, limit=1000)
    page.sign_in(place=f"#/runs/{run}?at={events[4].seq}")
    page.until_text(".said", f"event 5 of {len(events)}")
    page.until("document.querySelectorAll('.marks i.bad').length > 0")
    page.eval(
        "(() => { const r = document.querySelector('.scrubbing input'); r.value = '2';"
        " r.dispatchEvent(new Event('input')) })()"
    )
    page.until_text(".said", f"event 2 of {len(events)}")
    page.press("p")
    page.until("document.querySelector('[aria-label=Stop]') !== null")
    page.until_text(".said", f"event {len(events)} of {len(events)}")
    page.until("document.querySelector('[aria-label=Play]') !== null")
    page.press("Escape")
    page.until("!location.hash.includes('at=')")
    page.go(f"#/runs/{run}/events")
    page.click("weft-events td a", str(events[3].seq))
    page.until_text(".said", f"event 4 of {len(events)}")
    page.go(f"#/runs/{run}?at=0")
    page.until_text(".toasts", "no event up to 0")
    assert page.broken == []


#: How many colours there are in the part of the timeline with the bars.
COLOURS = """(() => {
  const canvas = document.querySelector("weft-timeline canvas");
  const { data } = canvas.getContext("2d").getImageData(200, 40, 1000, 200);
  return new Set(new Uint32Array(data.buffer)).size;
})()"""


def test_the_timeline_by_task_and_by_node(page: Page) -> None:
    run = waiting(page)
    page.server.connection.signal(run, "go")
    until(lambda: page.server.connection.run(run).finished)
    page.server.connection.resume(run)
    until(lambda: page.server.connection.run(run).generation == 2 and page.server.connection.run(run).finished)
    page.sign_in(place=f"#/runs/{run}/timeline")
    canvas = "document.querySelector('weft-timeline canvas')"
    page.until(f"{canvas}?.getAttribute('aria-label')?.startsWith('Timeline of 5 tasks that have begun.')")
    page.until_text(".timeline-tools", "critical path", "slack", "waits")
    page.until(f"{COLOURS} > 4")
    x, y = page.eval(f"(() => {{ const b = {canvas}.getBoundingClientRect(); return [b.x, b.y] }})()")
    page.browser.click_at(x + 40, y + 34 + 11)
    page.until("location.hash.includes('task=first')")
    page.click(".timeline-tools a", "By node")
    page.until("location.hash.includes('by=node')")
    page.until("!document.querySelector('.timeline-tools').textContent.includes('slack')")
    assert page.broken == []


#: The timeline of a run with ten thousand attempts, as if the server had sent it.
MANY = """(async () => {
  const view = document.querySelector("weft-timeline");
  const of = (make) => Array.from({length: 10000}, (_, n) => make(n));
  const found = await view.app.api.call("get_timeline", {run: view.model.id});
  Object.assign(found, {
    last_event: 1e9, nodes: ["a", "b"], pos: of((n) => n % 2000), idx: of(() => -1), attempt: of(() => 1),
    generation: of(() => 1), node: of((n) => n % 2), ready: of((n) => n), began: of((n) => n + 5),
    ended: of((n) => n + 50), began_event: of(() => 1), ended_event: of(() => 2), states: "s".repeat(10000),
    path: [1], slack: [],
  });
  view.app.api.call = async () => found;
  view.model.dispatchEvent(new Event("change"));
})()"""
#: The median of the time that a frame took, in ms.
FRAME_MS = """(async () => {
  const view = document.querySelector("weft-timeline"), took = [];
  for (let n = 0; n < 20; n++) {
    view.redraw();
    await new Promise(requestAnimationFrame);
    took.push(view.took);
  }
  return took.sort((a, b) => a - b)[10];
})()"""


def test_ten_thousand_attempts_are_drawn_in_time(page_of: Callable[..., Page]) -> None:
    page = page_of(node=False)
    run = page.server.submit({"name": "many", "tasks": {f"t{n}": "true" for n in range(2000)}})
    page.sign_in(place=f"#/runs/{run}/timeline")
    label = "document.querySelector('weft-timeline canvas')?.getAttribute('aria-label')"
    page.until(label)
    page.eval(MANY)
    page.until(f"{label}.startsWith('Timeline of 2000 tasks')")
    for by in ("task", "node"):
        page.go(f"#/runs/{run}/timeline?by={by}")
        page.until(f"document.querySelector('.timeline-tools [aria-current=true]').textContent === 'By {by}'")
        assert page.eval(FRAME_MS) < 50, "3 ms on a quiet machine"


def test_what_ran_where_on_the_page_of_nodes(page: Page) -> None:
    run = page.server.submit({"name": "work", "tasks": {"long": "sleep 60"}})
    connection = page.server.connection
    until(lambda: connection.task(run, "long").started_at)
    page.sign_in(place="#/nodes")
    label = "document.querySelector('weft-gantt canvas')?.getAttribute('aria-label')"
    page.until(f"{label}?.startsWith('1 attempts on 1 nodes in the last 5 min')")
    page.until("document.querySelectorAll('weft-nodes .slots .taken').length === 1")
    page.until_text("weft-nodes thead", "Load", "Memory", "Lease")
    page.until_text("weft-nodes tbody", "left", "leads (term 1)")
    page.click("weft-gantt a", "1 min")
    page.until(f"location.hash.includes('last=60000') && {label}.includes('in the last 1 min')")
    spot = """(() => {
      const canvas = document.querySelector("weft-gantt canvas"), box = canvas.getBoundingClientRect();
      return [box.right - 18, box.top + 30 + 4 + 5];
    })()"""
    page.browser.click_at(*page.eval(spot))
    page.until(f"location.hash === '#/runs/{run}/timeline?task=long'")
    connection.cancel(run, None, "the test is over")
    until(lambda: connection.run(run).finished)
    assert page.broken == []


def test_what_went_into_a_run_and_what_came_out(page: Page) -> None:
    child = {"name": "child", "tasks": {"c": "true"}}
    parent = {
        "name": "parent", "inputs": {"day": {"type": "string"}}, "output": "${{ inputs.day }}",
        "tasks": {"sub": {"workflow": "child"}, "end": {"needs": ["sub"], "run": "echo one"}},
    }  # fmt: skip
    for definition in (child, parent):
        page.server.call("PUT", f"/v1/workflows/{definition['name']}", {"definition": definition})
    run = page.server.submit(parent, inputs={"day": NASTY})
    until(lambda: page.server.connection.run(run).finished)
    page.sign_in(place=f"#/runs/{run}/details")
    page.until_text("weft-run-details", "Inputs", NASTY, "the current one", "Runs that its tasks started: 1")
    page.until_text("weft-run-details tbody", "child", "succeeded", "1/1")
    parent["tasks"] = {**parent["tasks"], "end": {"needs": ["sub"], "run": "echo two"}}  # type: ignore[dict-item]
    page.server.call("PUT", "/v1/workflows/parent", {"definition": parent})
    page.go(f"#/runs/{run}/graph")
    page.go(f"#/runs/{run}/details")
    page.until_text("weft-run-details .diff", "-    run: echo one", "+    run: echo two")
    assert page.eval("document.title") != "broken"
    assert page.broken == []
