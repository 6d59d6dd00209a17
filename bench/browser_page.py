"""`make bench-ui`: the page with 10,000 tasks and 20,000 edges in a real browser, with nothing else on the machine.

Prints the layout's processor time; then, measured in the page: the first picture after the data, frames a second and
what each costs the main thread while the picture is moved and zoomed, and while 1,000 tasks a second change.
"""

import random
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.api.conftest import Running
from tests.ui.browser import CHROMIUM, Browser

from weft.api.access.auth import OneToken
from weft.core.graph import levels_of, successors_of
from weft.operations.graph.layout import layout

TOKEN = "a-token-of-some-length"
LEVELS, WIDTH = 100, 100
#: What is measured: name, what is done once, what is done before each frame, ms.
SCENES: Final[tuple[tuple[str, str, str, int], ...]] = (
    ("pan, strips", "graph.fit()", "camera.pan(n % 60 < 30 ? 4 : -4, 1)", 2000),
    ("zoom, strips to names", "graph.fit()", "camera.zoom(1.015)", 3000),
    (
        "pan, 4,000 boxes",
        "graph.fit(); camera.zoom(0.14 / camera.scale)",
        "camera.pan(n % 60 < 30 ? 6 : -6, 1)",
        2000,
    ),
    ("pan, boxes", "camera.scale = 0.2", "camera.pan(n % 60 < 30 ? 6 : -6, 1)", 2000),
    ("pan, names", "camera.scale = 0.8", "camera.pan(n % 60 < 30 ? 8 : -8, 1)", 2000),
    ("pan while 1,000 tasks a second change", "graph.fit(); change()", "camera.pan(n % 60 < 30 ? 4 : -4, 1)", 5000),
)
FRAMES = """(async () => {
  const graph = document.querySelector("weft-graph"), camera = graph.camera, model = graph.model;
  let seq = 1e12, pos = 0, timer = 0;
  const event = (kind, data) => ({seq: ++seq, at: Date.now(), kind, task: `t${pos}`, data, run_id: model.id});
  const change = () => timer = setInterval(() => {
    const events = [];
    for (let one = 0; one < 50; one++) {
      pos = (pos + 7) % 10000;
      events.push(event("assigned", {attempt: 1}), event("finished", {state: "succeeded"}));
    }
    model.apply(events);
  }, 50);
  BEGIN;
  const begin = performance.now();
  let n = 0;
  for (; performance.now() - begin < MS; n++) {
    MOVE;
    graph.redraw();
    await new Promise(requestAnimationFrame);
  }
  clearInterval(timer);
  return [n, performance.now() - begin];
})()"""


def needs_of() -> list[list[int]]:
    chosen = random.Random(1)
    found: list[list[int]] = [[] for _ in range(WIDTH)]
    for level in range(1, LEVELS):
        for at in range(WIDTH):
            near = {min(WIDTH - 1, max(0, at + chosen.randrange(-6, 7))) for _ in range(3)}
            found.append(sorted((level - 1) * WIDTH + one for one in sorted(near)[:2]))
    return found


def large() -> dict[str, Any]:
    """A definition of so many tasks."""
    needs = enumerate(needs_of())
    tasks = {f"t{pos}": {"run": "true", "needs": [f"t{one}" for one in needed]} for pos, needed in needs}
    return {"name": "large", "tasks": tasks}


def main() -> None:
    needs = needs_of()
    began = time.process_time()
    layout(needs, levels_of(needs, successors_of(needs)))
    print(f"layout, {len(needs):,} tasks, {sum(map(len, needs)):,} edges: {time.process_time() - began:.2f} s")
    if CHROMIUM is None:
        print("there is no Chromium here: the page was not measured")
        return
    with tempfile.TemporaryDirectory() as place:
        server = Running(Path(place) / "server", node=False, gate=OneToken(TOKEN), token=TOKEN)
        browser = Browser(Path(place) / "browser")
        try:
            run = server.submit(large())
            measure(browser, f"http://127.0.0.1:{server.port}/", run)
        finally:
            browser.close()
            server.close()


def measure(browser: Browser, url: str, run: str) -> None:
    browser.open(url)
    browser.until("document.querySelector('#token') !== null")
    browser.eval(f"document.querySelector('#token').value = {TOKEN!r}; document.querySelector('form button').click()")
    browser.until("document.querySelector('weft-runs tbody tr') !== null")
    browser.eval(f"location.hash = '#/runs/{run}'; 0")
    browser.until("document.querySelector('weft-graph')?.drawn > 0")
    data = "performance.getEntriesByType('resource').filter((one) => /graph$|states/.test(one.name.split('?')[0]))"
    first = browser.eval(
        f"document.querySelector('weft-graph').firstDrawn - Math.max(...{data}.map((one) => one.responseEnd))"
    )
    print(f"first picture after the data: {first:.0f} ms")
    for name, begin, move, ms in SCENES:
        before = browser.main_thread_s()
        script = FRAMES.replace("BEGIN", begin).replace("MOVE", move).replace("MS", str(ms))
        frames, took = browser.eval(script)
        each = (browser.main_thread_s() - before) / frames * 1000
        print(
            f"{name}: {frames * 1000 / took:.0f} frames/s, {each:.1f} ms of the main thread's processor time a frame"
        )


if __name__ == "__main__":
    main()
