"""`weft serve --grpc` as a process of its own, on both databases."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from tests import forked
from tests.api.conftest import until
from tests.api.test_serving import Process
from tests.architecture.source import ROOT
from tests.grpc_api.conftest import WAIT_S, RpcClient
from tests.postgres_server import emptied
from weft.api.serving import listening
from weft.grpc_api import weft_pb2 as m

TOKEN = "0123456789abcdef-secret"
Begin = Callable[..., tuple[Process, RpcClient]]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    started: list[tuple[Process, RpcClient]] = []

    def make(*words: str, **env: str) -> tuple[Process, RpcClient]:
        process = Process(tmp_path, "--grpc", "0", *words, WEFT_TOKEN=TOKEN, **env)
        assert process.ready is not None
        started.append((process, RpcClient(process.ready["grpc"], TOKEN)))
        return started[-1]

    yield make
    for process, client in started:
        client.close()
        process.client.close()
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_run_survives_its_server(begin: Begin, kind: str) -> None:
    """A stream is cut by kill -9 of the server; another server on the same store goes on where it stopped."""
    env = {} if kind == "sqlite" else {"WEFT_STORE": emptied()}
    process, client = begin("--slots", "2", **env)
    spec = m.TaskSpec(name="a", command="echo begun; sleep 60", timeout_ms=50)
    spec.retry_policy.max_retries = 0
    failing = client("SubmitTask", m.SubmitTaskRequest(spec=spec))
    list(client("StreamWorkflowEvents", m.StreamWorkflowEventsRequest(run=failing.run)))
    status = client("GetWorkflowStatus", m.GetWorkflowStatusRequest(run=failing.run))
    assert (status.state, status.task_statuses[0].state) == ("failed", "failed")

    waits = m.SubmitWorkflowRequest(definition=json.dumps([{"wait": {"signal": "go"}}, "echo done"]))
    run = client("SubmitWorkflow", waits, idempotency_key="k").run
    stream = client("StreamWorkflowEvents", m.StreamWorkflowEventsRequest(run=run))
    first = next(stream)
    assert first.kind == "submitted"
    process.process.kill()
    with pytest.raises(grpc.RpcError) as cut:
        list(stream)
    assert cut.value.code().name == "UNAVAILABLE"

    process, client = begin("--slots", "2", **env)
    again = client("SubmitWorkflow", waits, idempotency_key="k")
    assert (again.run, again.existing) == (run, True)
    client("SignalWorkflow", m.SignalWorkflowRequest(run=run, name="go"))
    rest = list(client("StreamWorkflowEvents", m.StreamWorkflowEventsRequest(run=run, after=first.seq)))
    assert rest[-1].kind == "run_finished"
    assert [one.seq for one in rest] == sorted({one.seq for one in rest} - {first.seq})
    last = client("GetWorkflowStatus", m.GetWorkflowStatusRequest(run=run)).task_statuses[-1].name
    parts = client("StreamOutput", m.StreamOutputRequest(run=run, task=last))
    assert b"".join(part.data for part in parts) == b"done\n"
    assert process.stop() == 0


def test_the_server_stops_with_streams_open(begin: Begin) -> None:
    process, client = begin("--slots", "0")
    stream = client("StreamEvents", m.StreamEventsRequest(after=0))
    next(stream)
    with pytest.raises(grpc.RpcError):
        client.stub.ListNodes(m.ListNodesRequest(), timeout=WAIT_S, compression=grpc.Compression.Gzip)
    process.process.send_signal(signal.SIGTERM)
    with pytest.raises(grpc.RpcError) as ended:
        list(stream)
    assert ended.value.code().name == "UNAVAILABLE"
    assert process.ended() == 0
    wrong = [line for line in process.said if line.get("level") != "info"]
    assert not wrong, f"a client can write into the log: {wrong}"


def test_a_second_signal_ends_it_at_once(begin: Begin) -> None:
    process, client = begin("--slots", "1")
    run = client("SubmitTask", m.SubmitTaskRequest(spec=m.TaskSpec(name="a", command="echo begun; sleep 60"))).run
    assert next(client("StreamOutput", m.StreamOutputRequest(run=run, task="a"))).data == b"begun\n"
    process.process.send_signal(signal.SIGTERM)
    until(lambda: any(line["message"].startswith("stopping") for line in process.said))
    process.process.send_signal(signal.SIGTERM)
    assert process.ended() == 0


def test_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    taken = listening("127.0.0.1", 0)
    taken.listen()
    port = str(taken.getsockname()[1])
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    found = forked.run(["serve", "--port", "0", "--grpc", port], tmp_path, env)
    taken.close()
    assert found.returncode == 4
    assert f"cannot listen on 127.0.0.1:{port}: address already in use" in found.stderr.decode().lower()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['grpc'] = None; from weft.cli.main import main;"
        " sys.exit(main(['serve', '--port', '0', '--grpc']))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 2
    assert "weft[grpc]" in found.stderr


def test_the_guides_client_works(begin: Begin, tmp_path: Path) -> None:
    (block,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs/guides/grpc.md").read_text(), re.DOTALL | re.MULTILINE
    )
    process, _ = begin("--slots", "1")
    assert process.ready is not None
    env = {**os.environ, "WEFT_TOKEN": TOKEN, "WEFT_GRPC_ADDRESS": process.ready["grpc"]}
    found = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    lines = found.stdout.splitlines()
    assert lines[0].endswith("submitted "), found.stderr
    assert lines[-4:] == ["1", "2", "3", "succeeded [('extract', 'succeeded'), ('load', 'succeeded')]"]
