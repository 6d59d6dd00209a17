"""The parts of Kubernetes' objects that Weft reads. What is not named here is skipped while an answer is decoded."""

from typing import Any

import msgspec


class ObjectMeta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class Terminated(msgspec.Struct, rename="camel", frozen=True, gc=False):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class Waiting(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    waiting: Waiting | None = None
    running: dict[str, Any] | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False):
    name: str
    state: ContainerState = ContainerState()


class Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(msgspec.Struct, rename="camel", frozen=True, gc=False):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class PodSpec(msgspec.Struct, rename="camel", frozen=True, gc=False):
    node_name: str = ""


class Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class JobSpec(msgspec.Struct, frozen=True, gc=False):
    suspend: bool | None = None


class JobStatus(msgspec.Struct, frozen=True, gc=False):
    conditions: list[Condition] = []


class Job(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class Named(msgspec.Struct, frozen=True, gc=False):
    """Any object of which only the metadata matter."""

    metadata: ObjectMeta


class InvolvedObject(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""
    name: str = ""


class Event(msgspec.Struct, rename="camel", frozen=True, gc=False):
    involved_object: InvolvedObject
    reason: str = ""
    message: str = ""


class ListMeta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Listing(msgspec.Struct, frozen=True, gc=False):
    metadata: ListMeta
    items: list[msgspec.Raw] = []


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class ErrorStatus(msgspec.Struct, frozen=True, gc=False):
    """What the API server answers when it refuses a request."""

    code: int = 0
    reason: str = ""
    message: str = ""
