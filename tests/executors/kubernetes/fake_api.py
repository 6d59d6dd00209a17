"""A fake Kubernetes API server: HTTP/1.1 over a socket of this machine, with the verbs, errors and watches that the
executor and the test kubelet use. Everything that it is sent and everything that it answers is checked against the
published schemas; what does not fit is in `violations`, which every test looks at in the end.
"""

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from tests.executors.kubernetes.controllers import Controllers, delete_pod
from tests.executors.kubernetes.object_store import KINDS, ObjectStore, Refusal, selects
from tests.executors.kubernetes.schemas import problems
from tests.kubernetes_cluster.kubelet import TestKubelet

TOKEN = "of-the-test"


class Request:
    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        url = urlsplit(target)
        self.method, self.headers = method, headers
        self.path = unquote(url.path)
        self.query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        self.body: dict[str, Any] = json.loads(body) if body else {}
        parts = self.path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        self.namespace: str | None = None
        if parts[0] == "namespaces" and len(parts) > 2:
            self.namespace, parts = parts[1], parts[2:]
        self.resource = parts[0]
        self.name = parts[1] if len(parts) > 1 else None
        self.part = parts[2] if len(parts) > 2 else ""

    @property
    def watches(self) -> bool:
        return self.query.get("watch") == "true"

    def __repr__(self) -> str:
        return f"{self.method} {self.path} {self.query}"


#: Called before a request is answered: may wait, may raise Refusal, or Cut to close the connection. True as its
#: answer does the latter after the request was carried out.
Fault = Callable[[Request], Awaitable[bool | None]]


class Cut(Exception):
    """The connection breaks."""


class FakeApi:
    def __init__(self, problems: Callable[..., list[str]] = problems) -> None:
        self._problems = problems
        self.store = ObjectStore()
        self.controllers = Controllers(self.store)
        self.kubelet: TestKubelet | None = None
        self.tokens = {TOKEN}
        self.fault: Fault | None = None
        self.late: Fault | None = None  # called when an answer is made, and before it is sent
        self.requests: list[Request] = []
        self.violations: list[str] = []
        self.page_max = 500
        self.accepted = 0  # connections
        self.log_pieces_max: int | None = None  # after which a stream of a log is ended
        self.port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        await self.store.create("namespaces", "", {"metadata": {"name": "kube-system"}})
        await self.store.create("namespaces", "", {"metadata": {"name": "default"}})
        await self.store.create("namespaces", "", {"metadata": {"name": "other"}})
        self.controllers.open()
        await self.listen()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop_listening(self) -> None:
        """The server goes away, with all of its connections; what it keeps stays."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut_connections()

    async def cut_connections(self) -> None:
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def close(self) -> None:
        await self.stop_listening()
        await self.controllers.close()

    # -- connections -------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.accepted += 1
        try:
            while True:
                request = await self._read(reader)
                if request is None:
                    break
                await self._serve(request, writer)
        except (Cut, ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            pass  # of a test that cuts connections
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader) -> Request | None:
        line = await reader.readline()
        if not line:
            return None
        method, target, _ = line.decode().split()
        headers = {}
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Request(method, target, headers, body)

    async def _serve(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        cut_after = False
        try:
            if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
                raise Refusal(401, "Unauthorized", "Unauthorized")
            if self.fault is not None:
                cut_after = bool(await self.fault(request))
            if request.part == "log":
                await self._log(request, writer)
                return
            if request.watches:
                await self._watch(request, writer)
                return
            code, answer = await self._answer(request)
        except Refusal as refusal:
            code = refusal.code
            answer = {
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
                "reason": refusal.reason, "message": refusal.message,
            }  # fmt: skip
        if self.late is not None:
            await self.late(request)
        if cut_after:
            raise Cut
        self._check(answer, f"answer to {request}")
        data = msgspec.json.encode(answer)
        head = f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        await writer.drain()

    def _check(self, document: dict[str, Any], where: str, name: str | None = None) -> None:
        self.violations += [f"{where}: {problem}" for problem in self._problems(document, name)]

    # -- verbs -------------------------------------------------------------------------------------------

    async def _answer(self, request: Request) -> tuple[int, dict[str, Any]]:
        if request.resource not in KINDS:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        namespace = request.namespace or ""
        if request.method == "POST":
            self._check(request.body, f"body of {request}")
            return 201, await self.store.create(request.resource, namespace, request.body)
        if request.name is None:
            return 200, self._list(request)
        found = self.store.get(request.resource, namespace, request.name)
        if request.method == "PATCH":
            return 200, await self._patch(request, found)
        if request.method == "DELETE":
            self._check(
                {"kind": "DeleteOptions", "apiVersion": "v1", **request.body}, "", "deleteoptions-meta-v1.json"
            )
            return 200, await self._delete(request, found)
        return 200, found

    def _list(self, request: Request) -> dict[str, Any]:
        found = [one for one in self.store.all(request.resource, request.namespace) if self._selected(request, one)]
        at = int(request.query.get("continue", 0))
        most = min(int(request.query.get("limit", self.page_max)), self.page_max)
        meta = {"resourceVersion": str(self.store.version)}
        if at + most < len(found):
            meta["continue"] = str(at + most)
        version, kind = KINDS[request.resource]
        items = [dict(one.items()) for one in found[at : at + most]]
        return {"apiVersion": version, "kind": f"{kind}List", "metadata": meta, "items": items}

    def _selected(self, request: Request, found: dict[str, Any]) -> bool:
        return selects(request.query.get("labelSelector"), request.query.get("fieldSelector"), found)

    async def _patch(self, request: Request, found: dict[str, Any]) -> dict[str, Any]:
        uid = (request.body.get("metadata") or {}).get("uid")
        if uid is not None and uid != found["metadata"]["uid"]:
            raise Refusal(409, "Conflict", "Precondition failed: UID in precondition does not match")
        changed = _merge(copy.deepcopy(found), request.body)
        self._check(changed, f"result of {request}")
        return await self.store.update(request.resource, found, changed)

    async def _delete(self, request: Request, found: dict[str, Any]) -> dict[str, Any]:
        uid = (request.body.get("preconditions") or {}).get("uid")
        if uid is not None and uid != found["metadata"]["uid"]:
            raise Refusal(409, "Conflict", "Precondition failed: UID in precondition does not match")
        if request.resource == "pods":
            await delete_pod(self.store, found, request.body.get("gracePeriodSeconds"))
        elif request.resource == "jobs":
            assert request.body.get("propagationPolicy") == "Foreground", request
            changed = copy.deepcopy(found)
            if not changed["metadata"].get("deletionTimestamp"):
                changed["metadata"]["deletionTimestamp"] = changed["metadata"]["creationTimestamp"]
                changed["metadata"]["finalizers"] = ["foregroundDeletion"]
            await self.store.update("jobs", found, changed)
        else:
            await self.store.remove(request.resource, found)
        return found

    # -- streams -----------------------------------------------------------------------------------------

    async def _watch(self, request: Request, writer: asyncio.StreamWriter) -> None:
        version = int(request.query.get("resourceVersion", self.store.version))
        if version < self.store.oldest:
            raise Refusal(410, "Expired", f"too old resource version: {version}")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        loop = asyncio.get_running_loop()
        ends = loop.time() + float(request.query.get("timeoutSeconds", 300))
        while loop.time() < ends:
            for change in self.store.since(version):
                version = change.version
                event = self._event(request, change)
                if event is not None:
                    self._check(event["object"], "watch")
                    await _chunk(writer, msgspec.json.encode(event) + b"\n")
            if version < self.store.oldest:
                status = {
                    "kind": "Status",
                    "code": 410,
                    "reason": "Expired",
                    "message": "too old",
                    "status": "Failure",
                }
                await _chunk(
                    writer, msgspec.json.encode({"type": "ERROR", "object": {**status, "apiVersion": "v1"}}) + b"\n"
                )
                break
            async with self.store.changed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(0.5, ends - loop.time())):
                        await self.store.changed.wait_for(lambda: self.store.version > version)  # noqa: B023
        writer.write(b"0\r\n\r\n")

    def _event(self, request: Request, change: Any) -> dict[str, Any] | None:
        """As a watch with a selector sees it: what begins to match is added, what no longer does is deleted."""
        meta = change.object["metadata"]
        if change.resource != request.resource or request.namespace not in (None, meta.get("namespace", "")):
            return None
        now = self._selected(request, change.object)
        before = change.before is not None and self._selected(request, change.before)
        if not now and not before:
            return None
        type = change.type if now and (before or change.type == "ADDED") else "ADDED" if now else "DELETED"
        return {"type": type, "object": change.object}

    async def _log(self, request: Request, writer: asyncio.StreamWriter) -> None:
        assert request.namespace is not None
        assert request.name is not None
        pod = self.store.get("pods", request.namespace, request.name)
        log = self.kubelet.log_of(request.namespace, request.name) if self.kubelet else None
        if log is None:
            name = pod["spec"]["containers"][0]["name"]
            raise Refusal(400, "BadRequest", f'container "{name}" in pod "{request.name}" is waiting to start')
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        follow, stamps = request.query.get("follow") == "true", request.query.get("timestamps") == "true"
        pieces = 0
        async for data in log.read(request.query.get("sinceTime"), follow, stamps):
            await _chunk(writer, data)
            pieces += 1
            if pieces == self.log_pieces_max:
                break
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value
    return target
