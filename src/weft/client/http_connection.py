"""Requests to a server, on connections that are kept open, one for each thread.

A request that got no reply is sent again. Reads change nothing; writes carry an id under which the server applies
them once (header Weft-Command): so a reply that was lost costs nothing but a moment.
"""

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from weft.config import server_url
from weft.operations.errors import Problem, ServerFailed, ServerSilent, error_of_problem
from weft.store.protocol import StoreBusy

CONNECT_S = 5.0
ANSWER_S = 60.0  # a large run takes a while to verify
STREAM_SILENT_S = 45.0  # it says that it is there every 15 s
WAIT_S = 5.0  # for a server that does not answer, or has no store right now
RETRY_S = 0.2
RETRY_AFTER_MAX_S = 2.0
TEXT_SHOWN = 200
_DROPPED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]  # names in small letters
    body: bytes

    def value(self, of: Any) -> Any:
        return msgspec.json.decode(self.body, type=of)


def path_of(template: str, names: Mapping[str, str]) -> str:
    """The path of a route, with names that may hold anything."""
    return template.format(**{name: quote(value, safe=":") for name, value in names.items()})


class HttpConnection:
    """`notify` is called once when a server has to be waited for."""

    def __init__(self, url: str, token: str | None = None, *, wait_s: float = WAIT_S) -> None:
        self.url = server_url(url)
        parts = urlsplit(self.url)
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname or "", parts.port
        self._prefix = parts.path
        self._token = token
        self.wait_s = wait_s
        self.notify: Callable[[str], None] = lambda text: None
        self._own = threading.local()
        self._lock = threading.Lock()
        self._all: list[http.client.HTTPConnection] = []

    def __call__(
        self,
        method: str,
        path: str,
        query: Iterable[tuple[str, Any]] = (),
        body: Any = None,
        command_id: str | None = None,
        more_headers: Mapping[str, str] = {},
    ) -> Answer:
        """The answer, or the error that a store within reach would have raised."""
        data = None if method == "GET" else msgspec.json.encode({} if body is None else body)
        headers = {**self._headers("application/json"), **more_headers}
        if data is not None:
            headers["Content-Type"] = "application/json"
        if command_id is not None:
            headers["Weft-Command"] = command_id
        return self._insist(method, self._target(path, query), data, headers)

    def _target(self, path: str, query: Iterable[tuple[str, Any]]) -> str:
        asked = [(name, _text(value)) for name, value in query if value is not None]
        return self._prefix + path + (f"?{urlencode(asked)}" if asked else "")

    def _headers(self, accept: str) -> dict[str, str]:
        token = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        return {"Accept": accept, **token}

    def open_stream(
        self, connection: http.client.HTTPConnection, path: str, query: Iterable[tuple[str, Any]], last_id: str
    ) -> http.client.HTTPResponse:
        """On a connection of its own, and once: whoever reads it comes back by themselves."""
        headers = {**self._headers("text/event-stream"), "Last-Event-ID": last_id}
        self._connect(connection, STREAM_SILENT_S)
        connection.request("GET", self._target(path, query), None, headers)
        return connection.getresponse()

    def _insist(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        until = time.monotonic() + self.wait_s
        warned = False
        while True:
            try:
                answer = self._send(method, target, data, headers)
                if answer.status < 300:
                    return answer
                error, pause = error_of(self.url, answer.status, answer.headers, answer.body), RETRY_S
                if not isinstance(error, StoreBusy):  # trying again in a moment would not help
                    raise error
                pause = min(RETRY_AFTER_MAX_S, float(answer.headers.get("retry-after", RETRY_S)))
            except (OSError, http.client.HTTPException) as reason:
                self._drop()
                error, pause = ServerSilent(self.url, reason), RETRY_S
            if time.monotonic() + pause > until:
                raise error
            if not warned:
                self.notify(f"waiting for the server: {error}")
                warned = True
            time.sleep(pause)

    def _send(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        connection = self._connection()
        kept = connection.sock is not None
        try:
            return self._exchange(connection, method, target, data, headers)
        except _DROPPED:
            if not kept:
                raise
            self._drop()  # a server closes what was idle for long: that is no news about its health
            return self._exchange(self._connection(), method, target, data, headers)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        data: bytes | None,
        headers: dict[str, str],
    ) -> Answer:
        if connection.sock is None:
            self._connect(connection, ANSWER_S)
        connection.request(method, target, data, headers)
        reply = connection.getresponse()
        body = reply.read()
        return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, body)

    @staticmethod
    def _connect(connection: http.client.HTTPConnection, answer_s: float) -> None:
        connection.timeout = CONNECT_S
        connection.connect()
        opened: socket.socket | None = connection.sock
        if opened is not None:
            opened.settimeout(answer_s)

    def new_connection(self) -> http.client.HTTPConnection:
        make = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return make(self._host, self._port, timeout=CONNECT_S)

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = self.new_connection()
            with self._lock:
                self._all.append(found)
        return found

    def _drop(self) -> None:
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is not None:
            found.close()  # it connects anew when it is used again

    def close(self) -> None:
        with self._lock:
            for connection in self._all:
                connection.close()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def error_of(url: str, status: int, headers: Mapping[str, str], body: bytes) -> Exception:
    """The error that an answer stands for."""
    start = repr(body[:TEXT_SHOWN].decode("utf-8", "replace"))
    if headers.get("content-type", "").partition(";")[0] != "application/problem+json":
        return ServerFailed(f"{url} answered with {status}, and not as a Weft server does: {start}")
    try:
        return error_of_problem(msgspec.json.decode(body, type=Problem))
    except msgspec.MsgspecError:
        return ServerFailed(f"{url} answered with {status} and something that cannot be read: {start}")
