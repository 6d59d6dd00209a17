"""Replies that get lost, servers that come and go, and things that are no Weft server."""

import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.conftest import Running
from tests.client.test_reading import CHAIN
from weft.authoring.load import load_value
from weft.client.remote import ServerConnection
from weft.core.commands import Submit
from weft.operations.errors import ServerFailed, ServerSilent
from weft.operations.submission import submission


class Lossy:
    """Passes requests on and counts them; swallows the first `lost` replies to writes and hangs up instead."""

    def __init__(self, port: int, lost: int) -> None:
        self._port, self.lost = port, lost
        self.writes = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", self._port)) as far:
            while request := near.recv(1 << 20):
                while b"\r\n\r\n" not in request or len(request.split(b"\r\n\r\n", 1)[1]) < _length(request):
                    request += near.recv(1 << 20)
                far.sendall(request)
                reply = far.recv(1 << 20)
                while b"\r\n\r\n" not in reply or len(reply.split(b"\r\n\r\n", 1)[1]) < _length(reply):
                    reply += far.recv(1 << 20)
                if request.startswith(b"POST"):
                    self.writes += 1
                    if self.writes <= self.lost:
                        return
                near.sendall(reply)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def _length(message: bytes) -> int:
    for line in message.split(b"\r\n\r\n", 1)[0].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def command(directory: Path) -> Submit:
    return submission(load_value(CHAIN, "chain"), "{}", source=str(directory))


@pytest.fixture
def lossy(tmp_path: Path) -> Iterator[Callable[[int], tuple[Running, Lossy, ServerConnection]]]:
    made: list[tuple[Running, Lossy, ServerConnection]] = []

    def make(lost: int) -> tuple[Running, Lossy, ServerConnection]:
        server = Running(tmp_path / f"server{len(made)}", node=False)
        between = Lossy(server.port, lost)
        made.append((server, between, ServerConnection(f"http://127.0.0.1:{between.port}")))
        return made[-1]

    yield make
    for server, between, connection in made:
        connection.close()
        between.close()
        server.close()


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_write_whose_reply_was_lost_is_applied_once(
    lossy: Callable[[int], tuple[Running, Lossy, ServerConnection]], lost: int
) -> None:
    server, between, connection = lossy(lost)
    reply = connection.submit(command(server.directory))
    assert between.writes == lost + 1
    assert [run.id for run in server.connection.runs()] == [reply.run_id]


def test_a_lost_reply_to_a_batch_makes_no_second_batch(
    lossy: Callable[[int], tuple[Running, Lossy, ServerConnection]],
) -> None:
    server, between, connection = lossy(1)
    replies = connection.submit_each([command(server.directory) for _ in range(20)])
    assert between.writes == 2
    assert sorted(run.id for run in server.connection.runs()) == sorted(reply.run_id for reply in replies)  # type: ignore[union-attr, type-var]


def test_a_connection_that_the_server_closed_is_made_anew(tmp_path: Path) -> None:
    """At once, without a word: it says nothing about the server."""
    server = Running(tmp_path, node=False)
    shown: list[str] = []
    connection = ServerConnection(f"http://127.0.0.1:{server.port}")
    connection.notify(shown.append)
    try:
        connection.now()
        kept = connection._wire._connection().sock
        assert kept is not None
        kept.shutdown(socket.SHUT_RDWR)
        connection.now()
        connection.submit(command(tmp_path))
        assert shown == []
    finally:
        connection.close()
        server.close()


def test_a_server_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    first = Running(tmp_path, node=False)
    url = f"http://127.0.0.1:{first.port}"
    first.close()
    shown: list[str] = []
    connection = ServerConnection(url, wait_s=30.0)
    again: list[Running] = []

    def come_back(text: str) -> None:
        shown.append(text)
        again.append(Running(tmp_path, node=False, port=first.port))

    connection.notify(come_back)
    try:
        reply = connection.submit(command(tmp_path))
        assert len(shown) == 1
        assert "waiting for the server" in shown[0]
        assert [run.id for run in again[0].connection.runs()] == [reply.run_id]
    finally:
        connection.close()
        for server in again:
            server.close()


def test_a_silent_server_is_given_up_in_time() -> None:
    connection = ServerConnection("http://127.0.0.1:9", wait_s=0.3)
    with pytest.raises(ServerSilent, match=r"the server http://127.0.0.1:9 does not answer: Connection refused"):
        connection.now()


class Other(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()
        self.wfile.write(b"<html>\x1b[2Jnot here")

    def log_message(self, *_: object) -> None:
        pass


def test_something_else_that_speaks_http() -> None:
    other = http.server.HTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=other.serve_forever, daemon=True)
    thread.start()
    try:
        with pytest.raises(ServerFailed, match="not as a Weft server does") as caught:
            ServerConnection(f"http://127.0.0.1:{other.server_port}").now()
        assert "\x1b" not in str(caught.value)
    finally:
        other.shutdown()
        thread.join()
        other.server_close()


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8700", "ftp://x", "http://", "http://u:p@h", "http://h?x=1", "http://h:0", "http://h\n"]
)
def test_addresses_that_cannot_be(url: str) -> None:
    with pytest.raises(ValueError, match="expected an address"):
        ServerConnection(url)
