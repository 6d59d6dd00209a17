"""Requests to etcd's JSON gateway, member by member: connections, TLS, and the token of a user with a password.

With the standard library. grpcio would be 17 MB and 0.12 s of import for a put that takes 2.1 instead of 2.5 ms; the
other clients were found stale, or show no revisions.
"""

import os
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from weft.store.etcd.url import EtcdUrl
from weft.store.protocol import StoreUnusable

ASK_S = 3.0
PASSWORD = "WEFT_ETCD_PASSWORD"
_LINE_MAX = 65536
_EXHAUSTED = 8  # gRPC's codes
_DENIED = (7, 16)
_STALE = ("invalid auth token", "revision in header is old")  # said of tokens
_REFUSED = ("authentication failed", "user name is empty", "permission denied", "authentication is not enabled")

Member = tuple[str, int]


class LogSilent(Exception):
    """No usable answer. Whether an append was taken is not known."""


class LogRefused(LogSilent):
    """etcd does not know the user, or does not let it do this."""


class LogFull(Exception):
    """etcd has reached its quota: nothing was taken."""


class KeyValue(msgspec.Struct):
    mod_revision: str = "0"
    value: bytes = b""  # base64 in JSON
    key: bytes = b""


class Header(msgspec.Struct):
    revision: str = "0"


class Alarm(msgspec.Struct):
    memberID: str = "0"  # etcd's spelling
    alarm: str = "NONE"


class EtcdAnswer(msgspec.Struct):
    header: Header = msgspec.field(default_factory=Header)
    kvs: list[KeyValue] = []
    count: str = "0"
    version: str = ""
    succeeded: bool = False
    alarms: list[Alarm] = []
    token: str = ""
    ID: str = "0"  # of a lease


class _Problem(msgspec.Struct):
    code: int = 0
    message: str = ""
    error: str = ""


_ANSWER = msgspec.json.Decoder(EtcdAnswer)


class Gateway:
    """One thread's calls at a time go over one connection: each thread has its own."""

    def __init__(self, url: EtcdUrl) -> None:
        self.members = url.members
        self._context = _client_context(url)
        self._user = url.user
        self._password = _password(url)
        self._token = ""
        self._own = threading.local()
        self._all: list[_Connection] = []

    def next_member(self) -> None:
        """Of this thread."""
        self._own.at = getattr(self._own, "at", 0) + 1

    def member(self) -> Member:
        return self.members[getattr(self._own, "at", 0) % len(self.members)]

    def call(self, path: str, body: dict[str, Any], timeout_s: float) -> EtcdAnswer:
        """Ask this thread's member; after a failure the next call asks the next one."""
        try:
            return self.ask(self.member(), path, body, timeout_s)
        except LogSilent:
            self.next_member()
            raise

    def ask(self, member: Member, path: str, body: dict[str, Any], timeout_s: float) -> EtcdAnswer:
        token = self.token(member)
        try:
            return self._ask(member, path, body, timeout_s, token)
        except LogSilent as error:
            if not token or not any(words in str(error) for words in _STALE):
                raise
        self.forget_token(token)
        return self._ask(member, path, body, timeout_s, self.token(member))

    def token(self, member: Member) -> str:
        """That etcd gave this user. It forgets tokens that are not used for some minutes, and all when it starts."""
        if self._user and not self._token:
            asked = {"name": self._user, "password": self._password}
            self._token = self._ask(member, "/v3/auth/authenticate", asked, ASK_S, "").token
        return self._token

    def forget_token(self, token: str) -> None:
        if self._token == token:
            self._token = ""

    def _ask(self, member: Member, path: str, body: dict[str, Any], timeout_s: float, token: str) -> EtcdAnswer:
        connection = self._connection(member)
        try:
            status, text = connection.post(path, msgspec.json.encode(body), token, timeout_s)
        except (OSError, ValueError) as error:
            connection.close()
            why = str(error) or type(error).__name__
            raise LogSilent(f"etcd at {shown(member)} did not answer: {why}") from error
        if status != 200:
            connection.close()
            raise _error(member, status, text)
        try:
            return _ANSWER.decode(text)
        except msgspec.DecodeError as error:
            raise LogSilent(f"etcd at {shown(member)} answered {text[:200]!r}: {error}") from error

    def _connection(self, member: Member) -> "_Connection":
        kept: dict[Member, _Connection] = self._own.__dict__.setdefault("connections", {})
        connection = kept.get(member)
        if connection is None:
            connection = kept[member] = _Connection(member, self.connected)
            self._all.append(connection)
        return connection

    def connected(self, member: Member, timeout_s: float = ASK_S) -> socket.socket:
        plain = socket.create_connection(member, timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if self._context is None else self._context.wrap_socket(plain, server_hostname=member[0])

    def close(self) -> None:
        for connection in self._all:
            connection.close()


class _Connection:
    """HTTP/1.1 on one socket. http.client takes 330 µs of processor time for a put instead of 110: most of it for
    headers that are not looked at."""

    def __init__(self, member: Member, connect: Callable[[Member, float], socket.socket]) -> None:
        self._member = member
        self._connect = connect
        self._socket: socket.socket | None = None
        self._answers: BinaryIO | None = None

    def post(self, path: str, body: bytes, token: str, timeout_s: float) -> tuple[int, bytes]:
        if self._socket is None or self._answers is None:
            self._socket = self._connect(self._member, timeout_s)
            self._answers = self._socket.makefile("rb")
        self._socket.settimeout(timeout_s)
        allowed = f"Authorization: {token}\r\n" if token else ""
        self._socket.sendall(
            f"POST {path} HTTP/1.1\r\nHost: {shown(self._member)}\r\nContent-Type: application/json\r\n"
            f"{allowed}Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        return _answer(self._answers)

    def close(self) -> None:
        for part in (self._answers, self._socket):
            if part is not None:
                part.close()
        self._socket = self._answers = None


def _answer(stream: BinaryIO) -> tuple[int, bytes]:
    """(status, body). OSError, ValueError: it is none."""
    first = stream.readline(_LINE_MAX)
    if not first.endswith(b"\n"):
        raise OSError("the connection was closed")
    size: int | None = None
    while (line := stream.readline(_LINE_MAX)) != b"\r\n":
        name, _, value = line.partition(b":")
        if not value:
            raise OSError("the connection was closed")
        if name.lower() == b"content-length":
            size = int(value)
    if size is not None:
        return int(first.split()[1]), _exactly(stream, size)
    pieces = []
    while size := int(stream.readline(_LINE_MAX), 16):  # chunked: etcd sends longer answers so
        pieces.append(_exactly(stream, size))
        stream.readline(_LINE_MAX)
    stream.readline(_LINE_MAX)
    return int(first.split()[1]), b"".join(pieces)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise OSError("the connection was closed")
    return found


def _error(member: Member, status: int, text: bytes) -> Exception:
    try:
        problem = msgspec.json.decode(text, type=_Problem)
    except msgspec.DecodeError:
        problem = _Problem(error=text[:200].decode(errors="replace"))
    said = problem.message or problem.error or f"HTTP status {status}"
    if problem.code == _EXHAUSTED and "space" in said:
        return LogFull(said)
    refused = problem.code in _DENIED or any(words in said for words in _REFUSED)
    return (LogRefused if refused else LogSilent)(f"etcd at {shown(member)}: {said}")


def shown(member: Member) -> str:
    host, port = member
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _password(url: EtcdUrl) -> str:
    if not url.user:
        return ""
    file = url.options.get("password_file")
    if file is None:
        found = os.environ.get(PASSWORD)
        if found is None:
            raise StoreUnusable(
                f"{url.shown}: the password of {url.user} is missing. Put it into the variable {PASSWORD}, or into a"
                " file that the address names: ?password_file=…"
            )
        return found
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreUnusable(f"{url.shown}: the password of {url.user} cannot be read: {error}") from None


def _client_context(url: EtcdUrl) -> ssl.SSLContext | None:
    if not url.secure:
        return None
    try:
        context = ssl.create_default_context(cafile=url.options["ca"])
        context.load_cert_chain(url.options["cert"], url.options["key"])
    except (OSError, ssl.SSLError) as error:
        raise StoreUnusable(f"{url.shown}: the certificates cannot be read: {error}") from None
    return context


def peer_contexts(url: EtcdUrl) -> tuple[ssl.SSLContext, ssl.SSLContext] | None:
    """For a node's server, and for those who ask it: both show their certificate. Names are not compared: nodes are
    reached by their addresses, and a process with a certificate of this authority may change the log anyway."""
    client = _client_context(url)
    if client is None:
        return None
    client.check_hostname = False
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(url.options["cert"], url.options["key"])
    server.load_verify_locations(url.options["ca"])
    server.verify_mode = ssl.CERT_REQUIRED
    try:
        _shake_hands(server, client)
    except ssl.SSLError as error:
        raise StoreUnusable(
            f"{url.shown}: {url.options['cert']} cannot be used between nodes: {error}. It has to be a certificate of"
            f" {url.options['ca']} for servers and clients alike (extendedKeyUsage serverAuth and clientAuth)"
        ) from None
    return server, client


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Within this process."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(down, up), server.wrap_bio(up, down, server_side=True)]
    for _ in range(10):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
