"""What the real API server asks of a node: the logs of its containers, over HTTPS. Registers the node, too, and says
every few seconds that it is well."""

import asyncio
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from weft.executors.kubernetes.api import Api, KubernetesError
from weft.executors.remote.http_connection import Unreachable

if TYPE_CHECKING:
    from tests.kubernetes_cluster.kubelet import TestKubelet

_WELL_EVERY_S = 10.0
_ROOM = {"cpu": "64", "memory": "64Gi", "pods": "500"}


class KubeletServer:
    def __init__(self, kubelet: "TestKubelet", api: Api, node: str, directory: Path) -> None:
        self._kubelet = kubelet
        self._api = api
        self._node = node
        self._directory = directory
        self._server: asyncio.Server | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        self._port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._certificate())
        self._port = self._server.sockets[0].getsockname()[1]
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._node}}
        with suppress(KubernetesError):  # it is there already
            await self._api.request("POST", "/api/v1/nodes", body=body)
        await self._say_well()
        self._heartbeat = asyncio.get_running_loop().create_task(self._beat())

    async def close(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            await asyncio.gather(self._heartbeat, return_exceptions=True)
        if self._server is not None:
            self._server.close()

    def _certificate(self) -> ssl.SSLContext:
        key, certificate = self._directory / "kubelet.key", self._directory / "kubelet.crt"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_WELL_EVERY_S)
            with suppress(KubernetesError, Unreachable):
                await self._say_well()

    async def _say_well(self) -> None:
        from tests.kubernetes_cluster.kubelet import now_text

        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a test's"}
        status: dict[str, Any] = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
            "capacity": _ROOM,
            "allocatable": _ROOM,
            "conditions": [{**ready, "lastHeartbeatTime": now_text(), "lastTransitionTime": now_text()}],
        }
        path = f"/api/v1/nodes/{self._node}/status"
        content = "application/strategic-merge-patch+json"
        await self._api.request("PATCH", path, body={"status": status}, content=content)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await reader.readline()).decode().split()
            while (await reader.readline()).strip():
                pass
            url = urlsplit(line[1])
            query = {key: values[-1] for key, values in parse_qs(url.query).items()}
            _, kind, namespace, pod, _ = url.path.split("/")
            log = self._kubelet.log_of(namespace, pod)
            if kind != "containerLogs" or log is None:
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
            follow, stamps = query.get("follow") == "true", query.get("timestamps") == "true"
            async for data in log.read(query.get("sinceTime"), follow, stamps):
                writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except (ConnectionError, IndexError, ValueError, ssl.SSLError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
