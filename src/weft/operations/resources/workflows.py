"""Workflows that the store knows: their versions, and what changed between two of them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from weft.core.definition.suggest import nearest
from weft.operations.access import StoreAccess
from weft.operations.declare import Request, Resource
from weft.operations.errors import NotFound
from weft.operations.parameters import (
    AppliedCursor,
    Hash,
    Limit,
    VersionCursor,
    WholeHash,
    WorkflowCursor,
    WorkflowName,
    moment_in,
    name_in,
    page_of,
)
from weft.operations.reading.definition_diff import document_diff
from weft.operations.replies import VersionDiff, VersionInfo, WorkflowInfo

resource = Resource("workflows")
NAMES_SEARCHED = 1000


class WorkflowPage(msgspec.Struct, kw_only=True):
    workflows: list[WorkflowInfo]
    next: str | None


class ListWorkflowsRequest(Request):
    cursor: WorkflowCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/workflows", role="viewer")
def list_workflows(access: StoreAccess, request: ListWorkflowsRequest) -> WorkflowPage:
    """List workflows by name, each with its newest version."""
    found = _names(access, name_in(request.cursor), request.limit)
    return WorkflowPage(workflows=found, next=f"w.{found[-1].name}" if len(found) == request.limit else None)


class OneWorkflowRequest(Request):
    name: WorkflowName


@resource.operation("GET", "/v1/workflows/{name}", role="viewer", errors=("not_found",))
def get_workflow(access: StoreAccess, request: OneWorkflowRequest) -> VersionInfo:
    """The newest version of a workflow, with its document."""
    return version(access, request.name, None)


class VersionPage(msgspec.Struct, kw_only=True):
    versions: list[VersionInfo]
    next: str | None


class ListVersionsRequest(Request):
    name: WorkflowName
    cursor: VersionCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/workflows/{name}/versions", role="viewer", errors=("not_found",))
def list_versions(access: StoreAccess, request: ListVersionsRequest) -> VersionPage:
    """List the versions of a workflow, newest first."""
    before = None if request.cursor is None else moment_in(request.cursor)
    found = _versions(access, request.name, before, request.limit)
    more = len(found) == request.limit
    return VersionPage(versions=found, next=f"v{found[-1].created_at}-{found[-1].hash}" if more else None)


class GetVersionRequest(Request):
    name: WorkflowName
    hash: Hash


@resource.operation("GET", "/v1/workflows/{name}/versions/{hash}", role="viewer", errors=("not_found",))
def get_version(access: StoreAccess, request: GetVersionRequest) -> VersionInfo:
    """One version of a workflow, with its document."""
    return version(access, request.name, request.hash)


class CurrentVersions(msgspec.Struct, kw_only=True):
    """Hashes, by the names of workflows, and the directories in which their tasks start."""

    current: dict[str, str]
    next: str | None
    sources: dict[str, str | None] = {}


class ListAppliedRequest(Request):
    cursor: AppliedCursor | None = None
    limit: Limit = 1000


@resource.operation("GET", "/v1/applied", role="viewer")
def list_applied(access: StoreAccess, request: ListAppliedRequest) -> CurrentVersions:
    """The current version of every workflow that was applied, by its name."""
    rows = access.read("applied_all")
    shown, last = page_of(rows, lambda row: row[0], name_in(request.cursor), request.limit)
    current, sources = {row[0]: row[1] for row in shown}, {row[0]: row[2] for row in shown}
    return CurrentVersions(current=current, next=None if last is None else f"a.{last[0]}", sources=sources)


class Stored(msgspec.Struct, kw_only=True):
    hash: str
    document: dict[str, Any]


class GetDocumentRequest(Request):
    hash: WholeHash


@resource.operation("GET", "/v1/documents/{hash}", role="viewer", errors=("not_found",))
def get_document(access: StoreAccess, request: GetDocumentRequest) -> Stored:
    """A definition as it is stored, whatever it is called."""
    if access.scope is not None and not access.scope.sees_definition(request.hash):
        raise NotFound(f"there is no workflow {request.hash}")
    return Stored(hash=request.hash, document=access.document(request.hash))


class DiffVersionsRequest(Request):
    name: WorkflowName
    old: Annotated[Hash, Meta(description="A version's hash, or the beginning of it")] | None = None
    new: Annotated[Hash, Meta(description="A version's hash, or the beginning of it")] | None = None


@resource.operation("GET", "/v1/workflows/{name}/diff", role="viewer", errors=("not_found",))
def diff_versions(access: StoreAccess, request: DiffVersionsRequest) -> VersionDiff:
    """What changed between two versions, as lines of a unified diff. Without `new` it is the current version (or the
    newest, if none was applied), without `old` the one before that."""
    old, new = _last_change(access, request.name, request.old, request.new)
    before, after = version(access, request.name, old), version(access, request.name, new)
    lines = document_diff(before.document, after.document, before.hash[:12], after.hash[:12])
    return VersionDiff(name=request.name, old=before.hash, new=after.hash, lines=lines)


def _applied(access: StoreAccess) -> dict[str, str]:
    """The current versions, by the names of their workflows."""
    return {name: hash for name, hash, *_ in access.read("applied_all")}


def _names(access: StoreAccess, after: str, limit: int) -> list[WorkflowInfo]:
    return [
        WorkflowInfo(name=name, hash=hash, created_at=created, versions=versions)
        for name, hash, created, versions in access.read("workflows_page", after, limit)
    ]


def _versions(access: StoreAccess, name: str, before: tuple[int, str] | None, limit: int) -> list[VersionInfo]:
    """Newest first; `before` is (created_at, hash) of the last one of the page before."""
    rows = access.read("workflow_versions", name, *(before or (None, "")), limit)
    if not rows and before is None:
        raise NotFound(_unknown(access, name))
    return [VersionInfo(name=name, hash=hash, created_at=created) for hash, created in rows]


def version(access: StoreAccess, name: str, hash: str | None) -> VersionInfo:
    """The newest, or the one with this hash or a unique beginning of it."""
    if hash is None:
        found = _versions(access, name, None, 1)
    else:
        rows = access.read("workflow_versions_by_prefix", name, hash, hash + "~")
        found = [VersionInfo(name=name, hash=row[0], created_at=row[1]) for row in rows]
        if len(found) != 1:
            _versions(access, name, None, 1)  # an unknown name says so
            what = "no version" if not found else "more than one version"
            raise NotFound(f"{name} has {what} {hash}")
    return VersionInfo(
        name=name, hash=found[0].hash, created_at=found[0].created_at, document=access.document(found[0].hash)
    )


def _last_change(access: StoreAccess, name: str, old: str | None, new: str | None) -> tuple[str, str]:
    """What to compare where not both are named: the current (or newest) version with the one before it."""
    if old is not None and new is not None:
        return old, new
    known = [one.hash for one in _versions(access, name, None, 1000)]
    if new is None:
        new = _applied(access).get(name, known[0])
    at = next((at for at, hash in enumerate(known) if hash.startswith(new)), None)
    older = [] if at is None else known[at + 1 :]
    if old is None and not older:
        raise NotFound(f"{name} has no version before {new[:12]}")
    return old or older[0], new


def _unknown(access: StoreAccess, name: str) -> str:
    meant = nearest(name, [known.name for known in _names(access, "", NAMES_SEARCHED)])
    return f"there is no workflow {name}" + (f"; did you mean {meant!r}?" if meant else "")
