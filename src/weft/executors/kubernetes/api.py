"""Requests to a Kubernetes API server: short ones over a few kept connections, streams over one of their own.

A client of our own over asyncio and httptools: lightkube (15 MB with its models; 0.2 s to import) and
kubernetes-asyncio (71 MB; 0.7 s) both build whole objects of every pod that changes, and their HTTP libraries keep
more of each open stream than a waiting attempt may cost. Weft needs six resources and five verbs.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from weft.executors.kubernetes.cluster_config import BadClusterConfig, ClusterConfig
from weft.executors.kubernetes.objects import ErrorStatus, Listing
from weft.executors.remote.http_connection import (
    ApiConnection,
    KeptConnections,
    Unreachable,
    connect,
    read_all,
)

REQUEST_TIMEOUT_S = 10.0
_ANSWER_BYTES_MAX = 64 * 2**20
_IDLE_MAX = 8  # connections kept for the next request
_AT_ONCE_MAX = 32  # short requests under way
_PAGE = 500
_PATHS = {
    "namespaces": "/api/v1/namespaces",
    "jobs": "/apis/batch/v1/namespaces/{}/jobs",
    "pods": "/api/v1/namespaces/{}/pods",
    "secrets": "/api/v1/namespaces/{}/secrets",
    "events": "/api/v1/namespaces/{}/events",
}
_T = TypeVar("_T")


class KubernetesError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{message or reason or 'refused'} (HTTP {status})")
        self.status = status
        self.reason = reason
        self.retry_after = retry_after

    @property
    def passing(self) -> bool:
        """Another try may succeed: the server is overloaded, starting, or does not know our credentials (yet)."""
        return self.status in (401, 408, 429) or self.status >= 500


class Api:
    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self._kept = KeptConnections(self._connect, _IDLE_MAX)
        self._slots = asyncio.Semaphore(_AT_ONCE_MAX)

    # -- verbs -------------------------------------------------------------------------------------------

    async def get(self, type: type[_T], resource: str, namespace: str, name: str) -> _T | None:
        """None: there is no such object."""
        try:
            answer = await self.request("GET", path_of(resource, namespace, name))
        except KubernetesError as error:
            if error.status == 404:
                return None
            raise
        return decode(answer, type)

    async def list(self, resource: str, namespace: str, query: Mapping[str, str]) -> tuple[list[msgspec.Raw], str]:
        """All that match now, and the version from which a watch goes on."""
        items: list[msgspec.Raw] = []
        page = {**query, "limit": str(_PAGE)}
        while True:
            listing = decode(await self.request("GET", path_of(resource, namespace), page), Listing)
            items += listing.items
            if not listing.metadata.continue_:
                return items, listing.metadata.resource_version
            page["continue"] = listing.metadata.continue_

    async def create(self, type: type[_T], resource: str, namespace: str, body: dict[str, Any]) -> _T:
        return decode(await self.request("POST", path_of(resource, namespace), body=body), type)

    async def patch(self, type: type[_T], resource: str, namespace: str, name: str, body: dict[str, Any]) -> _T:
        path = path_of(resource, namespace, name)
        return decode(await self.request("PATCH", path, body=body, content="application/merge-patch+json"), type)

    async def delete(self, resource: str, namespace: str, name: str, options: dict[str, Any]) -> bool:
        """False: there was no such object."""
        try:
            await self.request("DELETE", path_of(resource, namespace, name), body=options)
        except KubernetesError as error:
            if error.status == 404:
                return False
            raise
        return True

    # -- requests ----------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: dict[str, Any] | None = None,
        content: str = "application/json",
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> bytes:
        """The body of the answer. Raises KubernetesError, or Unreachable: then the request may have arrived."""
        data = b"" if body is None else msgspec.json.encode(body)
        async with self._slots:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._request(method, path, query, data, content)
            except TimeoutError:
                raise Unreachable(f"no answer within {timeout_s:g} s") from None

    async def _request(
        self, method: str, path: str, query: Mapping[str, str] | None, data: bytes, content: str
    ) -> bytes:
        for last in (False, True):
            head = await self._head(method, path, query, data, content)
            # Sent again if a kept connection breaks: a name is created once, and the rest says what shall be.
            connection, status = await self._kept.send(head)
            try:
                answer = await read_all(connection, _ANSWER_BYTES_MAX)
            except BaseException:
                connection.close()
                raise
            self._kept.keep(connection)
            if status == 401 and not last:
                self.config.credentials.refused()
                continue
            if status >= 400:
                raise _error(status, answer, connection.headers)
            return answer
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[ApiConnection]:
        """An answer that goes on: read it until it ends. Its connection is used for nothing else."""
        connection = None
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await self._head("GET", path, query, b"", "")
                connection = await self._connect()
                status = await connection.send(head)
                if status >= 400:
                    if status == 401:
                        self.config.credentials.refused()
                    raise _error(status, await read_all(connection, _ANSWER_BYTES_MAX), connection.headers)
            yield connection
        except TimeoutError:
            raise Unreachable(f"no answer within {REQUEST_TIMEOUT_S:g} s") from None
        finally:
            if connection is not None:
                connection.close()

    async def _connect(self) -> ApiConnection:
        config = self.config
        return await connect(config.host, config.port, config.tls, config.server_name)

    async def _head(
        self, method: str, path: str, query: Mapping[str, str] | None, data: bytes, content: str
    ) -> bytes:
        config = self.config
        try:
            authorization = await config.credentials.header()
        except BadClusterConfig as error:
            raise Unreachable(str(error)) from None
        target = config.prefix + path + (f"?{urlencode(query)}" if query else "")
        host = f"[{config.host}]" if ":" in config.host else config.host
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}:{config.port}", "Accept: application/json, */*"]
        lines.append("User-Agent: weft")
        if authorization:
            lines.append(f"Authorization: {authorization}")
        if data:
            lines += [f"Content-Type: {content}", f"Content-Length: {len(data)}"]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + data

    def close(self) -> None:
        self._kept.close()


def path_of(resource: str, namespace: str, name: str | None = None, part: str = "") -> str:
    path = _PATHS[resource].format(quote(namespace, safe=""))
    return path if name is None else f"{path}/{quote(name, safe='')}{part}"


def decode(data: bytes | msgspec.Raw, type: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.DecodeError as error:
        raise Unreachable(f"its answer is not what Kubernetes answers: {error}") from None


def _error(status: int, answer: bytes, headers: Mapping[str, str]) -> KubernetesError:
    try:
        said = msgspec.json.decode(answer, type=ErrorStatus)
    except msgspec.DecodeError:
        said = ErrorStatus(message=answer[:200].decode("utf-8", "replace").strip())
    after = headers.get("retry-after", "")
    return KubernetesError(status, said.reason, said.message, float(after) if after.isdigit() else None)
