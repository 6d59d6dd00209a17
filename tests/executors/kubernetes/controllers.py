"""The controllers of the fake cluster: what the Job controller, the scheduler and the garbage collector do with the
objects that the executor makes. The real ones run in `make test-kubernetes`, with the same tests."""

import asyncio
import copy
from datetime import UTC, datetime
from typing import Any

from tests.executors.kubernetes.object_store import ObjectStore
from tests.kubernetes_cluster.kubelet import NODE

TRACKED = "batch.kubernetes.io/job-tracking"


class Controllers:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.quota: str | None = None  # why no pod can be created
        self.task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _run(self) -> None:
        seen = -1
        while True:
            async with self._store.changed:
                await self._store.changed.wait_for(lambda: self._store.version != seen)  # noqa: B023
                seen = self._store.version
            by_owner: dict[str, list[dict[str, Any]]] = {}
            for pod in self._store.all("pods"):
                for owner in pod["metadata"].get("ownerReferences") or ():
                    by_owner.setdefault(owner["uid"], []).append(pod)
            for job in self._store.all("jobs"):
                await self._job(job, by_owner.get(job["metadata"]["uid"], []))
            for pod in self._store.all("pods"):
                await self._schedule(pod)

    async def _job(self, job: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        meta = job["metadata"]
        if meta.get("deletionTimestamp"):
            for pod in pods:
                await delete_pod(self._store, pod, None)
            if not pods:
                await self._store.remove("jobs", job)
                for secret in self._store.all("secrets", meta["namespace"]):
                    if owned(secret, job):
                        await self._store.remove("secrets", secret)
            return
        over = bool(job.get("status", {}).get("conditions"))
        if over or job["spec"].get("suspend"):
            return
        ends = [pod for pod in pods if pod.get("status", {}).get("phase") in ("Succeeded", "Failed")]
        if ends or (not pods and job.get("status", {}).get("active")):
            await self._finish(job, bool(ends) and ends[0]["status"]["phase"] == "Succeeded")
        elif not pods:
            await self._make_pod(job)

    async def _make_pod(self, job: dict[str, Any]) -> None:
        meta = job["metadata"]
        if self.quota is not None:
            name = f"{meta['name']}.refused"
            if ("events", meta["namespace"], name) not in self._store.objects:
                involved = {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": meta["name"],
                    "namespace": meta["namespace"],
                }
                event = {"metadata": {"name": name}, "involvedObject": involved, "type": "Warning"}
                event |= {"reason": "FailedCreate", "message": self.quota}
                await self._store.create("events", meta["namespace"], event)
            return
        template = copy.deepcopy(job["spec"]["template"])
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
        labels = {**template["metadata"].get("labels", {}), "job-name": meta["name"]}
        pod = {
            "metadata": {
                **template["metadata"], "generateName": f"{meta['name'][:57]}-", "labels": labels,
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": template["spec"],
            "status": {"phase": "Pending"},
        }  # fmt: skip
        await self._store.create("pods", meta["namespace"], pod)
        job = self._store.get("jobs", meta["namespace"], meta["name"])
        await self._store.update("jobs", job, {**copy.deepcopy(job), "status": {"active": 1}})

    async def _finish(self, job: dict[str, Any], succeeded: bool) -> None:
        condition = {"type": "Complete", "status": "True"}
        if not succeeded:
            condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
            condition["message"] = "Job has reached the specified backoff limit"
        await self._store.update("jobs", job, {**copy.deepcopy(job), "status": {"conditions": [condition]}})

    async def _schedule(self, pod: dict[str, Any]) -> None:
        if pod["spec"].get("nodeName") or pod["status"].get("conditions"):
            return
        changed = copy.deepcopy(pod)
        if pod["spec"].get("nodeSelector"):
            message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        else:
            changed["spec"]["nodeName"] = NODE
            condition = {"type": "PodScheduled", "status": "True"}
        changed["status"]["conditions"] = [condition]
        await self._store.update("pods", pod, changed)


def owned(found: dict[str, Any], job: dict[str, Any]) -> bool:
    return any(o["uid"] == job["metadata"]["uid"] for o in found["metadata"].get("ownerReferences") or ())


async def delete_pod(store: ObjectStore, pod: dict[str, Any], grace_s: int | None) -> None:
    """A second deletion can only shorten the grace; a pod without a node, and a grace of 0, are removed at once."""
    meta = pod["metadata"]
    over = pod["status"].get("phase") in ("Succeeded", "Failed")
    if grace_s == 0 or not pod["spec"].get("nodeName"):
        await store.remove("pods", pod)
        return
    known = meta.get("deletionGracePeriodSeconds")
    if meta.get("deletionTimestamp") and (grace_s is None or known is None or grace_s >= known):
        return
    grace = grace_s if grace_s is not None else pod["spec"].get("terminationGracePeriodSeconds", 30)
    changed = copy.deepcopy(pod)
    changed["metadata"]["deletionTimestamp"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    changed["metadata"]["deletionGracePeriodSeconds"] = 0 if over else grace
    await store.update("pods", pod, changed)
