"""Before any route: is this request meant for us, does it come from a page of ours, is it small enough?

A name that somebody else's DNS points at this machine is refused (Host), as is a page of another origin (Origin):
a browser on this machine could otherwise be made to talk to this server. An address in digits needs no
DNS and is always fine. The only cookie is that of the plain page (pages/token_form.py),
and no answer is for another origin's scripts.
"""

import asyncio
import contextlib
import functools
import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.api.responses import problem
from weft.operations.errors import ApiError

BODY_MAX = 32 * 1024 * 1024
DISCARD_MAX = 4 * 1024 * 1024
DISCARD_MAX_S = 2.0
HOSTS_KNOWN = 64  # names whose answer is kept: parsing one takes as long as the rest of the guard
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
DEFAULT_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")


class RequestGuard:
    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str] = (), body_max: int = BODY_MAX, root_path: str = ""
    ) -> None:
        self._app = app
        self._root_path = root_path
        machine = socket.gethostname().lower()
        self._hosts = {"localhost", machine, machine.split(".")[0], *(host.lower() for host in hosts)}
        self._body_max = body_max
        self._known = functools.lru_cache(HOSTS_KNOWN)(self._is_known)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        send = _dressed(send, self._root_path)
        refusal = self._refusal(headers)
        if refusal is not None:
            if refusal.problem.code == "too_large":
                await _discard(receive)
            await problem(refusal)(scope, receive, send)
        elif self._root_path and scope["path"] == self._root_path:  # links on the page are relative
            await Response(status_code=308, headers={"Location": "/"})(scope, receive, send)
        else:
            send = _without_body(send) if scope["method"] == "HEAD" else send
            await self._app(self._as_routed(scope), _bounded(receive, self._body_max), send)

    def _as_routed(self, scope: Scope) -> Scope:
        """Routes know no prefix and no HEAD. A proxy may have removed the prefix already."""
        path: str = scope["path"]
        if self._root_path and path.startswith(f"{self._root_path}/"):
            path = path.removeprefix(self._root_path)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if (path, method) == (scope["path"], scope["method"]):
            return scope
        return {**scope, "path": path, "method": method}

    def _refusal(self, headers: dict[bytes, str]) -> ApiError | None:
        host = headers.get(b"host", "")
        if not self._known(host):
            return ApiError(
                "host", f"this server does not go by the name {host[:100]!r}",
                "use its address or localhost, or start it with `--allow-host NAME`",
            )  # fmt: skip
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return ApiError("origin", f"pages of {origin[:100]} may not use this server")
        if headers.get(b"sec-fetch-site") == "cross-site":
            return ApiError("origin", "pages of other sites may not use this server", "type or paste its address")
        return self._too_long(headers.get(b"content-length"))

    def _is_known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            ipaddress.ip_address(name)
            return True
        except ValueError:
            return name in self._hosts

    def _too_long(self, length: str | None) -> ApiError | None:
        if length is None or (length.isdecimal() and int(length[:12]) <= self._body_max):
            return None
        return too_large(self._body_max)


def too_large(body_max: int) -> ApiError:
    return ApiError(
        "too_large", f"a request's body may have {body_max:,} bytes", "split it, or raise body_max",
        headers={"Connection": "close"},
    )  # fmt: skip


def _bounded(receive: Receive, body_max: int) -> Receive:
    """A body without a length is counted as it comes."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > body_max:
                if message.get("more_body"):
                    await _discard(receive)
                raise too_large(body_max)
        return message

    return counted


async def _discard(receive: Receive) -> None:
    """The rest of a body that is too large, within bounds: a client that still sends when the connection is closed
    does not see the answer."""
    discarded = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_MAX_S):
            while discarded < DISCARD_MAX:
                message = await receive()
                discarded += len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body"):
                    return


def _without_body(send: Send) -> Send:
    """For HEAD: what a GET would be answered, up to its body. A stream ends there, too."""
    ended = False

    async def head_only(message: Message) -> None:
        nonlocal ended
        if message["type"] == "http.response.start":
            await send(message)
        elif not ended:
            ended = True
            await send({"type": "http.response.body", "body": b""})

    return head_only


def _dressed(send: Send, root_path: str) -> Send:
    prefix = root_path.encode()

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            given: list[tuple[bytes, bytes]] = [
                (name, prefix + value if name == b"location" else value) for name, value in message.get("headers", [])
            ]
            names = {name.lower() for name, _ in given}
            given += [header for header in (*HEADERS, DEFAULT_POLICY) if header[0] not in names]
            message = {**message, "headers": given}
        await send(message)

    return with_headers
