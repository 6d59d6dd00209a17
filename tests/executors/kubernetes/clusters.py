"""A Kubernetes executor for tests, on the fake API server or, in `make test-kubernetes`, on the real one. In both
cases the test kubelet runs the pods."""

import asyncio
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.executors.attempts import Attempts, processes_with
from tests.executors.kubernetes.fake_api import TOKEN, FakeApi
from tests.kubernetes_cluster.kubelet import TestKubelet
from weft.executors.kubernetes.api import Api
from weft.executors.kubernetes.cluster_config import load_config
from weft.executors.kubernetes.executor import KubernetesExecutor
from weft.executors.kubernetes.objects import Named
from weft.executors.output import output_path
from weft.executors.protocol import Launch, Outcome

#: The kubeconfig of a real control plane; set by `make test-kubernetes`.
REAL = os.environ.get("WEFT_TEST_KUBECONFIG")
CLUSTERS = ["fake", *(["real"] if REAL else [])]
IMAGE = "weft-test"


def kubeconfig(path: Path, port: int, token: str = TOKEN) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    return path


class Cluster(Attempts):
    """`async with Cluster(tmp_path) as cluster: outcome = await cluster.run("echo hello")`"""

    def __init__(self, directory: Path, real: bool = False, **options: Any) -> None:
        self.mark = secrets.token_hex(8)
        self.run_id = f"r{self.mark}"
        self.real = real
        self.fake = FakeApi()
        self._options = options
        self.progress: list[str] = []
        self._directory = directory
        self._own: list[KubernetesExecutor] = []

    async def __aenter__(self) -> "Cluster":
        if self.real:
            assert REAL is not None
            self.config = Path(REAL)
        else:
            await self.fake.open()
            self.config = kubeconfig(self._directory / "kubeconfig", self.fake.port)
        admin = os.environ["WEFT_TEST_ADMIN_KUBECONFIG"] if self.real else str(self.config)
        self.api = Api(load_config({"KUBECONFIG": admin}))
        self.kubelet = TestKubelet(self.api, self.mark)
        self.fake.kubelet = self.kubelet
        await self.kubelet.open(serve=self.real)
        self.executor = await self.another_executor()
        super().__init__(self._directory, "kubernetes", self.executor, self.mark)
        return self

    async def __aexit__(self, *_: object) -> None:
        for executor in self._own:
            await executor.close()
        left = await self.objects_left()
        await self.kubelet.close()
        self.api.close()
        if not self.real:
            await self.fake.close()
        assert self.fake.violations == []
        assert left == []
        assert processes_with(self.mark) == []

    async def another_executor(self) -> KubernetesExecutor:
        executor = KubernetesExecutor({"KUBECONFIG": str(self.config)}, **self._options)
        self._own.append(executor)
        await executor.open()
        assert await executor.check() is None
        return executor

    async def objects_left(self) -> list[str]:
        out = []
        for resource in ("jobs", "pods", "secrets"):
            for namespace in ("default", "other"):
                query = {"labelSelector": f"weft.run={self.run_id}"}
                items, _ = await self.api.list(resource, namespace, query)
                out += [f"{resource} {bytes(item)[:200]!r}" for item in items]
        return out

    async def find(self, resource: str, name: str, namespace: str = "default") -> Named | None:
        return await self.api.get(Named, resource, namespace, name)

    def launch(self, what: str | dict[str, Any], **changes: Any) -> Launch:
        spec = {"kubernetes": {"image": IMAGE}, "run": what} if isinstance(what, str) else what
        executor = changes.pop("executor", self.executor)
        changes.setdefault("run_id", self.run_id)
        changes.setdefault("progress", lambda task, attempt, text: self.progress.append(text))
        launch = self.launch_of(spec, changes)
        launch.handle = launch.handle or executor.handle(launch)
        return launch

    def start(self, what: str | dict[str, Any], **changes: Any) -> tuple[Launch, "asyncio.Future[Outcome]"]:
        return self.begin(self.launch(what, **changes))

    async def run(self, what: str | dict[str, Any], **changes: Any) -> Outcome:
        return await asyncio.wait_for(self.start(what, **changes)[1], 60)

    async def until(self, what: Callable[[], bool], within_s: float = 30.0) -> None:
        end = time.monotonic() + within_s
        while not what():
            assert time.monotonic() < end, (self.progress, self.outcomes)
            await asyncio.sleep(0.005)

    def stored(self, launch: Launch) -> bytes:
        path = Path(output_path(launch.output_dir, launch.task, launch.attempt, "stdout"))
        return path.read_bytes() if path.exists() else b""

    async def until_printed(self, launch: Launch, text: bytes) -> None:
        await self.until(lambda: text in self.stored(launch))
