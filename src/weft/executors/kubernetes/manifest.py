"""What is created for an attempt: a Job that starts suspended, and a Secret that the Job owns.

The Job makes exactly one pod: `backoffLimit: 0` counts any failure of it, an eviction included, as the Job's own,
and `podReplacementPolicy: Failed` replaces no pod that is only about to end. Secrets and $WEFT_INPUT are in the
Secret, never in the Job, which more people may read.
"""

import base64
import hashlib
import re
from typing import Any

from weft.executors.kubernetes.pod_patch import merge_patch
from weft.executors.protocol import Handle, Launch
from weft.executors.remote.names import attempt_name, readable_name

CONTAINER = "task"  # the name of the attempt's own container
OUTPUT_FILE = "/dev/termination-log"
INPUT_DIR = "/var/run/weft"
INPUT_FILE = "input.json"
#: After this a Job that ended and that no node removed is removed by Kubernetes.
TTL_S = 3600
#: What a Secret may hold.
SECRET_BYTES_MAX = 1024 * 1024

RUN, TASK, ATTEMPT, PROCESS = "weft.run", "weft.task", "weft.attempt", "weft.process"
NAME, ADOPTABLE, READABLE = "weft.name", "weft.adoptable", "weft.readable"

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_SHELLS = {"sh": ["/bin/sh", "-e", "-c"], "bash": ["bash", "-eo", "pipefail", "-c"]}
_MOUNT = ("mountPath", "readOnly", "subPath", "subPathExpr", "mountPropagation", "recursiveReadOnly")
_PULL = {"missing": "IfNotPresent", "always": "Always", "never": "Never"}


class BadTask(Exception):
    """The task's spec cannot be turned into a Job."""


def name_of(launch: Launch) -> str:
    return attempt_name(launch.run_id, launch.task, launch.attempt)


def labels_of(launch: Launch, handle: Handle, process: str) -> dict[str, str]:
    labels = {
        RUN: label_value(launch.run_id),
        TASK: label_value(launch.task),
        ATTEMPT: str(launch.attempt),
        PROCESS: process,
        NAME: handle.name,
    }
    if launch.adoptable:
        labels[ADOPTABLE] = "true"
    return labels


def label_value(text: str) -> str:
    """The text where a label can hold it, else a hash of it; an annotation has the readable form."""
    return text if _LABEL.fullmatch(text) else "sha256-" + hashlib.sha256(text.encode()).hexdigest()[:32]


def job_manifest(launch: Launch, handle: Handle, process: str) -> dict[str, Any]:
    labels = labels_of(launch, handle, process)
    annotations = {READABLE: readable_name(launch.run_id, launch.task, launch.attempt)}
    template = _patched(launch, {"metadata": {"annotations": annotations}, "spec": _pod_spec(launch, handle)})
    template["metadata"] = {**template["metadata"], "labels": {**template["metadata"].get("labels", {}), **labels}}
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": handle.name,
            "namespace": handle.place,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "suspend": True,
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": TTL_S,
            "template": template,
        },
    }


def secret_manifest(launch: Launch, handle: Handle, process: str, job_uid: str) -> dict[str, Any] | None:
    """None: the attempt has neither secrets nor an input."""
    data = {name: value.encode("utf-8", "surrogateescape") for name, value in launch.secrets.items()}
    if launch.input is not None:
        data[INPUT_FILE] = launch.input
    if not data:
        return None
    size = sum(len(name) + len(value) for name, value in data.items())
    if size > SECRET_BYTES_MAX:
        raise BadTask(f"its secrets and $WEFT_INPUT have {size:,} bytes; a Secret holds {SECRET_BYTES_MAX:,}")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": handle.name, "uid": job_uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": handle.name,
            "namespace": handle.place,
            "labels": labels_of(launch, handle, process),
            "ownerReferences": [owner],
        },
        "immutable": True,
        "type": "Opaque",
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def literal(text: str) -> str:
    """Kubernetes replaces $(NAME) in environments, commands and arguments, and $$ by $: this text stays as it is."""
    return text.replace("$", "$$")


def _pod_spec(launch: Launch, handle: Handle) -> dict[str, Any]:
    given = launch.spec.get("kubernetes")
    if not isinstance(given, dict) or not isinstance(given.get("image"), str):
        raise BadTask("kubernetes needs an image")
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": given["image"],
        "env": _environment(launch, handle, given),
        "terminationMessagePath": OUTPUT_FILE,
        "terminationMessagePolicy": "File",
        **_command(launch.spec, given),
    }
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    resources = _resources(launch.requires, given.get("resources"))
    if resources:
        container["resources"] = resources
    if given.get("pull"):
        container["imagePullPolicy"] = _PULL[given["pull"]]
    for key, field in (
        ("node_selector", "nodeSelector"), ("tolerations", "tolerations"), ("service_account", "serviceAccountName")
    ):  # fmt: skip
        if given.get(key):
            spec[field] = given[key]
    _add_volumes(spec, container, launch, handle, given.get("volumes") or ())
    return spec


def _command(spec: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """`run` and `argv` are taken literally; `command` and `args` are Kubernetes' own, $(NAME) included."""
    if spec.get("run") is not None:
        shell = spec.get("shell") or "sh"
        prefix = _SHELLS.get(shell) if isinstance(shell, str) else list(shell)
        if prefix is None:
            raise BadTask(f"shell must be sh, bash or a list, not {shell!r}")
        return {"command": [*map(literal, prefix), literal(spec["run"])]}
    if spec.get("argv") is not None:
        return {"command": list(map(literal, spec["argv"]))}
    return {key: list(given[key]) for key in ("command", "args") if given.get(key)}


def _environment(launch: Launch, handle: Handle, given: dict[str, Any]) -> list[dict[str, Any]]:
    values = {**{name: str(value) for name, value in (given.get("env") or {}).items()}, **launch.env}
    values["WEFT_OUTPUT"] = OUTPUT_FILE
    if launch.input is not None:
        values["WEFT_INPUT"] = f"{INPUT_DIR}/{INPUT_FILE}"
    out: list[dict[str, Any]] = [
        {"name": name, "value": literal(value)} for name, value in values.items() if name not in launch.secrets
    ]
    for name in launch.secrets:
        out.append({"name": name, "valueFrom": {"secretKeyRef": {"name": handle.name, "key": name}}})
    return out


def _resources(requires: dict[str, Any], given: dict[str, Any] | None) -> dict[str, Any]:
    """What was reserved becomes limits; `resources` may say more, and wins."""
    limits: dict[str, Any] = {}
    if requires.get("memory"):
        limits["memory"] = str(int(requires["memory"]))
    if requires.get("cpus"):
        limits["cpu"] = f"{round(float(requires['cpus']) * 1000)}m"
    if requires.get("gpu"):
        limits["nvidia.com/gpu"] = str(int(requires["gpu"]))
    out = {"limits": limits} if limits else {}
    return merge_patch(out, given) if given else out


def _add_volumes(spec: dict[str, Any], container: dict[str, Any], launch: Launch, handle: Handle, given: Any) -> None:
    """Kubernetes' volumes, each with the keys of its mount beside its own: `mountPath`, and those of _MOUNT."""
    volumes, mounts = [], []
    for volume in given:
        if not volume.get("mountPath") or not volume.get("name"):
            raise BadTask("each of volumes needs a name and a mountPath, its path in the container")
        mounts.append({"name": volume["name"], **{key: volume[key] for key in _MOUNT if key in volume}})
        volumes.append({key: value for key, value in volume.items() if key not in _MOUNT})
    if launch.input is not None:
        items = [{"key": INPUT_FILE, "path": INPUT_FILE}]
        volumes.append({"name": "weft-input", "secret": {"secretName": handle.name, "items": items}})
        mounts.append({"name": "weft-input", "mountPath": INPUT_DIR, "readOnly": True})
    if volumes:
        spec["volumes"], container["volumeMounts"] = volumes, mounts


def _patched(launch: Launch, template: dict[str, Any]) -> dict[str, Any]:
    """`pod` patches the pod's spec, or, with `metadata` or `spec` as its only keys, the whole template."""
    patch = launch.spec["kubernetes"].get("pod")
    if not patch:
        return template
    if not set(patch) <= {"metadata", "spec"}:
        patch = {"spec": patch}
    try:
        return merge_patch(template, patch)
    except AttributeError:
        raise BadTask("pod: a list of named things needs mappings as its items") from None
