"""From a launch to the request that creates its container. Pure: it asks nobody and writes nothing."""

import os
from collections.abc import Mapping
from typing import Any

from weft.executors.container.address import EngineFacts
from weft.executors.container.mounted_files import INSIDE, variables
from weft.executors.protocol import Launch
from weft.executors.shell.executor import BadCommand, command

ANSWER_VARIABLES = ("WEFT_OUTPUT", "WEFT_CONTEXT", "WEFT_INPUT")
_PODMAN_GPUS = (5, 4)  # the first Podman whose Docker API knows GPUs
_LOG = {"Type": "json-file", "Config": {}}  # what Podman calls k8s-file; others lose lines, or cannot be read


class BadContainer(Exception):
    """The task cannot run as a container here; the message says why."""


def container_of(launch: Launch) -> dict[str, Any]:
    container = launch.spec.get("container")
    if not isinstance(container, dict) or not isinstance(container.get("image"), str) or not container["image"]:
        raise BadContainer("container has no image")
    return container


def secret_files(launch: Launch) -> dict[str, str]:
    """The secrets that are given as files."""
    return launch.secrets if container_of(launch).get("secrets_as") == "files" else {}


def create_request(
    launch: Launch, labels: dict[str, str], files_path: str | None, facts: EngineFacts
) -> dict[str, Any]:
    """`files_path` is the attempt's private directory; None: the engine is on another machine."""
    container = container_of(launch)
    if files_path is None:
        _check_remote(launch, container)
    entrypoint, arguments = _command(launch, container)
    body: dict[str, Any] = {
        "Image": container["image"],
        "Env": [f"{name}={value}" for name, value in _environment(launch, container, files_path).items()],
        "Labels": labels,
        "AttachStdin": False,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "OpenStdin": False,
        "HostConfig": _host_config(launch, container, files_path, facts),
    }
    if entrypoint is not None:
        body["Entrypoint"] = entrypoint
    if arguments is not None:
        body["Cmd"] = arguments
    workdir = container.get("workdir")
    if workdir is None and files_path is not None and container.get("mount") != "none":
        workdir = launch.cwd
    if workdir is not None:
        body["WorkingDir"] = workdir
    if container.get("user") is not None:
        body["User"] = str(container["user"])
    return body


def _command(launch: Launch, container: Mapping[str, Any]) -> tuple[list[str] | None, list[str] | None]:
    """Entrypoint and arguments; None: the image's own. `run`, `argv` and `function` replace the image's entrypoint,
    unless `entrypoint` names one: then they are its arguments. An empty one is none: engines differ in how they want
    to be asked for that, so the program itself takes its place."""
    entrypoint = container.get("entrypoint")
    if "function" in launch.spec:
        words = ["python3", f"{INSIDE}/call_function.py"]
    elif "run" in launch.spec or "argv" in launch.spec:
        try:
            words = [word.decode("utf-8", "surrogateescape") for word in command(launch.spec)[0]]
        except BadCommand as error:
            raise BadContainer(str(error)) from None
    else:
        words = [*(container.get("command") or []), *(container.get("args") or [])]
        if entrypoint != [] or not words:
            return entrypoint, words or None
    if entrypoint:
        return entrypoint, words
    return words[:1], words[1:]


def _environment(launch: Launch, container: Mapping[str, Any], files_path: str | None) -> dict[str, str]:
    env = {**launch.env, **{name: str(value) for name, value in (container.get("env") or {}).items()}}
    env = {name: value for name, value in env.items() if name not in ANSWER_VARIABLES}
    files = secret_files(launch)
    if files_path is not None:
        env |= variables(launch, files)
    if not files:
        env |= launch.secrets
    return env


def _host_config(
    launch: Launch, container: Mapping[str, Any], files_path: str | None, facts: EngineFacts
) -> dict[str, Any]:
    host: dict[str, Any] = {"LogConfig": _LOG, "RestartPolicy": {"Name": "no"}, "AutoRemove": False}
    if mounts := _mounts(launch, container, files_path):
        host["Mounts"] = mounts
    if container.get("volumes"):
        host["Binds"] = [_bind(volume, launch) for volume in container["volumes"]]
    if container.get("network") is not None:
        host["NetworkMode"] = container["network"]
    if container.get("read_only"):
        host["ReadonlyRootfs"] = True
    if container.get("cap_drop"):
        host["CapDrop"] = list(container["cap_drop"])
    if container.get("init") is not None:
        host["Init"] = bool(container["init"])
    if memory := launch.requires.get("memory"):
        host["Memory"] = host["MemorySwap"] = int(memory)  # no swap beyond it
    if cpus := launch.requires.get("cpus"):
        host["NanoCpus"] = round(float(cpus) * 1e9)
    if gpus := int(container.get("gpus") or launch.requires.get("gpu") or 0):
        host["DeviceRequests"] = _gpus(gpus, facts)
    return host


def _mounts(launch: Launch, container: Mapping[str, Any], files_path: str | None) -> list[dict[str, Any]]:
    if files_path is None:
        return []
    mounts = [{"Type": "bind", "Source": files_path, "Target": INSIDE, "ReadOnly": False}]
    mode = container.get("mount") or "ro"
    if mode == "none":
        return mounts
    roots: list[str] = []
    for path in (launch.source, launch.cwd):
        if path is not None and not any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots):
            if path == "/":
                raise BadContainer("the definition's directory is /, which cannot be mounted: say mount: none")
            roots.append(path)
    return mounts + [{"Type": "bind", "Source": root, "Target": root, "ReadOnly": mode != "rw"} for root in roots]


def _bind(volume: str, launch: Launch) -> str:
    """A host path that begins with a dot is relative to the definition's directory; a plain word is a volume of the
    engine."""
    host, colon, rest = volume.partition(":")
    if not colon:
        raise BadContainer(f"volumes: {volume!r} must be HOST:INSIDE or HOST:INSIDE:ro")
    if host.startswith("."):
        root = launch.source or launch.cwd
        if root is None:
            raise BadContainer(f"volumes: {volume!r} is relative, and the definition came without a directory")
        host = os.path.normpath(os.path.join(root, host))
    return f"{host}:{rest}"


def _gpus(count: int, facts: EngineFacts) -> list[dict[str, Any]]:
    if facts.flavor == "docker":
        return [{"Driver": "", "Count": count, "Capabilities": [["gpu"]]}]
    if facts.version < _PODMAN_GPUS:
        version = ".".join(map(str, facts.version))
        raise BadContainer(f"Podman {version} gives no GPUs through its Docker API; Podman 5.4 and Docker do")
    return [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={number}" for number in range(count)]}]


def _check_remote(launch: Launch, container: Mapping[str, Any]) -> None:
    """Raises BadContainer if the attempt needs files of this machine."""
    where = "the container engine is on another machine, which cannot see this machine's files"
    if container.get("mount") != "none":
        raise BadContainer(f"{where}: the definition's directory cannot be mounted; say mount: none")
    if "function" in launch.spec:
        raise BadContainer(f"{where}: a Python function cannot be called there; use command or run")
    if launch.input is not None:
        raise BadContainer(f"{where}: `with` ($WEFT_INPUT) does not work there; use env or args")
    if container.get("secrets_as") == "files" and launch.secrets:
        raise BadContainer(f"{where}: secrets_as: files does not work there; use secrets_as: env")
    texts = [launch.spec.get("run"), launch.spec.get("argv"), container.get("command"), container.get("args")]
    for name in ANSWER_VARIABLES:
        if any(name in str(text) for text in texts if text is not None):
            raise BadContainer(f"{where}: ${name} does not work there")
