"""The demo tells the truth, from an installed package and without a terminal; then its page is there until ^C."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.api.conftest import WAIT_S, Client


def test_the_demo_and_its_page(tmp_path: Path) -> None:
    without = ("WEFT_", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    demo = subprocess.Popen(
        [sys.executable, "-m", "weft", "demo", "--json", "--ui"], cwd=tmp_path, env=kept, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    lines: list[str] = []
    try:
        assert demo.stderr is not None
        while not any(line.startswith("open http") for line in lines):
            lines.append(demo.stderr.readline())
            assert lines[-1], lines
        url, _, code = lines[-1].split()[1].partition("/#/sign-in?code=")
        port = int(url.rpartition(":")[2])
        client = Client(port)
        signed_in = Client(port, client.post(f"/v1/sign-ins/{code}").json["token"])
        assert [run["state"] for run in signed_in.get("/v1/runs").json["runs"]] == ["succeeded"]
        for one in (client, signed_in):
            one.close()
        os.killpg(demo.pid, signal.SIGINT)
        out, rest = demo.communicate(timeout=WAIT_S)
    finally:
        demo.kill()
        demo.wait()
    told = "".join(lines)
    assert demo.returncode == 0, told + rest
    assert "Traceback" not in told + rest
    facts = json.loads(out)
    assert "── kill -9 " in told
    assert facts["left_running"] == 0
    assert facts["were_running"] >= 1
    assert facts["kept"]
    assert len(facts["executed_once"]) + len(facts["executed_twice"]) == 12
    assert len(facts["executed_twice"]) == facts["were_running"]
    assert not set(facts["finished_before"]) & set(facts["executed_twice"])
    assert facts["took_s"] < 20
