"""`weft mcp` and `weft serve` as processes of their own, talked to by the SDK's own client over standard input and
output and over HTTP."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.api.conftest import WAIT_S, Running, until
from tests.api.test_serving import Process
from tests.mcp.conftest import MODES, Calls, shown
from tests.mcp.test_roles import READING
from weft.cli.commands import serve as serving
from weft.client.local import StoreConnection
from weft.mcp.server import BY_NAME
from weft.operations.access import StoreAccess
from weft.store.sqlite.driver import SqliteStore

TOKEN = "0123456789abcdef-secret"


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    return {**kept, "PYTHONUTF8": "1", **more}


@asynccontextmanager
async def started(directory: Path, *words: str, mode: str = "auto") -> AsyncIterator[Calls]:
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "weft", "mcp", *words], cwd=str(directory), env=environment()
    )
    with (directory / "stderr").open("w") as log:
        async with Client(stdio_client(parameters, errlog=log), mode=mode) as client:
            yield Calls(client)


def tell(directory: Path, talk: Callable[[Calls], Awaitable[Any]], *words: str, mode: str = "auto") -> None:
    async def whole() -> None:
        async with started(directory, *words, mode=mode) as calls:
            await talk(calls)

    shown(whole())


@pytest.mark.parametrize("mode", MODES)
def test_over_stdio_with_a_node_beside_it(tmp_path: Path, mode: str) -> None:
    async def talk(calls: Calls) -> None:
        assert set(await calls.names()) == set(BY_NAME)
        run = (await calls("submit_task", task="pwd; echo to stderr >&2"))["run"]
        done = await calls("get_task_result", run=run, wait_s=50)
        assert (done["state"], done["stdout"]) == ("succeeded", f"{tmp_path}\n")
        assert (await calls.refused("get_task_result", run="zzzz"))[0] == "not_found"

    tell(tmp_path, talk, "--work", "--slots", "2", mode=mode)
    connection = StoreConnection(StoreAccess(SqliteStore(tmp_path / ".weft" / "weft.db")))
    assert connection.nodes() == [], "its node has left with it"
    connection.close()


def test_over_stdio_for_a_server_elsewhere(tmp_path: Path) -> None:
    """No store here: the tools ask a server, whose nodes work."""
    server = Running(tmp_path / "there")

    async def talk(calls: Calls) -> None:
        run = (await calls("submit_task", task="echo there"))["run"]
        done = await calls("get_task_result", run=run, wait_s=50)
        assert (done["state"], done["stdout"]) == ("succeeded", "there\n")
        assert (await calls.refused("get_task_result", run="zzzz"))[0] == "not_found"

    try:
        tell(tmp_path, talk, "--server", f"http://127.0.0.1:{server.port}")
    finally:
        server.close()
    assert not (tmp_path / ".weft").exists()


def test_over_stdio_without_a_node_it_says_so_and_only_looks_if_told(tmp_path: Path) -> None:
    async def submit(calls: Calls) -> None:
        assert "no node is alive" in (await calls("submit_task", task="true"))["warnings"][0]

    tell(tmp_path, submit)

    async def look(calls: Calls) -> None:
        assert set(await calls.names()) == READING
        assert len((await calls("list_runs"))["runs"]) == 1

    tell(tmp_path, look, "--read-only")


class Talking:
    """The process itself, without the SDK: its pipes and its end."""

    def __init__(self, directory: Path, *words: str) -> None:
        with (directory / "log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "weft", "mcp", "--json", *words], cwd=directory, env=environment(),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self._numbers = 0

    def ask(self, method: str, **params: Any) -> Any:
        self._numbers += 1
        self.say({"jsonrpc": "2.0", "id": self._numbers, "method": method, "params": params})
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == self._numbers, answer
        return answer

    def say(self, value: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, tool: str, **given: Any) -> Any:
        return self.ask("tools/call", name=tool, arguments=given)["result"]["structuredContent"]

    def begin(self) -> "Talking":
        client = {"name": "test", "version": "0"}
        answer = self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        assert answer["result"]["serverInfo"]["name"] == "weft"
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def ended(self) -> int:
        code = self.process.wait(WAIT_S)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == b"", "nothing but the protocol goes to standard output"
        return code


@pytest.fixture
def talking(tmp_path: Path) -> Any:
    made: list[Talking] = []

    def begin(*words: str) -> Talking:
        made.append(Talking(tmp_path, *words))
        return made[-1].begin()

    yield begin
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
        with one.process:  # closes the pipes
            pass


def test_it_ends_with_its_input(talking: Callable[..., Talking]) -> None:
    one = talking()
    assert one.process.stdin is not None
    one.process.stdin.close()
    assert one.ended() == 0


def test_a_signal_ends_it_though_its_input_is_open(talking: Callable[..., Talking]) -> None:
    one = talking()
    one.process.send_signal(signal.SIGTERM)
    assert one.ended() == 0


def test_told_twice_it_kills_what_it_runs_and_hands_it_back(talking: Callable[..., Talking], tmp_path: Path) -> None:
    one = talking("--work", "--drain", "10m")
    run = one.call("submit_task", task="echo $$ > begun; exec sleep 600")["run"]
    until(lambda: (tmp_path / "begun").exists() and (tmp_path / "begun").read_text())
    pid = int((tmp_path / "begun").read_text())
    one.process.send_signal(signal.SIGTERM)
    until(lambda: '"stopping' in (tmp_path / "log").read_text())
    one.process.send_signal(signal.SIGTERM)
    assert one.ended() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    connection = StoreConnection(StoreAccess(SqliteStore(tmp_path / ".weft" / "weft.db")))
    assert connection.task(run, "task").state == "queued"
    connection.close()


def test_lines_that_are_no_messages_hurt_nobody(talking: Callable[..., Talking]) -> None:
    one = talking()
    assert one.process.stdin is not None
    one.process.stdin.write(b"\n{\n\xff\xfe\n[]\nnull\n")
    one.process.stdin.flush()
    assert one.call("list_runs") == {"runs": []}


def test_a_long_line_arrives_whole(talking: Callable[..., Talking]) -> None:
    one = talking()
    tasks = {f"t{number}": {"run": "true", "description": "x" * 200} for number in range(20_000)}
    found = one.call("validate_workflow", definition={"tasks": tasks})
    assert (found["valid"], found["tasks"]) == (True, 20_000)


def over_http(url: str, token: str | None, talk: Callable[[Calls], Awaitable[Any]]) -> None:
    async def whole() -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with (
            create_mcp_http_client(headers=headers) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            await talk(Calls(client))

    shown(whole())


async def run_something(calls: Calls) -> None:
    run = (await calls("submit_task", task="echo hi"))["run"]
    done = await calls("get_task_result", run=run, wait_s=50)
    assert (done["state"], done["stdout"]) == ("succeeded", "hi\n")


def test_weft_serve_has_the_tools_at_mcp(tmp_path: Path) -> None:
    process = Process(tmp_path, WEFT_TOKEN=TOKEN)
    try:
        over_http(f"http://127.0.0.1:{process.port}/mcp", TOKEN, run_something)
        assert process.client.get("/v1/runs").json["runs"][0]["state"] == "succeeded"
        assert process.stop() == 0
        assert TOKEN not in json.dumps(process.said)
    finally:
        process.client.close()
        if process.process.poll() is None:
            process.process.kill()


def test_weft_serve_goes_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(serving._mounted(1)) == ["/mcp"]
    monkeypatch.setattr(serving, "find_spec", lambda name: None)
    assert serving._mounted(1) == {}


def test_weft_mcp_over_http(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "weft", "mcp", "--http", "--port", "0", "--work", "--json"], cwd=tmp_path,
            env=environment(), stderr=log,
        )  # fmt: skip
    try:
        until(lambda: '"ready"' in (tmp_path / "log").read_text())
        ready = next(line for line in map(json.loads, (tmp_path / "log").read_text().splitlines()) if "url" in line)
        assert ready["url"].endswith("/mcp")
        over_http(ready["url"], Path(ready["token"]).read_text().strip(), run_something)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def refused(directory: Path, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "weft", "mcp", *words], cwd=directory, env=environment(**env), capture_output=True,
        text=True, timeout=WAIT_S, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--port", "9000"), "--http"),
        (("--work", "--read-only"), "--read-only"),
        (("--read-only",), "no store"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = refused(tmp_path, *words)
    assert done.returncode in (2, 3)
    assert says in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / ".weft").exists()


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """As if nobody had installed it: a module of that name that cannot be imported."""
    (tmp_path / "mcp.py").write_text("raise ImportError('no', name='mcp')")
    done = refused(tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "install 'weft[mcp]'" in done.stderr
