"""Every curl of docs/guides/server.md, in its order, against a real server."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.api.conftest import Running, until
from tests.architecture.source import ROOT
from weft import config as settings
from weft.api.access.token_gate import Tokens
from weft.cli.parser import make_parser
from weft.core.definition.field_types.text_formats import parse_duration_ms

TOKEN = "0123456789abcdef-secret"
LINES = re.findall(r"^\$ (curl .*)$", (ROOT / "docs/guides/server.md").read_text(), re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_what_the_guide_says_works(serving: Callable[..., Running]) -> None:
    server = serving(gate=Tokens(lambda token: None, TOKEN), token=TOKEN)
    assert len(LINES) > 15
    for line in LINES:
        line = line.replace("http://127.0.0.1:8700", f"http://127.0.0.1:{server.port}")
        words = shlex.split(line.replace("$auth", f"Authorization: Bearer {TOKEN}"))
        # An older curl has no --json; what it stands for is the same.
        at = words.index("--json") if "--json" in words else None
        if at is not None:
            words[at : at + 2] = ["-H", "Content-Type: application/json", "--data", words[at + 1]]
        if "/output/" in line:
            server.ended("last")
        if "cancel" in line:
            until(lambda: server.connection.run("last").state == "running")
        done = subprocess.run([*words, "--fail-with-body"], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        if "/output/" in line:
            assert done.stdout.endswith(b"\r\n999\n" if "-i" in words else b"\n1000\n"), done.stdout[-40:]
        else:
            json.loads(done.stdout)
    assert server.connection.run("last").state == "cancelled"


def test_the_description_says_where_it_is(server: Running, tmp_path: Path) -> None:
    assert server.get("/openapi.json").json["openapi"].startswith("3.1")


DEPLOYMENT = (ROOT / "docs/guides/deployment.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", DEPLOYMENT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = block("ini")
    (command,) = re.findall(r"^ExecStart=/usr/local/bin/(.*)$", unit, re.MULTILINE)
    args = make_parser().parse_args(command.split()[1:])
    (wait_s,) = re.findall(r"^TimeoutStopSec=([0-9]+)$", unit, re.MULTILINE)
    assert parse_duration_ms(args.drain) < int(wait_s) * 1000
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    path = tmp_path / "weft.service"
    path.write_text(unit.replace("/usr/local/bin/weft", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    newer = ("RestartSteps", "RestartMaxDelaySec")  # than systemd 254; older ones say so and go on
    said = [line for line in done.stderr.splitlines() if not any(f"Unknown key '{key}'" in line for key in newer)]
    assert (done.returncode, said) == (0, [])


def test_units_and_examples_restart_always_with_backoff() -> None:
    unit = dict(line.split("=", 1) for line in block("ini").splitlines() if "=" in line)
    assert (unit["Restart"], unit["StartLimitIntervalSec"]) == ("always", "0")
    assert 0 < int(unit["RestartSec"]) < int(unit["RestartMaxDelaySec"])
    assert int(unit["RestartSteps"]) > 1
    assert "--restart=always" in DEPLOYMENT
    assert "restartPolicy: Always" in DEPLOYMENT


def test_the_container_is_given_what_weft_knows() -> None:
    lines = block("dockerfile")
    (command,) = re.findall(r"^CMD (.*)$", lines, re.MULTILINE)
    make_parser().parse_args(json.loads(command)[1:])
    (variables,) = re.findall(r"^ENV (.*)$", lines, re.MULTILINE)
    given = dict(word.split("=") for word in variables.split())
    read = settings.load(given, Path("/"))
    assert (read.host, read.log_format, read.drain) == ("0.0.0.0", "json", 20.0)
    (extras,) = re.findall(r"'/src\[(.*)\]'", lines)
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert set(extras.split(",")) <= set(tomllib.load(file)["project"]["optional-dependencies"])
