"""`make screenshots`: the pictures of the README, docs/images/*.png, from a real server in a real browser."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.api.conftest import Running, until
from tests.ui.browser import CHROMIUM, Browser
from tests.ui.conftest import TOKEN, View
from weft.api.access.auth import OneToken

IMAGES = Path(__file__).parents[2] / "docs" / "images"
BYTES_MAX = 150 * 1024
SIZE = (1600, 780)
TRAIN = (
    "#!/bin/sh\nfor n in 1 2 3 4 5 6; do "
    "printf 'epoch %d  loss \\033[36m0.%d\\033[0m  accuracy \\033[32m0.%d\\033[0m\\n' "
    "$n $((62 - 7 * n)) $((71 + 4 * n)); sleep 0.3; done; echo 'checkpoint saved'; sleep 600"
)
PIPELINE: dict[str, Any] = {
    "name": "nightly-forecast",
    "inputs": {"day": {"type": "string"}, "region": {"type": "string", "default": "eu"}},
    "on_failure": "continue",
    "tasks": {
        "orders": "sleep 0.9",
        "customers": "sleep 0.5",
        "clicks": "sleep 1.4",
        "validate": {"needs": ["orders", "customers"], "run": "sleep 0.4"},
        "sessions": {"needs": ["clicks"], "replicas": 12, "run": "sleep 0.2"},
        "returns": {"needs": ["orders"], "run": "sleep 0.6; echo 'no such column: reason' >&2; exit 3"},
        "features": {"needs": ["validate", "sessions"], "run": "sleep 0.8"},
        "aggregate": {"needs": ["validate"], "run": "sleep 1.1"},
        "returns-report": {"needs": ["returns"], "run": "true"},
        "train": {"needs": ["features"], "run": "./train --epochs 6 --region ${{ inputs.region }}"},
        "baseline": {"needs": ["features"], "run": "sleep 0.7"},
        "dashboards": {"needs": ["aggregate"], "run": "sleep 0.5"},
        "evaluate": {"needs": ["train", "baseline"], "run": "true"},
        "approve": {"needs": ["aggregate"], "wait": {"signal": "approve"}},
        "publish": {"needs": ["evaluate", "approve"], "run": "true"},
    },
}


def main() -> int:
    if CHROMIUM is None:
        print("there is no Chromium here: no pictures were made")
        return 1
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        server = Running(Path(place) / "server", gate=OneToken(TOKEN), token=TOKEN)
        browser = Browser(Path(place) / "browser")
        try:
            take(server, View(browser, server.port))
        finally:
            browser.close()
            server.close()
    return 0


def take(server: Running, view: View) -> None:
    (server.directory / "train").write_text(TRAIN)
    (server.directory / "train").chmod(0o755)
    run = server.submit(PIPELINE, inputs={"day": "2026-11-17"})
    until(lambda: "checkpoint" in server.get(f"/v1/runs/{run}/tasks/train/output/stdout").body.decode())
    view.sign_in(place=f"#/runs/{run}/graph?task=train")
    view.until_text("weft-output", "checkpoint saved")
    picture(view, "light", "run-graph.png")
    view.go(f"#/runs/{run}/timeline")
    view.until("document.querySelector('weft-timeline canvas') !== null && !document.querySelector('weft-task')")
    picture(view, "dark", "run-timeline.png")
    server.connection.cancel(run, None, "the pictures are taken")
    until(lambda: server.connection.run(run).finished)


def picture(view: View, theme: str, name: str) -> None:
    view.eval(f"document.documentElement.dataset.theme = {theme!r}; dispatchEvent(new Event('theme'))")
    view.browser.screenshot(IMAGES / name, *SIZE)  # the first only sets the size
    view.eval("document.querySelector('weft-graph')?.fit()")
    view.browser.until_idle()
    view.browser.screenshot(IMAGES / name, *SIZE)
    size = (IMAGES / name).stat().st_size
    print(f"docs/images/{name}: {size // 1024} KiB")
    assert size <= BYTES_MAX, f"docs/images/{name} has {size} bytes, more than {BYTES_MAX}"


if __name__ == "__main__":
    sys.exit(main())
