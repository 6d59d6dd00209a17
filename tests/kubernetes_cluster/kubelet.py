"""A small kubelet for tests: runs the pods that are bound to its node as plain processes of this machine, through the
API server that it is given, fake or real.

It does what the executor relies on: phases and reasons, images that cannot be pulled, environments with $(NAME) and
Secrets, termination messages of at most 4 KiB, memory limits, graceful deletion, logs with timestamps and
`sinceTime`. There are no mounts: a path of the container that stands in its environment is replaced by one of this
machine.
"""

import asyncio
import base64
import contextlib
import os
import re
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil

from tests.kubernetes_cluster.kubelet_server import KubeletServer
from weft.executors.kubernetes.api import Api, KubernetesError
from weft.executors.remote.http_connection import Unreachable

NODE = "weft-test-node"
MESSAGE_BYTES_MAX = 4096
_REFERENCE = re.compile(r"\$(?:\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/-]*(:[\w.-]+)?")
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 10**3, "M": 10**6, "G": 10**9}


class Log:
    """The lines of a container, each with its time in nanoseconds."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, bytes]] = []
        self.ended = False
        self._changed = asyncio.Event()

    def add(self, data: bytes) -> None:
        for part in data.splitlines(keepends=True):
            if self.lines and not self.lines[-1][1].endswith(b"\n"):
                self.lines[-1] = (self.lines[-1][0], self.lines[-1][1] + part)
            else:
                self.lines.append((time.time_ns(), part))
        self._wake()

    def end(self) -> None:
        self.ended = True
        self._wake()

    def rotate(self, keep: int) -> None:
        """Forget all but the last lines, as a node does with a log that is too large."""
        del self.lines[: max(0, len(self.lines) - keep)]

    async def read(self, since: str | None, follow: bool, stamps: bool) -> AsyncIterator[bytes]:
        """Only a line's first piece has a timestamp. `since` counts in seconds."""
        since_ns = 0
        if since:
            since_ns = int(datetime.fromisoformat(since.replace("Z", "+00:00")).timestamp()) * 10**9
        at, inside = 0, 0
        while True:
            out = []
            while at < len(self.lines):
                when, line = self.lines[at]
                if when >= since_ns:
                    if inside == 0 and line and stamps:
                        out.append(stamp(when) + b" ")
                    out.append(line[inside:])
                if not line.endswith(b"\n"):
                    inside = len(line)
                    break
                at, inside = at + 1, 0
            if any(out):
                yield b"".join(out)
            if self.ended or not follow:
                return
            self._changed.clear()
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()


def stamp(when_ns: int) -> bytes:
    second, rest = divmod(when_ns, 10**9)
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z".encode()


def now_text() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


class RunningPod:
    def __init__(self, pod: dict[str, Any]) -> None:
        self.pod = pod
        self.log = Log()
        self.process: asyncio.subprocess.Process | None = None
        self.deleting = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.grace_s = 30.0
        self.out_of_memory = False

    @property
    def key(self) -> tuple[str, str]:
        return self.pod["metadata"]["namespace"], self.pod["metadata"]["name"]


class TestKubelet:
    __test__ = False

    def __init__(self, api: Api, mark: str = "") -> None:
        self._api = api
        self._mark = mark
        self.pods: dict[str, RunningPod] = {}  # by uid
        self._loop_task: asyncio.Task[None] | None = None
        self._server: KubeletServer | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="weft-test-kubelet-")
        self.started: list[str] = []  # names of the pods whose processes were started
        self.frozen = False  # a node that does not answer: it does nothing, and its processes go on

    @property
    def directory(self) -> Path:
        """Where its processes start."""
        return Path(self._directory.name)

    async def open(self, serve: bool = False) -> None:
        """`serve`: register a node at the API server, and give it the logs over HTTPS."""
        if serve:
            self._server = KubeletServer(self, self._api, NODE, self.directory)
            await self._server.open()
        self._loop_task = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
        tasks = [self._loop_task, *(pod.task for pod in self.pods.values())]
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
        for pod in self.pods.values():
            if pod.process is not None and pod.process.returncode is None:
                kill(pod.process, signal.SIGKILL)
                await pod.process.wait()
        self._directory.cleanup()

    def log_of(self, namespace: str, name: str) -> Log | None:
        for pod in self.pods.values():
            if pod.key == (namespace, name) and pod.process is not None:
                return pod.log
        return None

    # -- what is bound to this node ----------------------------------------------------------------------

    async def _watch(self) -> None:
        selector = {"fieldSelector": f"spec.nodeName={NODE}"}
        while True:
            try:
                answer = msgspec.json.decode(await self._api.request("GET", "/api/v1/pods", selector))
                for pod in answer["items"]:
                    self._take({"apiVersion": "v1", "kind": "Pod", **pod}, False)
                query = {**selector, "watch": "true", "resourceVersion": answer["metadata"]["resourceVersion"]}
                async with self._api.stream("/api/v1/pods", query) as stream:
                    rest = b""
                    while data := await stream.read():
                        *lines, rest = (rest + data).split(b"\n")
                        for line in lines:
                            event = msgspec.json.decode(line)
                            if event["type"] == "ERROR":
                                raise Unreachable("too old")
                            self._take(event["object"], event["type"] == "DELETED")
            except (Unreachable, KubernetesError):
                await asyncio.sleep(0.1)

    def _take(self, pod: dict[str, Any], gone: bool) -> None:
        uid = pod["metadata"]["uid"]
        known = self.pods.get(uid)
        if known is None and not gone and pod["status"].get("phase") in (None, "Pending"):
            known = self.pods[uid] = RunningPod(pod)
            known.task = asyncio.get_running_loop().create_task(self._run(known))
        if known is not None and (gone or pod["metadata"].get("deletionTimestamp")):
            known.grace_s = 0.0 if gone else float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            known.deleting.set()

    async def _run(self, pod: RunningPod) -> None:
        try:
            await self._live(pod)
            await pod.deleting.wait()
            await self._insist("DELETE", pod, "", {"gracePeriodSeconds": 0})
        except asyncio.CancelledError:
            raise
        except Exception as error:
            print(f"test kubelet: {error!r}")  # shown with the failing test
            raise

    async def _live(self, pod: RunningPod) -> None:
        while self.frozen:
            await asyncio.sleep(0.02)
        spec = pod.pod["spec"]
        container = spec["containers"][0]
        problem = image_problem(container["image"], container.get("imagePullPolicy"))
        if problem is not None:
            await self._report(
                pod, "Pending", {"waiting": {"reason": problem, "message": f"cannot pull {container['image']}"}}
            )
            return
        await self._report(pod, "Pending", {"waiting": {"reason": "ContainerCreating"}})
        try:
            environment, message = await self._environment(pod, container)
        except KubernetesError as error:
            await self._report(
                pod, "Pending", {"waiting": {"reason": "CreateContainerConfigError", "message": str(error)}}
            )
            return
        if pod.deleting.is_set():
            await self._report(pod, "Failed", ended(137, "Error", now_text()))
            return
        command = [expand(word, environment) for word in (*container.get("command", ()), *container.get("args", ()))]
        began = now_text()
        try:
            pod.process = await asyncio.create_subprocess_exec(
                *command, env=environment, cwd=self._directory.name, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            await self._report(pod, "Failed", ended(128, "StartError", began, f"{command[0]}: {error.strerror}"))
            return
        self.started.append(pod.key[1])
        await self._report(pod, "Running", {"running": {"startedAt": began}})
        code = await self._until_end(pod, memory_limit(container))
        while self.frozen:
            await asyncio.sleep(0.02)
        reason = "OOMKilled" if pod.out_of_memory else "Completed" if code == 0 else "Error"
        text = message.read_bytes()[:MESSAGE_BYTES_MAX].decode("utf-8", "replace") if message.exists() else ""
        await self._report(pod, "Succeeded" if code == 0 else "Failed", ended(code, reason, began, text))

    async def _until_end(self, pod: RunningPod, memory_max: int | None) -> int:
        process = pod.process
        assert process is not None
        reading = asyncio.create_task(self._read(pod, process))
        watching = asyncio.create_task(self._watch_memory(pod, memory_max)) if memory_max else None
        exit_ = asyncio.create_task(exit_code(process))
        deleting = asyncio.create_task(pod.deleting.wait())
        try:
            await asyncio.wait([exit_, deleting], return_when=asyncio.FIRST_COMPLETED)
            if not exit_.done():
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)  # to the container's first process only
                begun = time.monotonic()
                while not exit_.done() and time.monotonic() - begun < pod.grace_s:
                    await asyncio.wait([exit_], timeout=0.05)  # the grace may be shortened meanwhile
                if not exit_.done():
                    kill(process, signal.SIGKILL)
            code = await exit_
            kill(process, signal.SIGKILL)  # what the first process of the container leaves ends with it
            await reading
        finally:
            for task in (reading, watching, deleting, exit_):
                if task is not None:
                    task.cancel()
        pod.log.end()
        return code if code >= 0 else 128 - code

    async def _read(self, pod: RunningPod, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while data := await process.stdout.read(65536):
            pod.log.add(data)

    async def _watch_memory(self, pod: RunningPod, most: int) -> None:
        assert pod.process is not None
        while True:
            with contextlib.suppress(psutil.Error):
                family = psutil.Process(pod.process.pid)
                used = sum(one.memory_info().rss for one in (family, *family.children(recursive=True)))
                if used > most:
                    pod.out_of_memory = True
                    kill(pod.process, signal.SIGKILL)
                    return
            await asyncio.sleep(0.02)

    # -- what a container sees ---------------------------------------------------------------------------

    async def _environment(self, pod: RunningPod, container: dict[str, Any]) -> tuple[dict[str, str], Path]:
        root = Path(self._directory.name) / pod.pod["metadata"]["uid"]
        root.mkdir()
        message = root / "termination-log"
        places = {container["terminationMessagePath"]: str(message)}
        secrets = await self._secrets(pod, container)
        for volume in pod.pod["spec"].get("volumes") or ():
            if "secret" not in volume:
                continue
            (mount,) = [m for m in container["volumeMounts"] if m["name"] == volume["name"]]
            for item in volume["secret"].get("items") or ():
                (root / item["path"]).write_bytes(secrets[volume["secret"]["secretName"]][item["key"]])
                places[f"{mount['mountPath']}/{item['path']}"] = str(root / item["path"])
        out = {"PATH": os.environ["PATH"], **({"MARK": self._mark} if self._mark else {})}
        for variable in container.get("env") or ():
            if "value" in variable:
                value = expand(variable["value"], out)
                out[variable["name"]] = places.get(value, value)
            elif "valueFrom" in variable:
                key = variable["valueFrom"]["secretKeyRef"]
                out[variable["name"]] = secrets[key["name"]][key["key"]].decode("utf-8", "surrogateescape")
        return out, message

    async def _secrets(self, pod: RunningPod, container: dict[str, Any]) -> dict[str, dict[str, bytes]]:
        names = {v["secret"]["secretName"] for v in pod.pod["spec"].get("volumes") or () if "secret" in v}
        for variable in container.get("env") or ():
            if "secretKeyRef" in (variable.get("valueFrom") or {}):
                names.add(variable["valueFrom"]["secretKeyRef"]["name"])
        found = {}
        for name in names:
            path = f"/api/v1/namespaces/{pod.key[0]}/secrets/{name}"
            secret = msgspec.json.decode(await self._api.request("GET", path))
            found[name] = {key: base64.b64decode(value) for key, value in secret["data"].items()}
        return found

    # -- reports -----------------------------------------------------------------------------------------

    async def _report(self, pod: RunningPod, phase: str, state: dict[str, Any]) -> None:
        container = pod.pod["spec"]["containers"][0]
        status = {
            "name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
            "ready": "running" in state, "started": "running" in state, "state": state,
        }  # fmt: skip
        body = {"status": {"phase": phase, "startTime": now_text(), "containerStatuses": [status]}}
        await self._insist("PATCH", pod, "/status", body)

    async def _insist(self, method: str, pod: RunningPod, part: str, body: dict[str, Any]) -> None:
        path = "/api/v1/namespaces/{}/pods/{}".format(*pod.key) + part
        content = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        while True:
            try:
                await self._api.request(method, path, body=body, content=content)
                return
            except KubernetesError as error:
                if error.status == 404:
                    return
                if not error.passing:
                    raise
            except Unreachable:
                pass
            await asyncio.sleep(0.1)


async def exit_code(process: asyncio.subprocess.Process) -> int:
    """Its own end, where `wait` also waits for all that hold its pipe."""
    while process.returncode is None:
        await asyncio.sleep(0.01)
    return process.returncode


def ended(code: int, reason: str, began: str, message: str = "") -> dict[str, Any]:
    end = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now_text()}
    return {"terminated": {**end, **({"message": message} if message else {})}}


def image_problem(image: str, pull: str | None) -> str | None:
    if not _IMAGE.fullmatch(image):
        return "InvalidImageName"
    if "missing" in image:
        return "ErrImageNeverPull" if pull == "Never" else "ImagePullBackOff"
    return None


def expand(text: str, environment: dict[str, str]) -> str:
    """$(NAME) becomes its value, where it has one; $$ becomes $."""

    def replaced(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        return environment.get(match[1], match[0])

    return _REFERENCE.sub(replaced, text)


def memory_limit(container: dict[str, Any]) -> int | None:
    text = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    if text is None:
        return None
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    return int(text)


def kill(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
