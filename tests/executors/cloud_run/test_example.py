"""examples/cloud-run.yaml through the command line, with the fake service in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).parents[3]


@contextmanager
def fake_cloud_run(directory: Path) -> Iterator[dict[str, str]]:
    """The settings of nodes that use it."""
    command = [sys.executable, "-m", "tests.executors.cloud_run.fake_service", str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            port = server.stdout.readline().strip()
            yield {
                "WEFT_CLOUD_RUN_ENDPOINT": f"http://127.0.0.1:{port}",
                "WEFT_CLOUD_RUN_TOKEN_FILE": str(directory / "token"),
            }
        finally:
            server.stdin.close()
            server.wait(60)


def executions(settings: dict[str, str]) -> dict[str, dict[str, Any]]:
    """By name: the variables that came with the request, and whether it is over."""
    with urlopen(f"{settings['WEFT_CLOUD_RUN_ENDPOINT']}/fake", timeout=20) as answer:
        found: dict[str, dict[str, Any]] = json.load(answer)
    return found


def weft(settings: dict[str, str], directory: Path, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "weft", *words]
    return subprocess.Popen(command, cwd=directory, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True)


def test_it_runs(tmp_path: Path) -> None:
    with fake_cloud_run(tmp_path) as settings:
        words = ["run", str(ROOT / "examples" / "cloud-run.yaml"), "--json", "--input", "project=my-project"]
        with weft(settings, tmp_path, *words) as run:
            out, _ = run.communicate(timeout=120)
        assert run.returncode == 0, out
        assert json.loads(out.splitlines()[-1])["output"] == "loaded"
        found = executions(settings)
    assert sorted(one["env"]["DAY"] for one in found.values()) == ["2026-01-01", "2026-01-02"]


def test_interrupted_it_leaves_nothing(tmp_path: Path) -> None:
    definition = tmp_path / "wait.yaml"
    overrides = "{env: {FAKE_SECONDS: 600}}"
    definition.write_text(
        f"tasks: {{wait: {{cloud_run: {{project: p, region: r, job: j, overrides: {overrides}}}}}}}"
    )
    with fake_cloud_run(tmp_path) as settings:
        with weft({**settings, "WEFT_DRAIN": "0s"}, tmp_path, "run", str(definition)) as run:
            end = time.monotonic() + 60
            while not executions(settings):
                assert time.monotonic() < end
                assert run.poll() is None
                time.sleep(0.05)
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=60)
        assert run.returncode != 0
        assert [one["over"] for one in executions(settings).values()] == [True]
