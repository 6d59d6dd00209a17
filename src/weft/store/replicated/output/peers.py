"""What nodes ask each other for over HTTP: snapshots of the replica, and the output of attempts.

The address of each and the token that they share are in etcd, beside the log. Where etcd is reached over TLS, nodes
speak it as well, with the same files: both sides show a certificate of the same authority.
"""

import http.client
import secrets
import shutil
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import apsw
import msgspec

from weft.store.etcd.log import EtcdLog, LogFull, LogSilent
from weft.store.protocol import StoreError
from weft.store.replicated.output.file import StreamPlace, StreamsFile
from weft.store.shipment import Chunk

SNAPSHOT, OUTPUT, READ = "/snapshot", "/output", "/read"
SNAPSHOT_S = 60.0
ANSWER_S = 5.0
AWAY_S = 5.0  # one that did not answer is not asked again for so long
KNOWN_S = 5.0  # addresses are read again after so long
BODY_MAX = 1 << 24
ADDRESS_S = 3600  # for so long etcd keeps the address of a node that is silent
ANNOUNCE_S = 600.0
_TOKEN, PEERS = "token", "peers/"


class PeerSilent(Exception):
    """A node that gave no usable answer."""


class CopiedChunks(msgspec.Struct, array_like=True):
    revision: int  # of the log, at which the sender's replica had their tasks
    chunks: list[Chunk]


class WantedOutput(msgspec.Struct, array_like=True):
    place: StreamPlace
    offset: int


class PeerServer:
    """Of a node that has a replica."""

    def __init__(self, etcd: EtcdLog, node: str, replica: Path, output: StreamsFile) -> None:
        context = etcd.peer_contexts[0] if etcd.peer_contexts is not None else None
        self._server = _Server(etcd.own_address(), shared_token(etcd), context, replica, output)
        self._etcd = etcd
        self._name = f"{PEERS}{node}"
        self._announced_at = 0.0
        self.announce()
        threading.Thread(target=self._server.serve_forever, name="weft-peers", daemon=True).start()

    def announce(self) -> None:
        """Its address, every few minutes: that of a node which never comes back is removed."""
        if time.monotonic() - self._announced_at < ANNOUNCE_S and self._announced_at:
            return
        host, port = self._server.server_address[:2]
        self._etcd.put_for(self._name, f"{host!s}:{port}".encode(), ADDRESS_S)
        self._announced_at = time.monotonic()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, address: str, token: str, context: ssl.SSLContext | None, replica: Path, output: StreamsFile
    ) -> None:
        super().__init__((address, 0), _Handler)
        self.token, self.context, self.replica, self.output = token, context, replica, output

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the thread of this request: a handshake that takes long holds up no other."""
        request.settimeout(SNAPSHOT_S)
        if self.context is not None:
            request = self.context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or that is none of ours."""


def shared_token(etcd: EtcdLog) -> str:
    etcd.put_if_absent(_TOKEN, secrets.token_hex(32).encode())
    found = etcd.get(_TOKEN)
    assert found is not None
    return found.decode()


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        if self._is_allowed(self.path == SNAPSHOT):
            self._send_snapshot()

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", "0"))
        answer = {OUTPUT: self._keep, READ: self._read}.get(self.path)
        if not self._is_allowed(answer is not None and size <= BODY_MAX) or answer is None:
            return
        try:
            body = msgspec.msgpack.encode(answer(self.rfile.read(size)))
        except (StoreError, msgspec.DecodeError) as error:
            self.send_error(507, str(error)[:200])
            return
        self._begin(len(body))
        self.wfile.write(body)

    def _keep(self, body: bytes) -> Any:
        asked = msgspec.msgpack.decode(body, type=CopiedChunks)
        return self.server.output.keep(asked.chunks, asked.revision)

    def _read(self, body: bytes) -> Any:
        asked = msgspec.msgpack.decode(body, type=WantedOutput)
        return self.server.output.read(asked.place, asked.offset)

    def _is_allowed(self, known: bool) -> bool:
        given = self.headers.get("Authorization", "")
        if not secrets.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            self.send_error(401)
        elif not known:
            self.send_error(404)
        else:
            return True
        return False

    def _begin(self, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def _send_snapshot(self) -> None:
        replica = self.server.replica
        with tempfile.TemporaryDirectory(dir=replica.parent, prefix="snapshot-") as directory:
            file = Path(directory) / "snapshot.db"
            take_snapshot(replica, file)
            self._begin(file.stat().st_size)
            with file.open("rb") as stream:
                shutil.copyfileobj(stream, self.wfile, 1 << 20)

    def log_message(self, format: str, *args: Any) -> None:
        return


def take_snapshot(replica: Path, target: Path) -> None:
    """One moment of the replica, with the revision that it had then."""
    connection = apsw.Connection(str(replica), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.execute("VACUUM INTO ?", (str(target),))
    finally:
        connection.close()


class PeerChannel:
    """The other nodes, as this one reaches them."""

    def __init__(self, etcd: EtcdLog, node: str) -> None:
        self._etcd = etcd
        self._node = node
        self._token = ""
        self._addresses: dict[str, str] = {}
        self._known_until = 0.0
        self._away: dict[str, float] = {}  # until when
        self._lock = threading.Lock()

    def others(self) -> list[str]:
        """Those that are not known to be away, beginning with the one that follows this node."""
        now = time.monotonic()
        found = sorted(node for node in self._look() if self._away.get(node, 0.0) <= now)
        return [node for node in found if node > self._node] + [node for node in found if node < self._node]

    def known(self) -> list[str]:
        """Also those that are away, but not for longer than ADDRESS_S."""
        return sorted(self._look())

    def _look(self) -> dict[str, str]:
        with self._lock:
            if time.monotonic() >= self._known_until:
                self._known_until = time.monotonic() + KNOWN_S
                try:
                    self._token = self._token or shared_token(self._etcd)
                    self._addresses = {
                        name.removeprefix(PEERS): address.decode()
                        for name, address in self._etcd.values(PEERS).items()
                        if name.removeprefix(PEERS) != self._node
                    }
                except (LogSilent, LogFull):
                    pass  # what was known before may still hold
            return self._addresses

    def ask(self, node: str, path: str, body: Any, type: Any) -> Any:
        try:
            connection, response = self._request(node, "POST", path, msgspec.msgpack.encode(body), ANSWER_S)
            try:
                return msgspec.msgpack.decode(response.read(), type=type)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            self._away[node] = time.monotonic() + AWAY_S
            raise PeerSilent(f"{node}: {error}") from None

    def fetch_snapshot(self, directory: Path, fits: Callable[[Path], bool]) -> Path | None:
        """A file with the first snapshot of another node that fits; None: no node that answers has one."""
        file = directory / "fetched.db"
        for node in sorted(self._look()):
            try:
                self._fetch(node, file)
            except (OSError, http.client.HTTPException):
                continue
            if fits(file):
                return file
        return None

    def _fetch(self, node: str, file: Path) -> None:
        connection, response = self._request(node, "GET", SNAPSHOT, None, SNAPSHOT_S)
        try:
            with file.open("wb") as target:
                shutil.copyfileobj(response, target, 1 << 20)
            if file.stat().st_size != int(response.headers["Content-Length"]):
                raise OSError("it went away in the middle of its snapshot")
        finally:
            connection.close()

    def _request(
        self, node: str, method: str, path: str, body: bytes | None, timeout_s: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        host, _, port = self._addresses[node].rpartition(":")
        if self._etcd.peer_contexts is None:
            connection = http.client.HTTPConnection(host, int(port), timeout=timeout_s)
        else:
            context = self._etcd.peer_contexts[1]
            connection = http.client.HTTPSConnection(host, int(port), timeout=timeout_s, context=context)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {self._token}"})
            response = connection.getresponse()
            if response.status != 200:
                raise OSError(f"it answered {response.status}")
            return connection, response
        except BaseException:
            connection.close()
            raise
