"""Every file under examples/ runs, and ends as it says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Weft, environment

EXAMPLES = Path(__file__).parents[2] / "examples"
#: file -> (words after `weft run`, exit code, what its output is; None: it has none)
RUNS: dict[str, tuple[list[str], int, Any]] = {
    "build-and-deploy.json": ([], 0, None),
    "build.yaml": ([], 0, None),
    "cleanup.yaml": ([], 1, None),
    "etl.py:count": ([], 0, {"files": 3, "words": 11, "longest": "b.txt"}),
    "etl.yaml": (["--input", "day=2026-03-01"], 0, {"day": "2026-03-01", "regions": 3, "total": 21.0}),
    "hello.yaml": ([], 0, None),
    "long-form.json": ([], 0, None),
    "nested-region.yaml": (["--input", "region=north"], 0, "north.example.org/1.0"),
    "nested.yaml": ([], 0, [f"{region}.example.org/1.0" for region in ("north", "south", "west")]),
    "release.yaml": (["--input", "channel=stable"], 0, {"version": "1.2.0", "tag": "v1.2.0-stable", "coverage": 91}),
    "report.yaml": ([], 0, {"orders": [120, 80, 210]}),
    "retries.yaml": ([], 0, None),
    "sweep.py:sweep": ([], 0, {"best": {"rate": 0.1, "loss": 0.01}, "tried": 4}),
    "sweep.yaml": ([], 0, {"tried": 20, "best": {"parameter": 3, "loss": 0}}),
    "words.yaml": ([], 0, {"counts": [6, 5, 0, 6], "texts": 4}),
}
#: Those with tests of their own: people answer, levels advance; and what is no workflow.
ELSEWHERE = {
    "agent.yaml": "tests/executors/agent/test_nodes.py",
    "containers.yaml": "tests/executors/container/test_example.py",
    "containers_tasks.py": "tests/executors/container/test_example.py",
    "cloud-run.yaml": "tests/executors/cloud_run/test_example.py",
    "http.yaml": "tests/executors/http_call/test_example.py",
    "approval.yaml": "tests/cli/test_maps_and_waits.py",
    "kubernetes.yaml": "tests/executors/kubernetes/test_example.py",
    "plan.yaml": "tests/cli/test_levels.py",
    "etl_tasks.py": "tests/cli/test_examples.py",
}


def test_none_is_left_out() -> None:
    here = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert here == {name.partition(":")[0] for name in RUNS} | set(ELSEWHERE)
    for name, test in ELSEWHERE.items():
        assert name.partition(".")[0] in (EXAMPLES.parent / test).read_text()


@pytest.mark.parametrize("name", RUNS)
def test_it_runs(weft: Weft, look: Weft, tmp_path: Path, name: str) -> None:
    words, code, output = RUNS[name]
    for path in EXAMPLES.iterdir():  # where they may write beside themselves
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    done = weft("run", name, "--json", *words)
    assert done.code == code, done.err
    assert json.loads(done.out.splitlines()[-1]).get("output") == output
    assert look("verify", "last").code == 0


def test_the_functions_of_etl_are_plain(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['weft'] = None; import etl_tasks as t, asyncio;"
        "found = t.extract('d'); parts = [t.transform(p, 'EUR') for p in found['files']];"
        "t.clean(found['directory']); print(asyncio.run(t.load('d', parts))['total'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=EXAMPLES, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "21.0\n"), done.stderr
