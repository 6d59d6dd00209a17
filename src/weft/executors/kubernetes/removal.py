"""Ends and removes what an attempt has on a cluster, and verifies that nothing of it is left.

Pods are deleted first, with the grace that was asked for: Kubernetes ends the pods of a deleted Job with the pod's
own grace, and a second deletion can only shorten it. A grace of 0 would remove the pod from the API while its
containers may still run, so the least is one second. A pod whose node does not answer stays until that node or an
operator confirms its end.
"""

import math

from weft.executors.kubernetes.api import Api, decode
from weft.executors.kubernetes.manifest import NAME
from weft.executors.kubernetes.objects import Job, Named, Pod
from weft.executors.protocol import Handle

GRACE_MIN_S = 1


async def ask_to_end(api: Api, handle: Handle, grace_s: float | None) -> None:
    """`grace_s` None: the attempt has ended, and what else is in its pods has their own grace."""
    if grace_s is not None:
        options = {"gracePeriodSeconds": max(GRACE_MIN_S, math.ceil(grace_s))}
        for pod in await _pods(api, handle):
            await api.delete("pods", handle.place, pod.metadata.name, options)
    await api.delete("jobs", handle.place, handle.name, {"propagationPolicy": "Foreground"})


async def what_is_left(api: Api, handle: Handle) -> str | None:
    """What of the attempt the cluster still has, for people; None: nothing. Its Secret is deleted once the pods that
    may need it are gone, should Kubernetes not have done so."""
    job = await api.get(Job, "jobs", handle.place, handle.name)
    pods = await _pods(api, handle)
    if pods:
        node = pods[0].spec.node_name
        return f"its pod {pods[0].metadata.name}" + (f" on node {node}" if node else "")
    if job is not None and is_ours(job, handle):
        return "its Job"
    secret = await api.get(Named, "secrets", handle.place, handle.name)
    if secret is not None and is_ours(secret, handle):
        await api.delete("secrets", handle.place, handle.name, {})
        if await api.get(Named, "secrets", handle.place, handle.name) is not None:
            return "its Secret"
    return None


def is_ours(found: Job | Named, handle: Handle) -> bool:
    return found.metadata.labels.get(NAME) == handle.name


async def _pods(api: Api, handle: Handle) -> list[Pod]:
    items, _ = await api.list("pods", handle.place, {"labelSelector": f"{NAME}={handle.name}"})
    return [decode(item, Pod) for item in items]
