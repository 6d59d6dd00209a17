"""A server of its own process that is killed in the middle, while a worker goes on: the page catches up."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.conftest import until
from tests.api.test_serving import Process, serve  # noqa: F401 - a fixture
from tests.ui.browser import Browser
from tests.ui.conftest import View
from tests.ui.test_in_browser import SHOWN

#: Each task waits for its file: the test says what happens when.
TASKS = {
    "before": {"run": "until test -e before; do sleep 0.02; done"},
    "during": {"run": "until test -e during; do sleep 0.02; done", "needs": ["before"]},
    "after": {"run": "until test -e after; do sleep 0.02; done", "needs": ["during"]},
}
NUMBERS = (
    "[...document.querySelectorAll('weft-events tbody tr td:first-child')].map((one) => Number(one.textContent))"
)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[None]:
    made = subprocess.Popen([sys.executable, "-m", "weft", "worker"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    yield
    made.terminate()
    made.wait(30)


def test_nothing_is_lost_and_nothing_doubled(
    serve: Callable[..., Process],  # noqa: F811
    worker: None,
    browser: Browser,
    tmp_path: Path,
) -> None:
    first = serve("--slots", "0")
    run = first.client.post("/v1/runs", {"definition": {"name": "long", "tasks": TASKS}}).json["run"]
    view = View(browser, first.port)
    view.sign_in(first.token, f"#/runs/{run}")
    (tmp_path / "before").touch()
    view.until_text(".legend", "1 succeeded", "1 running", "1 pending")
    view.go(f"#/runs/{run}/events")
    view.until_text("weft-events", "assigned")
    first.process.kill()
    first.process.wait()
    view.until_text(".heard", "not heard from the server since")
    (tmp_path / "during").touch()
    store = [sys.executable, "-m", "weft", "tasks", run, "--state", "succeeded"]
    until(lambda: "during" in subprocess.run(store, cwd=tmp_path, capture_output=True, text=True, check=False).stdout)
    assert view.text("weft-events tbody").count("finished") == 1

    second = serve("--slots", "0", "--port", str(first.port))
    view.until_text(".heard", "live")
    (tmp_path / "after").touch()
    view.until_text("weft-events", "run_finished")
    events = second.client.get(f"/v1/runs/{run}/events?limit=1000").json["events"]
    assert view.eval(NUMBERS) == [event["seq"] for event in reversed(events)]
    view.go(f"#/runs/{run}")
    view.until_text(".legend", "3 succeeded")
    assert set(view.eval(f"({SHOWN})()").values()) == {"succeeded"}
