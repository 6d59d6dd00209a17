"""What a pod says about an attempt: waiting and for what, running, ended and how, or without hope."""

from typing import Literal

import msgspec

from weft.executors.kubernetes.manifest import CONTAINER
from weft.executors.kubernetes.objects import ContainerStatus, Pod, Terminated

#: No other try of the kubelet can change these.
_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
#: The kubelet tries again; the attempt fails when it goes on for longer than the executor's patience.
_RETRIED = frozenset({
    "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "CreateContainerConfigError",
    "CreateContainerError", "SignatureValidationFailed",
})  # fmt: skip
#: Reasons of a container's end that say no more than its exit code does.
_PLAIN_ENDS = ("", "Error", "Completed")
_SIGNALS = {137: " (SIGKILL)", 143: " (SIGTERM)", 139: " (SIGSEGV)", 134: " (SIGABRT)"}
OOM = "OOMKilled"


class PodState(msgspec.Struct):
    phase: Literal["waiting", "retried", "hopeless", "running", "ended"]
    text: str = ""  # for people: what it waits for, or why it failed
    exit_code: int | None = None
    oom: bool = False
    ended: Terminated | None = None  # of its container; None: it has no such record


def pod_state(pod: Pod | None) -> PodState:
    if pod is None:
        return PodState("waiting", "its pod is not created yet")
    own = _own(pod.status.container_statuses)
    if own is not None and own.state.terminated is not None:
        return _ended(pod, own.state.terminated)
    if pod.status.phase in ("Failed", "Succeeded"):
        return PodState("ended", _pod_reason(pod) or f"its pod is {pod.status.phase} without a record of its end")
    if own is not None and own.state.running is not None:
        return PodState("running", f"runs on node {pod.spec.node_name}")
    return _waiting(pod, own)


def _ended(pod: Pod, end: Terminated) -> PodState:
    statuses = [*pod.status.container_statuses, *pod.status.init_container_statuses]
    ends = [status.state.terminated for status in statuses]
    oom = end.exit_code != 0 and any(one is not None and one.reason == OOM for one in ends)
    if oom:
        text = f"out of memory: Kubernetes says {OOM}"
    elif end.exit_code == 0 and end.reason in _PLAIN_ENDS:
        text = ""
    else:
        text = f"exit code {end.exit_code}{_SIGNALS.get(end.exit_code, '')}"
        pod_reason = _pod_reason(pod)
        if pod_reason:
            text = f"{pod_reason} ({text})"
        elif end.reason not in _PLAIN_ENDS:
            text = f"{text}: {_said(end.reason, end.message)}"
    return PodState("ended", text, end.exit_code, oom, end)


def _waiting(pod: Pod, own: ContainerStatus | None) -> PodState:
    for status in (*pod.status.init_container_statuses, *([own] if own else [])):
        waiting = status.state.waiting
        if waiting is None:
            continue
        text = _said(waiting.reason, waiting.message)
        if waiting.reason in _HOPELESS:
            return PodState("hopeless", text)
        if waiting.reason in _RETRIED:
            return PodState("retried", text)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return PodState("waiting", _said(condition.reason or "not scheduled", condition.message))
    if not pod.spec.node_name:
        return PodState("waiting", "its pod waits for a node")
    waiting = own.state.waiting if own else None
    if waiting is not None and waiting.reason:
        return PodState("waiting", f"on node {pod.spec.node_name}: {_said(waiting.reason, waiting.message)}")
    return PodState("waiting", f"its pod is assigned to node {pod.spec.node_name}")


def _pod_reason(pod: Pod) -> str:
    """Evicted, NodeLost, DeadlineExceeded, Preempting, …: why Kubernetes itself ended the pod."""
    if pod.status.reason:
        return _said(pod.status.reason, pod.status.message)
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return _said(condition.reason, condition.message)
    return ""


def _own(statuses: list[ContainerStatus]) -> ContainerStatus | None:
    for status in statuses:
        if status.name == CONTAINER:
            return status
    return None


def _said(reason: str, message: str) -> str:
    message = " ".join(message.split())
    if len(message) > 300:
        message = message[:299] + "…"
    return f"{reason}: {message}" if message else reason
