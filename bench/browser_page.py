"""`make bench-ui`: the page with 10,000 tasks and 20,000 edges in a real browser, with nothing else on the machine.

Prints the layout's processor time; then, measured in the page: the first picture after the data, frames a second
while the picture is moved and zoomed, and while 1,000 tasks a second change.
"""

import json
import random
import tempfile
import time
from pathlib import Path

from tests.api.conftest import Running
from tests.ui.browser import CHROMIUM, Browser

from weft.api.access.auth import OneToken
from weft.core.graph import levels_of, successors_of
from weft.operations.graph.layout import layout

TOKEN = "a-token-of-some-length"
LEVELS, WIDTH = 100, 100
MEASURE = """(async () => {
  const graph = document.querySelector("weft-graph"), camera = graph.camera, out = {};
  const frames = async (name, ms, move) => {
    const took = [], begin = performance.now();
    while (performance.now() - begin < ms) {
      move(took.length);
      graph.redraw();
      await new Promise(requestAnimationFrame);
      took.push(graph.took);
    }
    const fps = Math.round(took.length * 1000 / (performance.now() - begin));
    took.sort((a, b) => a - b);
    out[name] = {fps, draw_p95_ms: took[Math.floor(took.length * 0.95)]};
  };
  const to_and_fro = (step) => (n) => camera.pan(n % 60 < 30 ? step : -step, 1);
  graph.fit();
  await frames("pan, strips", 2000, to_and_fro(4));
  graph.fit();
  await frames("zoom, strips to names", 3000, () => camera.zoom(1.015));
  camera.scale = 0.2;
  await frames("pan, boxes", 2000, to_and_fro(6));
  camera.scale = 0.8;
  await frames("pan, names", 2000, to_and_fro(8));
  const model = graph.model;
  let seq = 1e12, pos = 0;
  const event = (kind, data) => ({seq: ++seq, at: Date.now(), kind, task: `t${pos}`, data, run_id: model.id});
  const timer = setInterval(() => {
    const events = [];
    for (let one = 0; one < 50; one++) {
      pos = (pos + 7) % 10000;
      events.push(event("assigned", {attempt: 1}), event("finished", {state: "succeeded"}));
    }
    model.apply(events);
  }, 50);
  graph.fit();
  await frames("pan while 1,000 tasks a second change", 5000, to_and_fro(4));
  clearInterval(timer);
  return JSON.stringify(out);
})()"""


def needs_of() -> list[list[int]]:
    chosen = random.Random(1)
    found: list[list[int]] = [[] for _ in range(WIDTH)]
    for level in range(1, LEVELS):
        for at in range(WIDTH):
            near = {min(WIDTH - 1, max(0, at + chosen.randrange(-6, 7))) for _ in range(3)}
            found.append(sorted((level - 1) * WIDTH + one for one in sorted(near)[:2]))
    return found


def main() -> None:
    needs = needs_of()
    began = time.process_time()
    layout(needs, levels_of(needs, successors_of(needs)))
    print(f"layout, {len(needs):,} tasks, {sum(map(len, needs)):,} edges: {time.process_time() - began:.2f} s")
    if CHROMIUM is None:
        print("there is no Chromium here: the page was not measured")
        return
    tasks = {f"t{pos}": {"run": "true", "needs": [f"t{one}" for one in needed]} for pos, needed in enumerate(needs)}
    with tempfile.TemporaryDirectory() as place:
        server = Running(Path(place) / "server", node=False, gate=OneToken(TOKEN), token=TOKEN)
        browser = Browser(Path(place) / "browser")
        try:
            run = server.submit({"name": "large", "tasks": tasks})
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
    for name, found in json.loads(browser.eval(MEASURE)).items():
        print(f"{name}: {found['fps']} frames/s, drawing p95 {found['draw_p95_ms']:.1f} ms")


if __name__ == "__main__":
    main()
