"""Workflows that the store knows: their versions, and what changed between two of them."""

from typing import Annotated

from weft.api import replies as r
from weft.api.examples import DEFINITION
from weft.api.paging import Cursor, Limit, cursor, keys, page_of
from weft.api.parameters import Hash, HashQuery, WholeHash, WorkflowName
from weft.api.problems import Trouble
from weft.api.routes import BODY, Asking, Routes, Shared
from weft.api.submitting import ApplyBody
from weft.control.records import VersionDiff, VersionInfo
from weft.control.versions import last_change

routes = Routes("workflows")


@routes("GET", "/v1/workflows", role="viewer", reply=r.WorkflowPage)
def list_workflows(control: Asking, cursor_: Cursor = None, limit: Limit = 100) -> r.WorkflowPage:
    """List workflows by name, each with its newest version."""
    after = keys(cursor_, "workflows", str)
    found = control.workflow_names(after="" if after is None else after[0], limit=limit)
    return r.WorkflowPage(workflows=found, next=cursor("workflows", found[-1].name) if len(found) == limit else None)


@routes("GET", "/v1/workflows/{name}", role="viewer", reply=VersionInfo, refused=(404,))
def get_workflow(control: Asking, name: WorkflowName) -> VersionInfo:
    """The newest version of a workflow, with its document."""
    return control.version(name)


@routes(
    "PUT", "/v1/workflows/{name}", role="admin", reply=r.Applied, refused=(404, 409),
    example={"definition": DEFINITION},
)  # fmt: skip
def apply_workflow(
    control: Asking, served: Shared, name: WorkflowName, body: Annotated[ApplyBody, BODY]
) -> r.Applied:
    """Make this the current version of a workflow, and its triggers the active ones. Runs under way keep theirs."""
    loaded, source = served.submitting.applied(name, body)
    if loaded.workflow.name != name:
        raise Trouble(422, "body", f"the definition calls itself {loaded.workflow.name!r}", "use one name in both")
    done = control.apply(loaded, source, "the API")
    return r.Applied(existing=done.existing, **done.data)


@routes("GET", "/v1/workflows/{name}/versions", role="viewer", reply=r.VersionPage, refused=(404,))
def list_versions(control: Asking, name: WorkflowName, cursor_: Cursor = None, limit: Limit = 100) -> r.VersionPage:
    """List the versions of a workflow, newest first."""
    at = keys(cursor_, "versions", int, str)
    found = control.versions(name, before=None if at is None else (at[0], at[1]), limit=limit)
    more = len(found) == limit
    return r.VersionPage(
        versions=found, next=cursor("versions", found[-1].created_at, found[-1].hash) if more else None
    )


@routes("GET", "/v1/workflows/{name}/versions/{hash}", role="viewer", reply=VersionInfo, refused=(404,))
def get_version(control: Asking, name: WorkflowName, hash: Hash) -> VersionInfo:
    """One version of a workflow, with its document."""
    return control.version(name, hash)


@routes("GET", "/v1/applied", role="viewer", reply=r.Current)
def list_applied(control: Asking, cursor_: Cursor = None, limit: Limit = 1000) -> r.Current:
    """The current version of every workflow that was applied, by its name."""
    found, more = page_of(control.applied().items(), "applied", lambda one: (one[0],), cursor_, limit, str)
    return r.Current(current=dict(found), next=more)


@routes("GET", "/v1/documents/{hash}", role="viewer", reply=r.Stored, refused=(404,))
def get_document(control: Asking, hash: WholeHash) -> r.Stored:
    """A definition as it is stored, whatever it is called."""
    return r.Stored(hash=hash, document=control.document(hash))


@routes("GET", "/v1/workflows/{name}/diff", role="viewer", reply=VersionDiff, refused=(404,))
def diff_versions(control: Asking, name: WorkflowName, old: HashQuery = None, new: HashQuery = None) -> VersionDiff:
    """What changed between two versions, as lines of a unified diff. Without `new` it is the current version (or the
    newest, if none was applied), without `old` the one before that."""
    return control.diff(name, *last_change(control, name, old, new))
