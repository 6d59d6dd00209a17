"""Nodes and their leader: who is there, what they do, and how one of them leaves in peace."""

from typing import Annotated

import msgspec
from fastapi import Query

from weft.api import replies as r
from weft.api.paging import Cursor, Limit, page_of
from weft.api.parameters import Node
from weft.api.routes import BODY, Asking, Routes
from weft.control.records import LeaderInfo, NodeInfo, NodeWork

routes = Routes("nodes")


@routes("GET", "/v1/nodes", role="viewer", reply=r.NodeList)
def list_nodes(
    control: Asking,
    ended: Annotated[bool, Query(description="Also those that ended")] = False,
    cursor_: Cursor = None,
    limit: Limit = 100,
) -> r.NodeList:
    """List nodes, those that started first come first."""
    found = control.nodes(ended=ended)
    nodes, more = page_of(found, "nodes", lambda node: (node.started_at, node.session), cursor_, limit, int, str)
    return r.NodeList(nodes=nodes, next=more)


@routes("GET", "/v1/nodes/{node}", role="viewer", reply=NodeInfo, refused=(404, 409))
def get_node(control: Asking, node: Node) -> NodeInfo:
    """One node, also one that has ended."""
    return control.node(node)


@routes("GET", "/v1/nodes/{node}/workers", role="viewer", reply=NodeWork, refused=(404, 409))
def get_node_work(control: Asking, node: Node) -> NodeWork:
    """What a node has claimed and how that ended, what it runs now, and when it was last active. `counted` says what
    the totals cover: `all` attempts; in a store with more than 100,000 of them, what the `node` told of itself, up to
    ten seconds ago, or, if it told nothing, only the `newest` 100,000."""
    return control.node_work(node)


class DrainBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    deadline_ms: Annotated[int, msgspec.Meta(ge=0, le=86_400_000)] = 60_000
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = "drained by request"


@routes(
    "POST", "/v1/nodes/{node}/drain", role="operator", reply=r.Draining, refused=(404, 409),
    example={"deadline_ms": 60_000, "reason": "a new kernel"},
)  # fmt: skip
def drain_node(control: Asking, node: Node, body: Annotated[DrainBody, BODY]) -> r.Draining:
    """Let a node finish and leave: it claims nothing more; what still runs at the deadline goes back at no cost."""
    found, done = control.drain(node, body.deadline_ms, body.reason)
    return r.Draining(node=found.node, session=found.session, drain_at=done.data["drain_at"], existing=done.existing)


@routes("GET", "/v1/leader", role="viewer", reply=LeaderInfo)
def get_leader(control: Asking) -> LeaderInfo:
    """Who leads, and under which term."""
    return control.leader()
