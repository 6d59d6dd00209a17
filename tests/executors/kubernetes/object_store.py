"""What the fake API server keeps: objects by kind, namespace and name, and the history that watches read."""

import asyncio
import bisect
import copy
import re
import uuid
from datetime import UTC, datetime
from typing import Any, NamedTuple

KINDS = {
    "namespaces": ("v1", "Namespace"), "jobs": ("batch/v1", "Job"), "pods": ("v1", "Pod"),
    "secrets": ("v1", "Secret"), "events": ("v1", "Event"),
}  # fmt: skip
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class Refusal(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


class Change(NamedTuple):
    version: int
    resource: str
    type: str
    object: dict[str, Any]
    before: dict[str, Any] | None


class ObjectStore:
    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.history: list[Change] = []
        self.oldest = 0  # versions up to this one are forgotten: a watch from there is answered 410
        self.changed = asyncio.Condition()

    def get(self, resource: str, namespace: str, name: str) -> dict[str, Any]:
        found = self.objects.get((resource, namespace, name))
        if found is None:
            raise Refusal(404, "NotFound", f'{resource} "{name}" not found')
        return found

    def all(self, resource: str, namespace: str | None = None) -> list[dict[str, Any]]:
        return [
            found
            for (kind, place, _), found in sorted(self.objects.items(), key=lambda item: item[0])
            if kind == resource and namespace in (None, place)
        ]

    async def create(self, resource: str, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        meta = body["metadata"]
        if "name" not in meta:
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        name = meta["name"]
        if not _NAME.fullmatch(name):
            raise Refusal(422, "Invalid", f'{KINDS[resource][1]} "{name}" is invalid: metadata.name')
        if resource != "namespaces" and ("namespaces", "", namespace) not in self.objects:
            raise Refusal(404, "NotFound", f'namespaces "{namespace}" not found')
        if (resource, namespace, name) in self.objects:
            raise Refusal(409, "AlreadyExists", f'{resource} "{name}" already exists')
        meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
        if resource != "namespaces":
            meta["namespace"] = namespace
        body |= {"apiVersion": KINDS[resource][0], "kind": KINDS[resource][1]}
        await self._put(resource, "ADDED", body, None)
        return body

    async def update(self, resource: str, found: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
        if changed == found:
            return found
        await self._put(resource, "MODIFIED", changed, found)
        return changed

    async def remove(self, resource: str, found: dict[str, Any]) -> None:
        meta = found["metadata"]
        if self.objects.pop((resource, meta.get("namespace", ""), meta["name"]), None) is not None:
            await self._note(resource, "DELETED", found, found)

    async def _put(self, resource: str, type: str, new: dict[str, Any], before: dict[str, Any] | None) -> None:
        meta = new["metadata"]
        self.objects[resource, meta.get("namespace", ""), meta["name"]] = new
        await self._note(resource, type, new, before)

    async def _note(self, resource: str, type: str, new: dict[str, Any], before: dict[str, Any] | None) -> None:
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        self.history.append(Change(self.version, resource, type, copy.deepcopy(new), before))
        async with self.changed:
            self.changed.notify_all()

    def since(self, version: int) -> list[Change]:
        return self.history[bisect.bisect_right(self.history, version, key=lambda change: change.version) :]

    def forget_history(self) -> None:
        """As a compaction of etcd does."""
        self.oldest = self.version
        self.history.clear()


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def selects(labels: str | None, fields: str | None, found: dict[str, Any]) -> bool:
    return _labels_match(labels or "", found) and _fields_match(fields or "", found)


def _labels_match(selector: str, found: dict[str, Any]) -> bool:
    own = found["metadata"].get("labels") or {}
    for key, values, value in re.findall(r"([\w./-]+)\s*(?: in \(([^)]*)\)|=([^,]*))", selector):
        wanted = values.split(",") if values else [value]
        if own.get(key) not in wanted:
            return False
    return True


def _fields_match(selector: str, found: dict[str, Any]) -> bool:
    for term in filter(None, selector.split(",")):
        path, _, wanted = term.partition("=")
        value: Any = found
        for part in path.split("."):
            value = (value or {}).get(part)
        if (value or "") != wanted:
            return False
    return True
