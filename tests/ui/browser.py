"""A real browser, where there is Chromium, driven through its debugging pipe (DevTools protocol)."""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
WAIT_S = 60.0


class Browser:
    """One tab."""

    def __init__(self, directory: Path) -> None:
        assert CHROMIUM is not None
        here_in, there_out = os.pipe()
        there_in, here_out = os.pipe()
        theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (there_in, there_out)]

        def hand_over() -> None:
            os.dup2(theirs[0], 3)
            os.dup2(theirs[1], 4)

        flags = (
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--remote-debugging-pipe", f"--user-data-dir={directory}", "about:blank",
        )  # fmt: skip
        self._process = subprocess.Popen(
            [CHROMIUM, *flags], preexec_fn=hand_over, pass_fds=(3, 4), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for fd in (there_in, there_out, *theirs):
            os.close(fd)
        self._in, self._out = here_in, here_out
        self._rest = b""
        self._id = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self._wait_for_tab()
        self._session = self._say("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._say(f"{domain}.enable")

    def _wait_for_tab(self) -> str:
        deadline = time.monotonic() + WAIT_S
        while True:
            for target in self._say("Target.getTargets")["targetInfos"]:
                if target["type"] == "page":
                    return str(target["targetId"])
            assert time.monotonic() < deadline

    def _say(self, method: str, **params: Any) -> dict[str, Any]:
        self._id += 1
        message = {"id": self._id, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                data = os.read(self._in, 65536)
                assert data, "the browser has gone"
                self._rest += data
            text, _, self._rest = self._rest.partition(b"\0")
            shown = json.loads(text)
            if shown.get("id") == self._id:
                assert "error" not in shown, shown
                found: dict[str, Any] = shown["result"]
                return found
            self.events.append(shown)

    def open(self, url: str) -> None:
        self._say("Page.navigate", url=url)

    def eval(self, script: str) -> Any:
        found = self._say("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        deadline = time.monotonic() + WAIT_S
        while True:
            with contextlib.suppress(AssertionError):  # between two pages
                if value := self.eval(script):
                    return value
            html = "document.documentElement.outerHTML"
            assert time.monotonic() < deadline, (script, self.eval(html)[:4000], self.logged)
            time.sleep(0.02)

    def until_idle(self) -> None:
        """Everything that the tab asked for has come, and is drawn."""
        deadline = time.monotonic() + WAIT_S
        quiet = 0
        while quiet < 3:
            self.eval("new Promise(requestAnimationFrame).then(() => new Promise((done) => setTimeout(done)))")
            sent = (one["params"] for one in self.events if one["method"] == "Network.requestWillBeSent")
            began = {
                one["requestId"] for one in sent if not one["request"]["url"].endswith("_worker.js")
            }  # has no end
            ends = ("Network.responseReceived", "Network.loadingFailed")
            ended = {one["params"]["requestId"] for one in self.events if one["method"] in ends}
            quiet = 0 if began - ended else quiet + 1
            assert time.monotonic() < deadline, "requests have no reply"

    def click_at(self, x: float, y: float) -> None:
        """With the pointer, as a person does."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._say("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press_tab(self) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self._say("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)

    def main_thread_s(self) -> float:
        """Processor time that the page's main thread has used: it can be compared beside other load."""
        self._say("Performance.enable", timeDomain="threadTicks")
        metrics = self._say("Performance.getMetrics")["metrics"]
        return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")

    def screenshot(self, path: Path, width: int = 1360, height: int = 820) -> None:
        self._say("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        path.write_bytes(base64.b64decode(self._say("Page.captureScreenshot", format="png")["data"]))

    def memory(self) -> float:
        """What the tab holds after a collection, in MiB: objects, nodes, buffers."""
        for _ in range(2):
            self._say("HeapProfiler.collectGarbage")
        used = self._say("Runtime.getHeapUsage")
        held = used["usedSize"] + used.get("embedderHeapUsedSize", 0) + used.get("backingStorageSize", 0)
        return float(held) / 1024 / 1024

    @property
    def logged(self) -> list[str]:
        """Errors of its console, as of a policy that was broken."""
        return [e["params"]["entry"]["text"] for e in self.events if e["method"] == "Log.entryAdded"]

    @property
    def requested(self) -> list[dict[str, Any]]:
        return [e["params"]["request"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def close(self) -> None:
        with contextlib.suppress(OSError, AssertionError):
            self._session = None
            self._say("Browser.close")
        os.close(self._in)
        os.close(self._out)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
