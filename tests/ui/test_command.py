"""`weft ui`: a server if none answers, and a link that signs a browser in once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests import forked
from tests.api.conftest import WAIT_S, Client


def test_it_starts_a_server_and_uses_one_that_answers(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    words = ["ui", "--no-open", "--json"]
    server = subprocess.Popen(
        [sys.executable, "-m", "weft", *words, "--port", "0"], cwd=tmp_path, env=kept, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        first = json.loads(server.stdout.readline())
        url, _, code = first["link"].partition("/#/sign-in?code=")
        client = Client(int(url.rpartition(":")[2]))
        token = client.post(f"/v1/sign-ins/{code}").json["token"]
        assert token == (tmp_path / ".weft" / "token").read_text().strip()
        assert client.post(f"/v1/sign-ins/{code}").code == "not_found"
        assert "Weft" in client.get("/").body.decode()

        done = forked.run([*words, "--server", url], tmp_path, kept, None, WAIT_S)
        assert done.returncode == 0, done
        again = json.loads(done.stdout)
        assert (again["url"], again["opened"]) == (f"{url}/", False)
        assert client.post(f"/v1/sign-ins/{again['link'].rpartition('=')[2]}").json["token"] == token
        client.close()
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(WAIT_S) == 0
        server.stdout.close()  # type: ignore[union-attr]


def test_a_run_opens_its_page_with_a_server_beside_it(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    kept |= {"WEFT_PORT": "0"}
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        kept.pop(name, None)
    (tmp_path / "w.yaml").write_text("name: w\ntasks: {a: 'true'}\n")
    run = subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "w.yaml", "--ui"], cwd=tmp_path, env=kept, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert run.stderr is not None
        lines: list[str] = []
        while not any("stays until ^C" in line for line in lines):
            lines.append(run.stderr.readline())
            assert lines[-1], lines
        (link,) = [line.split()[1] for line in lines if line.startswith("open http")]
        url, _, code = link.partition("/#/sign-in?code=")
        code, _, run_id = code.partition("&run=")
        client = Client(int(url.rpartition(":")[2]))
        token = client.post(f"/v1/sign-ins/{code}").json["token"]
        signed_in = Client(int(url.rpartition(":")[2]), token)
        assert signed_in.get(f"/v1/runs/{run_id}").json["run"]["state"] == "succeeded"
        for one in (client, signed_in):
            one.close()
        os.killpg(run.pid, signal.SIGINT)
        assert run.wait(WAIT_S) == 0
    finally:
        run.kill()
        run.wait()
        for stream in (run.stdout, run.stderr):
            stream.close()  # type: ignore[union-attr]
