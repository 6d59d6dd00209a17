"""Tasks that services do, on nodes that are killed: real workers, a fake Cloud Run, a service of our own."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import Cluster
from tests.executors.cloud_run.test_example import executions, fake_cloud_run

CLOUD = """\
tasks:
  box:
    replicas: 3
    retry: {{on_lost: {on_lost}}}
    {more}
    cloud_run: {{project: p, region: r, job: j, overrides: {{env: {{FAKE_SECONDS: {seconds}}}}}}}
"""


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[dict[str, str]]:
    with fake_cloud_run(tmp_path) as settings:
        yield settings


def submitted(cluster: Cluster, cloud: dict[str, str], on_lost: str, seconds: float, more: str = "") -> str:
    run_id = cluster.submit(CLOUD.format(on_lost=on_lost, seconds=seconds, more=more))
    cluster.until(lambda: len(executions(cloud)) == 3)
    return run_id


def errors(cluster: Cluster) -> list[str]:
    return [str(error) for (error,) in cluster.query("SELECT error FROM all_attempts")]


def test_executions_of_a_killed_node_are_cancelled_and_run_again(cluster: Cluster, cloud: dict[str, str]) -> None:
    first = cluster.worker("one", **cloud)
    run_id = submitted(cluster, cloud, "true", 600)
    cluster.until(lambda: cluster.connection.task(run_id, "box.0").state == "running")
    first.kill()
    first.wait()
    assert not any(one["over"] for one in executions(cloud).values())  # nobody has ended them
    cluster.worker("two", **cloud)
    cluster.until(lambda: len(executions(cloud)) == 6)
    found = [(one["env"]["WEFT_ATTEMPT"], one["over"]) for one in executions(cloud).values()]
    assert sorted(found) == [("1", True)] * 3 + [("2", False)] * 3
    cluster.call("cancel", run_id)
    cluster.ended(run_id)
    assert all(one["over"] for one in executions(cloud).values())
    assert cluster.outcomes() == {"lost": 3, "cancelled": 3}


def test_executions_of_a_killed_node_are_adopted(cluster: Cluster, cloud: dict[str, str]) -> None:
    first = cluster.worker("one", **cloud)
    run_id = submitted(cluster, cloud, "adopt", 12)
    cluster.until(lambda: cluster.connection.task(run_id, "box.0").state == "running")
    first.kill()
    cluster.worker("two", **cloud)
    cluster.ended(run_id)
    assert cluster.connection.run(run_id).state == "succeeded", cluster.story()
    assert {cluster.connection.task(run_id, f"box.{n}").attempt for n in range(3)} == {2}
    assert len(executions(cloud)) == 3


def test_a_timeout_is_verified(cluster: Cluster, cloud: dict[str, str]) -> None:
    cluster.worker("one", **cloud)
    run_id = submitted(cluster, cloud, "true", 600, "timeout: 3s")
    cluster.ended(run_id)
    assert all(one["over"] for one in executions(cloud).values())
    error = errors(cluster)[0]
    assert error.startswith("timed out after 3 s; its engine says that it is gone"), error


class Service(BaseHTTPRequestHandler):
    """Accepts, and is busy until it is `over`."""

    asked: list[tuple[str, str]]
    over: threading.Event
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.asked.append((self.command, self.headers.get("Idempotency-Key", "")))
        if self.command == "DELETE":
            self.over.set()
        code = 200 if self.command == "GET" and self.over.is_set() else 202
        self.send_response(code)
        self.send_header("Location", "/op")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def service() -> Iterator[tuple[str, Any]]:
    own: Any = type("Own", (Service,), {"asked": [], "over": threading.Event()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), own)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", own
    server.shutdown()
    server.server_close()
    thread.join()


HTTP = "tasks: {{ask: {{http: {{url: {url}, method: POST, poll: {{every: 200ms, cancel: DELETE}}}}}}}}"


def test_a_request_of_a_killed_node_is_sent_again_with_its_key(cluster: Cluster, service: tuple[str, Any]) -> None:
    url, own = service
    first = cluster.worker("one", WEFT_HTTP_ALLOW="127.0.0.1")
    run_id = cluster.submit(HTTP.format(url=url))
    cluster.until(lambda: ("GET", "") in own.asked)
    first.kill()
    cluster.worker("two", WEFT_HTTP_ALLOW="127.0.0.1")
    cluster.until(lambda: [method for method, _ in own.asked].count("POST") == 2)
    assert {key for method, key in own.asked if method == "POST"} == {f"{run_id}/ask"}
    own.over.set()
    cluster.ended(run_id)
    assert cluster.connection.task(run_id, "ask").state == "succeeded", cluster.story()
    assert "DELETE" not in [method for method, _ in own.asked]


def test_a_cancel_is_requested_and_verified(cluster: Cluster, service: tuple[str, Any]) -> None:
    url, own = service
    cluster.worker("one", WEFT_HTTP_ALLOW="127.0.0.0/8")
    run_id = cluster.submit(HTTP.format(url=url))
    cluster.until(lambda: ("GET", "") in own.asked)
    cluster.call("cancel", run_id)
    cluster.ended(run_id)
    assert ("DELETE", "") in own.asked
    assert cluster.connection.task(run_id, "ask").state == "cancelled"
    assert "its engine says that it is gone" in errors(cluster)[0]


def test_a_worker_reaches_nothing_private_unless_it_is_allowed(cluster: Cluster, service: tuple[str, Any]) -> None:
    url, own = service
    cluster.worker("one")
    run_id = cluster.submit(HTTP.format(url=url))
    cluster.ended(run_id)
    error = errors(cluster)[0]
    assert error == "127.0.0.1: not public, so refused unless the node's setting http_allow names it", error
    assert own.asked == []
