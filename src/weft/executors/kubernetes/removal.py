"""Ends and removes what an attempt has on a cluster, and verifies that nothing of it is left.

Pods are deleted first, with the grace that was asked for: Kubernetes ends the pods of a deleted Job with the pod's
own grace, and a second deletion can only shorten it. A grace of 0 would remove the pod from the API while its
containers may still run, so the least is one second. A pod whose node does not answer stays until that node or an
operator confirms its end.
"""

import math
from typing import Any

from weft.executors.kubernetes.api import Api, KubernetesError, decode
from weft.executors.kubernetes.manifest import NAME, PROCESS
from weft.executors.kubernetes.objects import Job, Named, Pod
from weft.executors.protocol import Handle

GRACE_MIN_S = 1


class Removal:
    """Touches only what carries the attempt's name in Weft's label and, if `process` is given, that process's id."""

    def __init__(self, api: Api, handle: Handle, process: str | None, has_secret: bool = True) -> None:
        self._api = api
        self._handle = handle
        self._process = process
        self._has_secret = has_secret

    async def ask(self, grace_s: float | None) -> None:
        """Ask for the end of all that is there. `grace_s` None: the attempt has ended, and what else is in its pods
        has their own grace."""
        job = await self._job()
        if job is None or grace_s is not None:  # pods without their Job are removed by nobody else
            options = {} if grace_s is None else {"gracePeriodSeconds": max(GRACE_MIN_S, math.ceil(grace_s))}
            for pod in await self._pods():
                await self._api.delete("pods", self._handle.place, pod.metadata.name, options)
        if job is not None:
            await self._delete("jobs", job, {"propagationPolicy": "Foreground"})

    async def left(self) -> str | None:
        """What the cluster still has, for people; None: nothing. A Secret is deleted once the pods that may need it
        are gone, should Kubernetes not have done so."""
        job = await self._job()
        pods = await self._pods()
        if pods:
            node = pods[0].spec.node_name
            return f"its pod {pods[0].metadata.name}" + (f" on node {node}" if node else "")
        if job is not None:
            return "its Job"
        secret = await self._secret() if self._has_secret else None
        if secret is not None:
            await self._delete("secrets", secret, {})
            return "its Secret" if await self._secret() is not None else None
        return None

    async def _delete(self, resource: str, found: Job | Named, options: dict[str, Any]) -> None:
        """This very object, and not another one that has its name since."""
        try:
            uid = {"preconditions": {"uid": found.metadata.uid}}
            await self._api.delete(resource, self._handle.place, self._handle.name, {**options, **uid})
        except KubernetesError as error:
            if error.status != 409:
                raise

    async def _job(self) -> Job | None:
        found = await self._api.get(Job, "jobs", self._handle.place, self._handle.name)
        return found if found is not None and self._is_ours(found) else None

    async def _secret(self) -> Named | None:
        found = await self._api.get(Named, "secrets", self._handle.place, self._handle.name)
        return found if found is not None and self._is_ours(found) else None

    async def _pods(self) -> list[Pod]:
        query = {"labelSelector": f"{NAME}={self._handle.name}"}
        items, _ = await self._api.list("pods", self._handle.place, query)
        return [pod for pod in (decode(item, Pod) for item in items) if self._is_ours(pod)]

    def _is_ours(self, found: Job | Pod | Named) -> bool:
        labels = found.metadata.labels
        return labels.get(NAME) == self._handle.name and self._process in (None, labels.get(PROCESS))
