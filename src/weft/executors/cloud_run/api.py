"""Requests to the Cloud Run Admin API v2: run, get, list, cancel; over a few kept connections that attempts share."""

import asyncio
import ssl
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from weft.executors.cloud_run.credentials import Credentials, NoCredentials
from weft.executors.cloud_run.objects import (
    ErrorAnswer,
    Execution,
    ExecutionPage,
    ExecutionTask,
    ExecutionTaskPage,
    LongRunningOperation,
)
from weft.executors.remote.http_connection import ApiConnection, KeptConnections, Unreachable, connect, read_all

ENDPOINT = "https://run.googleapis.com"
REQUEST_TIMEOUT_S = 30.0
_ANSWER_BYTES_MAX = 64 * 2**20
_AT_ONCE_MAX = 32
_PAGE = 100
_PAGES_MAX = 50  # Cloud Run keeps fewer executions
_T = TypeVar("_T")


class CloudRunError(Exception):
    """The API refused a request."""

    def __init__(self, status: int, word: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{message or word or 'refused'} (HTTP {status}{', ' + word if word else ''})")
        self.status = status
        self.retry_after = retry_after

    @property
    def passing(self) -> bool:
        """Another try may succeed: a quota, a conflict, a service that is overloaded, a token that has expired."""
        return self.status in (401, 408, 409, 429) or self.status >= 500

    @property
    def unclear(self) -> bool:
        """What was asked for may have been done all the same."""
        return self.status == 408 or self.status >= 500


class CloudRunApi:
    def __init__(self, endpoint: str, credentials: Credentials, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(endpoint)
        self.host = parts.hostname or ""
        self._secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._tls = tls
        self.credentials = credentials
        self._kept = KeptConnections(self._connect)
        self._slots = asyncio.Semaphore(_AT_ONCE_MAX)

    async def run(self, place: str, body: dict[str, Any]) -> LongRunningOperation:
        """Not idempotent: after Unreachable, or an error that is unclear, it may have been done."""
        return _decode(await self._request("POST", f"/v2/{place}:run", body=body, once=True), LongRunningOperation)

    async def operation(self, name: str) -> LongRunningOperation:
        return _decode(await self._request("GET", f"/v2/{quote(name)}"), LongRunningOperation)

    async def execution(self, name: str) -> Execution | None:
        """None: there is no such execution (any more)."""
        try:
            return _decode(await self._request("GET", f"/v2/{quote(name)}"), Execution)
        except CloudRunError as error:
            if error.status == 404:
                return None
            raise

    async def cancel(self, name: str) -> None:
        """Also of one that has ended, or is gone."""
        try:
            await self._request("POST", f"/v2/{quote(name)}:cancel", body={})
        except CloudRunError as error:
            if error.status not in (400, 404, 409):
                raise

    async def executions(self, place: str) -> list[Execution]:
        """All of a job. The API promises no order, so all pages are read."""
        found: list[Execution] = []
        query = {"pageSize": str(_PAGE)}
        for _ in range(_PAGES_MAX):
            page = _decode(await self._request("GET", f"/v2/{place}/executions", query), ExecutionPage)
            found += page.executions
            if not page.next_page_token:
                return found
            query["pageToken"] = page.next_page_token
        raise Unreachable(f"{place} has more than {_PAGES_MAX * _PAGE:,} executions")

    async def failed_tasks(self, name: str, most: int) -> list[ExecutionTask]:
        found: list[ExecutionTask] = []
        query = {"pageSize": str(_PAGE)}
        for _ in range(_PAGES_MAX):
            page = _decode(await self._request("GET", f"/v2/{quote(name)}/tasks", query), ExecutionTaskPage)
            found += [one for one in page.tasks if one.failed]
            if not page.next_page_token or len(found) >= most:
                break
            query["pageToken"] = page.next_page_token
        return sorted(found, key=lambda one: one.index)[:most]

    def close(self) -> None:
        self._kept.close()

    # -- requests ----------------------------------------------------------------------------------------

    async def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        once: bool = False,
    ) -> bytes:
        async with self._slots:
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    return await self._send(method, path, query, body, once)
            except TimeoutError:
                raise Unreachable(f"no answer within {REQUEST_TIMEOUT_S:g} s") from None
            except NoCredentials as error:
                raise CloudRunError(401, "UNAUTHENTICATED", str(error)) from None

    async def _send(
        self, method: str, path: str, query: dict[str, str] | None, body: dict[str, Any] | None, once: bool
    ) -> bytes:
        data = b"" if body is None else msgspec.json.encode(body)
        target = self._prefix + path + (f"?{urlencode(query)}" if query else "")
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.host}", "Accept: application/json", "User-Agent: weft"]
        lines.append(f"Authorization: Bearer {await self.credentials.token()}")
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1") + data
        connection, status = await self._kept.send(head, fresh=once)
        try:
            answer = await read_all(connection, _ANSWER_BYTES_MAX)
        except BaseException:
            connection.close()
            raise
        self._kept.keep(connection)
        if status == 401:
            self.credentials.refused()
        if status >= 400:
            raise _error(status, answer, connection.headers)
        return answer

    async def _connect(self) -> ApiConnection:
        if self._secure and self._tls is None:
            self._tls = ssl.create_default_context()
        return await connect(self.host, self._port, self._tls if self._secure else None, self.host)


def _decode(data: bytes, type: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.DecodeError as error:
        raise Unreachable(f"its answer is not what Cloud Run answers: {error}") from None


def _error(status: int, answer: bytes, headers: dict[str, str]) -> CloudRunError:
    try:
        said = msgspec.json.decode(answer, type=ErrorAnswer).error
    except msgspec.DecodeError:
        said = ErrorAnswer.Body(message=answer[:200].decode("utf-8", "replace").strip())
    after = headers.get("retry-after", "")
    return CloudRunError(status, said.status, said.message[:500], float(after) if after.isdigit() else None)
