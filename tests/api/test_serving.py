"""`weft serve` as a process of its own: it starts, works, drains, and refuses what is not safe."""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import weft
from tests import forked
from tests.api.conftest import WAIT_S, Client, until
from tests.client.test_owner_token import others_may
from weft.api.access.token_gate import FAILURES_MAX
from weft.api.serving import listening

TOKEN = "0123456789abcdef-secret"


class Process:
    """Started with `--port 0`; its first lines say where it listens."""

    def __init__(self, directory: Path, *words: str, token: str | None = None, **env: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "weft", "serve", "--port", "0", "--json", *words], cwd=directory,
            env={**kept, "PYTHONUTF8": "1", **env}, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.said: list[dict[str, Any]] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        until(lambda: self.ready or self.process.poll() is not None)
        assert self.ready, self.said
        self.port = int(self.ready["url"].rpartition(":")[2])
        self.token = token or env.get("WEFT_TOKEN") or Path(self.ready["token"]).read_text().strip()
        self.client = Client(self.port, self.token)
        until(lambda: self.client.get("/readyz").status == 200)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.said.append(json.loads(line) if line.startswith("{") else {"message": line})

    @property
    def ready(self) -> dict[str, Any] | None:
        return next((line for line in self.said if line["message"] == "ready"), None)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        code = self.process.wait(WAIT_S)
        self._listener.join(WAIT_S)
        return code


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(*words: str, **env: str) -> Process:
        started.append(Process(tmp_path, *words, **env))
        return started[-1]

    yield begin
    for one in started:
        one.client.close()
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def test_one_process_serves_leads_and_works(serve: Callable[..., Process]) -> None:
    process = serve("--name", "alone")
    run = process.client.post("/v1/tasks", {"run": "echo $WEFT_RUN_ID; env"}, Idempotency_Key="k").json["run"]
    until(lambda: process.client.get(f"/v1/runs/{run}").json["run"]["state"] == "succeeded")
    printed = process.client.get(f"/v1/runs/{run}/tasks/task/output/stdout").body.decode()
    assert printed.startswith(run)
    leader = until(lambda: (found := process.client.get("/v1/leader").json)["session"] and found)
    assert leader["node"] == "alone"
    assert leader["url"] == f"http://127.0.0.1:{process.port}"
    assert process.stop() == 0
    assert process.said[-1]["message"] == "stopped"


def test_without_slots_it_serves_and_does_not_work(serve: Callable[..., Process], tmp_path: Path) -> None:
    process = serve("--slots", "0")
    run = process.client.post("/v1/tasks", {"run": "true"}).json["run"]
    (node,) = process.client.get("/v1/nodes").json["nodes"]
    assert node["slots"] == 0
    until(lambda: process.client.get("/v1/leader").json["session"])
    assert process.client.get(f"/v1/runs/{run}").json["run"]["state"] == "running"
    assert process.client.get(f"/v1/runs/{run}/tasks/task").json["task"]["state"] == "queued"
    (shown,) = process.client.get(f"/v1/runs/{run}/why").json["explanations"]
    assert shown["summary"] == "no node works"
    (tmp_path / "chain.yaml").write_text("- echo one\n")
    submitted = [sys.executable, "-m", "weft", "submit", "chain.yaml"]
    done = subprocess.run(submitted, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "no live worker" in done.stderr
    assert process.stop() == 0


def test_who_follows_a_run_that_nobody_works_on_is_told_so(serve: Callable[..., Process], tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{serve('--slots', '0').port}"
    (tmp_path / "chain.yaml").write_text("- echo one\n")
    followed = subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "chain.yaml", "--server", url], cwd=tmp_path, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert followed.stderr is not None
        assert "no live worker: start one with `weft worker` on its store" in followed.stderr.readline()
    finally:
        followed.kill()
        followed.communicate()


def test_for_people_only_what_was_set_is_logged_and_mistakes_keep_their_lines(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("name: flow\ntasks:\n  a: {runn: x}\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "serve", "--port", "0", "--slots", "3", "--dir", "."], cwd=tmp_path,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        lines: list[str] = []
        while not lines or "fix: did you mean 'run'?" not in lines[-1]:
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        assert "settings  store=" in lines[0]
        assert "slots=3  port=0" in lines[0]
        assert "gpus" not in lines[0]
        assert any(line.startswith("    flow.yaml:3:7: unknown key 'runn'") for line in lines)
        assert any(line.strip() == "^^^^" or line.strip().endswith("^") for line in lines)
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


def test_sigterm_lets_running_tasks_end_and_answers_requests_under_way(
    serve: Callable[..., Process], tmp_path: Path
) -> None:
    process = serve()
    wait = "echo $$ > begun; while [ ! -e go ]; do sleep 0.01; done"
    run = process.client.post("/v1/tasks", {"run": wait}).json["run"]
    until(lambda: (tmp_path / "begun").exists())
    # A request whose body is still on its way when the signal comes.
    body = json.dumps({"task": "true", "key": "late"}).encode()
    slow = socket.create_connection(("127.0.0.1", process.port))
    head = f"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    head += f"Authorization: Bearer {process.token}\r\n"
    slow.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body[:5])
    until(lambda: process.client.get("/healthz").status == 200)
    process.process.send_signal(signal.SIGTERM)
    until(lambda: any("stopping" in line["message"] for line in process.said))
    slow.sendall(body[5:])
    answer = http.client.HTTPResponse(slow)
    answer.begin()
    assert answer.status == 201
    slow.close()
    (tmp_path / "go").touch()
    assert process.ended() == 0
    again = serve()
    assert again.client.get(f"/v1/runs/{run}").json["run"]["state"] == "succeeded"
    assert again.client.get("/v1/runs?name=task").json["runs"][0]["key"] == "late"


def test_sigterm_ends_streams_with_a_marker(serve: Callable[..., Process]) -> None:
    process = serve()
    connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=WAIT_S)
    connection.request("GET", "/v1/events/stream", headers={"Authorization": f"Bearer {process.token}"})
    answer = connection.getresponse()
    assert answer.readline() == b":\n"
    process.process.send_signal(signal.SIGTERM)
    *_, event, _, data, end = answer.read().decode().split("\n")[-6:-1]
    assert event == "event: end"
    assert json.loads(data.removeprefix("data: "))["reason"] == "stopping"
    assert end == ""
    connection.close()
    assert process.ended() == 0


def test_log_lines_name_run_task_and_attempt(serve: Callable[..., Process]) -> None:
    """Failures always; every attempt where somebody wants to know everything."""
    process = serve("--log-format", "json")
    run = process.client.post("/v1/tasks", {"run": "exit 3"}).json["run"]
    failed = until(lambda: [line for line in process.said if line["message"] == "attempt failed"])[0]
    assert {name: failed[name] for name in ("level", "run", "task", "attempt", "outcome", "exit_code")} == {
        "level": "info", "run": run, "task": "task", "attempt": 1, "outcome": "failed", "exit_code": 3,
    }  # fmt: skip
    assert datetime.fromisoformat(failed["at"]).tzinfo is not None
    assert process.stop() == 0
    assert not [line for line in process.said if line["message"] == "attempt started"]
    loud = serve(WEFT_LOG="debug")
    run = loud.client.post("/v1/tasks", {"run": "true"}).json["run"]
    until(lambda: [line for line in loud.said if line["message"] == "attempt ended"])
    shown = [(line["message"], line["run"], line["attempt"]) for line in loud.said if "attempt" in line["message"]]
    assert shown == [("attempt started", run, 1), ("attempt ended", run, 1)]


def test_a_second_signal_kills_what_runs(serve: Callable[..., Process], tmp_path: Path) -> None:
    process = serve("--drain", "10m")
    process.client.post("/v1/tasks", {"run": "echo $$ > begun; exec sleep 600"})
    until(lambda: (tmp_path / "begun").exists() and (tmp_path / "begun").read_text())
    pid = int((tmp_path / "begun").read_text())
    process.process.send_signal(signal.SIGTERM)
    until(lambda: any("stopping" in line["message"] for line in process.said))
    assert process.stop() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_replies_are_sent_at_once() -> None:
    """Without TCP_NODELAY a body waits 40 ms until the other side has acknowledged its head."""

    async def accepted() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            found.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(connected, sock=listening("127.0.0.1", 0)) as server:
            with socket.create_connection(server.sockets[0].getsockname()):
                return await found

    assert asyncio.run(accepted()) != 0


def test_a_token_is_needed_everywhere_once_it_is_set(serve: Callable[..., Process]) -> None:
    process = serve("--host", "0.0.0.0", WEFT_TOKEN=TOKEN)
    assert process.client.get("/v1/runs").status == 200
    stranger = Client(process.port)
    assert stranger.get("/v1/runs").status == 401
    stranger.close()
    run = process.client.post("/v1/tasks", {"run": "env"}).json["run"]
    until(lambda: process.client.get(f"/v1/runs/{run}").json["run"]["state"] == "succeeded")
    assert TOKEN not in process.client.get(f"/v1/runs/{run}/tasks/task/output/stdout").body.decode()
    assert TOKEN not in json.dumps(process.said)


def _refused(directory: Path, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    return subprocess.run(
        [sys.executable, "-m", "weft", "serve", *words], cwd=directory, env={**kept, **env}, capture_output=True,
        text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip


def _weft(directory: Path, *words: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    done = forked.run(words, directory, {**kept, "PYTHONUTF8": "1"}, timeout=WAIT_S)
    done.check_returncode()
    return done.stdout.decode().strip()


def test_a_token_in_the_store_opens_a_server_for_its_role(serve: Callable[..., Process], tmp_path: Path) -> None:
    token = _weft(tmp_path, "token", "create", "ann", "--role", "operator", "--expires", "1h")
    process = serve("--host", "0.0.0.0", "--slots", "0", token=token)
    assert process.client.get("/v1/runs").status == 200
    assert process.client.get("/v1/tokens").status == 403
    stranger = Client(process.port)
    assert stranger.get("/v1/runs").status == 401
    stranger.close()
    id = token.split("_")[1]
    assert _weft(tmp_path, "token", "revoke", "ann") == f"{id} is revoked"
    until(lambda: process.client.get("/v1/runs").status == 401)
    assert process.stop() == 0
    assert json.loads(_weft(tmp_path, "token", "list", "--json"))["tokens"][0]["state"] == "revoked"
    other = _weft(tmp_path, "token", "create", "bob")
    closed = serve("--slots", "0", token=other)
    stranger = Client(closed.port)
    assert stranger.get("/v1/runs").status == 401
    stranger.close()
    assert closed.client.get("/v1/runs").status == 200
    assert closed.client.post("/v1/tasks", {"run": "true"}).status == 403


def test_loopback_needs_a_token_and_the_owners_tools_find_it(
    serve: Callable[..., Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = serve("--slots", "1")
    url = f"http://127.0.0.1:{process.port}"
    stranger = Client(process.port)
    assert stranger.post("/v1/tasks", {"run": "true"}).code == "unauthorized"
    assert [stranger.get(path).status for path in ("/v1/runs", "/plain", "/metrics")] == [401] * 3
    assert stranger.post("/mcp", {}).status == 401
    stranger.close()
    assert process.ready is not None
    assert process.ready["token"] == str(tmp_path / ".weft" / "token")
    assert process.token not in json.dumps(process.said)
    _weft(tmp_path, "run", "--server", url, "--", "true")
    assert json.loads(_weft(tmp_path, "ls", "--server", url, "--json"))["runs"][0]["state"] == "succeeded"
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_TOKEN", raising=False)
    with weft.Client(url) as client:
        assert client.connection.runs()[0].name == "true"
        submitted, *_ = client.connection.events(None, kinds=["submitted"])
        assert submitted.data["actor"] == "local"
    assert others_may(tmp_path / ".weft") == []
    again = serve("--slots", "0")
    assert again.token == process.token


@pytest.mark.parametrize(("trusted", "guesses"), [((), FAILURES_MAX), (("127.0.0.1",), 3 * FAILURES_MAX)])
def test_forwarded_addresses_count_only_from_a_trusted_proxy(
    serve: Callable[..., Process],
    trusted: tuple[str, ...],
    guesses: int,
) -> None:
    process = serve("--slots", "0", WEFT_TRUSTED_PROXIES=",".join(trusted))
    stranger = http.client.HTTPConnection("127.0.0.1", process.port, timeout=WAIT_S)
    found = []
    for number in range(3 * FAILURES_MAX):
        headers = {"Authorization": "Bearer weft_x_guess", "X-Forwarded-For": f"192.0.2.{number}"}
        stranger.request("GET", "/v1/runs", headers=headers)
        answer = stranger.getresponse()
        answer.read()
        found.append(answer.status)
    stranger.close()
    assert found.count(401) == guesses
    assert found.count(429) == 3 * FAILURES_MAX - guesses


def test_draining_a_servers_node_stops_the_node_only(serve: Callable[..., Process]) -> None:
    process = serve("--name", "here")
    client = process.client
    assert client.post("/v1/nodes/here/drain", {"deadline_ms": 1000, "reason": "a test"}).status == 200
    until(lambda: any("has left; the API goes on" in line["message"] for line in process.said))
    (node,) = client.get("/v1/nodes?ended=true").json["nodes"]
    assert (node["node"], node["health"]) == ("here", "drained")
    assert client.get("/readyz").status == 200
    run = client.post("/v1/tasks", {"run": "true"}).json["run"]
    assert client.get(f"/v1/runs/{run}/tasks/task").json["task"]["state"] == "queued"
    assert process.process.poll() is None
    assert process.stop() == 0


def test_a_short_token_and_a_taken_port_are_refused(tmp_path: Path) -> None:
    assert "at least 16" in _refused(tmp_path, WEFT_TOKEN="short").stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = _refused(tmp_path, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 4
    assert "cannot listen" in done.stderr
    assert _refused(tmp_path, "--port", "70000").returncode == 2


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """As if nobody had installed it: a module of that name that cannot be imported."""
    (tmp_path / "starlette.py").write_text("raise ImportError('no', name='starlette')")
    done = _refused(tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "install 'weft[server]'" in done.stderr
