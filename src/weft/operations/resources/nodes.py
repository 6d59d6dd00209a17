"""Nodes and their leader: which there are, what they do, and how one of them is drained."""

from typing import Annotated

import msgspec
from msgspec import Meta

from weft.core import commands as c
from weft.operations.access import StoreAccess
from weft.operations.declare import NoArguments, Request, Resource, ToolHints
from weft.operations.errors import FINDABLE, REFUSABLE
from weft.operations.parameters import Limit, NodeCursor, NodeRef, Reason, moment_in, page_of
from weft.operations.reading import nodes as node_reading
from weft.operations.replies import LeaderInfo, NodeInfo, NodeWork

resource = Resource("nodes")
DRAIN_MAX_MS = 86_400_000


class NodeList(msgspec.Struct, kw_only=True):
    nodes: list[NodeInfo]
    next: str | None


class ListNodesRequest(Request):
    ended: Annotated[bool, Meta(description="Also those that ended")] = False
    cursor: NodeCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/nodes", role="viewer")
def list_nodes(access: StoreAccess, request: ListNodesRequest) -> NodeList:
    """List nodes, those that started first come first."""
    found = node_reading.nodes(access, request.ended)
    after = moment_in(request.cursor)
    shown, last = page_of(found, lambda node: (node.started_at, node.session), after, request.limit)
    return NodeList(nodes=shown, next=None if last is None else f"n{last.started_at}-{last.session}")


class OneNodeRequest(Request):
    node: NodeRef


@resource.operation("GET", "/v1/nodes/{node}", role="viewer", errors=FINDABLE)
def get_node(access: StoreAccess, request: OneNodeRequest) -> NodeInfo:
    """One node, also one that has ended."""
    return node_reading.node(access, request.node)


@resource.operation("GET", "/v1/nodes/{node}/workers", role="viewer", errors=FINDABLE)
def get_node_work(access: StoreAccess, request: OneNodeRequest) -> NodeWork:
    """What a node has claimed and how that ended, what it runs now, and when it was last active. `counted` says what
    the totals cover: `all` attempts; in a store with more than 100,000 of them, what the `node` reported of itself,
    up to ten seconds ago, or, if it reported nothing, only the `newest` 100,000."""
    return node_reading.work_of(access, request.node)


class Draining(msgspec.Struct, kw_only=True):
    node: str
    session: str
    drain_at: int  # what still runs then is requeued
    running: int  # attempts that it holds
    existing: bool


class DrainNodeRequest(Request):
    node: NodeRef
    deadline_ms: Annotated[
        int, Meta(ge=0, le=DRAIN_MAX_MS, description="What still runs after it is requeued without using a retry")
    ] = 60_000
    reason: Reason = "drained by request"


@resource.operation(
    "POST", "/v1/nodes/{node}/drain", role="operator", errors=REFUSABLE,
    example={"deadline_ms": 60_000, "reason": "a new kernel"},
    tool=ToolHints("drain_node_tasks", destructive=True, idempotent=True),
)  # fmt: skip
def drain_node(access: StoreAccess, request: DrainNodeRequest) -> Draining:
    """Let a node finish and leave: it claims nothing more, and what still runs at the deadline is requeued, for other
    nodes, without using a retry. list_nodes says which nodes there are."""
    found = node_reading.node(access, request.node, ended=False)
    reply = access.commit(c.Drain(found.session, request.deadline_ms, request.reason))
    return Draining(
        node=found.node,
        session=found.session,
        drain_at=reply.data["drain_at"],
        running=found.running,
        existing=reply.existing,
    )


@resource.operation("GET", "/v1/leader", role="viewer")
def get_leader(access: StoreAccess, request: NoArguments) -> LeaderInfo:
    """Which node leads, and under which term."""
    return node_reading.leader(access)


class CallWorkerRequest(Request):
    call: Annotated[str, Meta(pattern=r"^[a-z_]{1,32}$", description="What the worker asks for")]


call_worker = resource.handwritten(
    "call_worker", "POST", "/v1/workers/{call}",
    """
    What `weft worker --server` asks for, with the token of a worker: messages in msgpack between a worker and a
    server of the same version, for nobody else.
    """,
    role="worker", request=CallWorkerRequest, media="application/vnd.weft.worker+msgpack",
    errors=("worker_message", "no_route", "too_large"), any_body=True,
)  # fmt: skip
