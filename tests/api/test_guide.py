"""Every curl of docs/guides/server.md, in its order, against a real server."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.api.conftest import Running, until
from tests.architecture.source import ROOT

LINES = re.findall(r"^\$ (curl .*)$", (ROOT / "docs/guides/server.md").read_text(), re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_what_the_guide_says_works(server: Running) -> None:
    assert len(LINES) > 15
    for line in LINES:
        words = shlex.split(line.replace("http://127.0.0.1:8700", f"http://127.0.0.1:{server.port}"))
        # An older curl has no --json; what it stands for is the same.
        at = words.index("--json") if "--json" in words else None
        if at is not None:
            words[at : at + 2] = ["-H", "Content-Type: application/json", "--data", words[at + 1]]
        if "cancel" in line:
            until(lambda: server.control.run("last").state == "running")
        done = subprocess.run([*words, "--fail-with-body"], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        json.loads(done.stdout)
    assert server.control.run("last").state == "cancelled"


def test_the_description_says_where_it_is(server: Running, tmp_path: Path) -> None:
    assert server.get("/openapi.json").json["openapi"].startswith("3.1")
