"""examples/kubernetes.yaml through the command line, with the fake API server in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    command = [sys.executable, "-m", "tests.executors.kubernetes.serve_fake", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            yield {**os.environ, "KUBECONFIG": server.stdout.readline().strip()}
        finally:
            server.stdin.close()
            server.wait(60)


def weft(environment: dict[str, str], directory: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "weft", *words]
    return subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True)


def test_it_runs(environment: dict[str, str], tmp_path: Path) -> None:
    with weft(environment, tmp_path, "run", str(ROOT / "examples" / "kubernetes.yaml"), "--json") as run:
        out, _ = run.communicate(timeout=120)
    assert run.returncode == 0, out
    assert json.loads(out.splitlines()[-1])["output"] == {"sales": 14}
    with weft(environment, tmp_path, "logs", "last", "count.1") as logs:
        assert logs.communicate(timeout=60)[0] == "counting south on 2026-01-01\n"


def test_interrupted_it_leaves_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    definition = tmp_path / "wait.yaml"
    started = tmp_path / "started"
    command = f"touch {started}; sleep 300"
    definition.write_text(f"tasks: {{wait: {{kubernetes: {{image: busybox}}, run: {json.dumps(command)}}}}}")
    with weft(environment, tmp_path, "run", str(definition)) as run:
        end = time.monotonic() + 60
        while not started.exists():
            assert time.monotonic() < end
            assert run.poll() is None
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
    assert run.returncode != 0
    listing = _jobs(environment["KUBECONFIG"])
    assert listing == []


def _jobs(config: str) -> list[bytes]:
    import asyncio

    from weft.executors.kubernetes.api import Api
    from weft.executors.kubernetes.cluster_config import load_config

    async def look() -> list[bytes]:
        api = Api(load_config({"KUBECONFIG": config}))
        found = [bytes(item) for kind in ("jobs", "pods") for item in (await api.list(kind, "default", {}))[0]]
        api.close()
        return found

    return asyncio.run(look())
