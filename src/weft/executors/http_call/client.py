"""One request and its answer, over a connection of its own that is closed after it: what waits for the next poll
holds nothing open."""

import asyncio
import ssl
import time

import msgspec

from weft.executors.http_call.addresses import AddressRefused, AddressRules, Resolve, allowed_addresses, resolve
from weft.executors.http_call.request import BadRequest, HttpRequest, Limits, Url, parse_url
from weft.executors.remote.http_connection import ApiConnection, TooLong, Unreachable, connect, read_all

REDIRECTS_MAX = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_SAME_METHOD = (307, 308)


class NotAnswered(Exception):
    """There is no answer. `timeout`: it took too long. `final`: another try would end in the same way."""

    def __init__(self, message: str, timeout: bool = False, final: bool = False) -> None:
        super().__init__(message)
        self.timeout = timeout
        self.final = final


class HttpAnswer(msgspec.Struct):
    status: int
    headers: dict[str, str]  # by lower-case name
    body: bytes
    url: Url  # that answered, after redirects
    ms: int


class HttpClient:
    """All attempts of a node share it. `at_once` bounds their open connections."""

    def __init__(
        self,
        rules: AddressRules,
        at_once: int = 512,
        find: Resolve = resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._rules = rules
        self._find = find
        self._tls = tls
        self._places = asyncio.Semaphore(at_once)

    async def fetch(self, request: HttpRequest, limits: Limits) -> HttpAnswer:
        """Raises NotAnswered."""
        async with self._places:
            started = time.monotonic()
            try:
                async with asyncio.timeout(limits.timeout_s):
                    answer = await self._follow(request, limits)
            except TimeoutError:
                shown = request.url.shown
                raise NotAnswered(f"no answer from {shown} within {limits.timeout_s:g} s", timeout=True) from None
            except (AddressRefused, BadRequest) as error:
                raise NotAnswered(str(error), final=True) from None
            answer.ms = round((time.monotonic() - started) * 1000)
            return answer

    async def _follow(self, request: HttpRequest, limits: Limits) -> HttpAnswer:
        for _ in range(REDIRECTS_MAX + 1):
            answer = await self._send(request, limits.bytes_max)
            if not limits.redirects or answer.status not in _REDIRECTS or "location" not in answer.headers:
                return answer
            request = _redirected(request, answer)
        raise BadRequest(f"more than {REDIRECTS_MAX} redirects, the last one to {request.url.shown}")

    async def _send(self, request: HttpRequest, bytes_max: int) -> HttpAnswer:
        url = request.url
        try:
            connection = await self._connect(url)
            try:
                status = await connection.send(request.encoded(), bodyless=request.method == "HEAD")
                if connection.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
                    encoding = connection.headers["content-encoding"]
                    raise BadRequest(f"{url.shown} answers with Content-Encoding {encoding}, which was not asked for")
                return HttpAnswer(status, connection.headers, await read_all(connection, bytes_max), url, 0)
            finally:
                connection.close()
        except TooLong:
            raise BadRequest(f"the answer of {url.shown} has more than max_bytes, {bytes_max:,} bytes") from None
        except (Unreachable, OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise NotAnswered(f"{url.shown} cannot be reached: {why}") from None

    async def _connect(self, url: Url) -> ApiConnection:
        """To the first address that takes the connection, among those that were checked."""
        tls = self._context() if url.scheme == "https" else None
        addresses = await allowed_addresses(self._rules, self._find, url.host, url.port)
        for address in addresses[:-1]:
            try:
                return await connect(address, url.port, tls, url.host)
            except Unreachable:
                continue
        return await connect(addresses[-1], url.port, tls, url.host)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


def _redirected(request: HttpRequest, answer: HttpAnswer) -> HttpRequest:
    url = parse_url(answer.headers["location"], answer.url)
    if request.url.scheme == "https" and url.scheme == "http":
        raise BadRequest(f"{request.url.shown} redirects to {url.shown}, which is not encrypted")
    if answer.status in _SAME_METHOD or request.method in ("GET", "HEAD"):
        if request.secret_body and url.origin != request.url.origin:
            raise BadRequest(f"{request.url.shown} redirects to {url.shown}, and what is sent holds a secret")
        return request.at(url, request.method, with_body=True)
    return request.at(url, "GET")
