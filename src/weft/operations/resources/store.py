"""The store: what it holds, its clock, and the pools that its nodes share."""

from typing import Annotated

import msgspec
from msgspec import Meta

from weft.core import commands as c
from weft.operations.access import StoreAccess
from weft.operations.declare import NoArguments, Request, Resource
from weft.operations.parameters import (
    BudgetTokens,
    BudgetUsd,
    Limit,
    PoolCursor,
    PoolName,
    micros,
    name_in,
    page_of,
)
from weft.operations.reading import nodes as node_reading
from weft.operations.reading import placement as placing
from weft.operations.replies import PoolInfo, StoreInfo

resource = Resource("store")


@resource.operation("GET", "/v1/store", role="viewer")
def get_store(access: StoreAccess, request: NoArguments) -> StoreInfo:
    """Where the store is and what it holds. It counts everything: not for every second."""
    store = access.store
    return StoreInfo(
        location=store.name, kind=store.kind, schema=store.schema, size_bytes=store.size_bytes(),
        runs=dict(access.read("count_runs")), tasks=dict(access.read("count_tasks")),
        events=access.read("count_events")[0][0], sessions_live=len(node_reading.nodes(access, False)),
        stale_reports=access.read("count_stale")[0][0], library=store.library,
    )  # fmt: skip


class ClockReading(msgspec.Struct, kw_only=True):
    now: int
    last_event: int


@resource.operation("GET", "/v1/clock", role="viewer")
def get_clock(access: StoreAccess, request: NoArguments) -> ClockReading:
    """What time it is in the store, and the number of its newest event: where to begin to follow."""
    return ClockReading(now=access.now(), last_event=int(access.read("event_last")[0][0]))


class PoolList(msgspec.Struct, kw_only=True):
    pools: list[PoolInfo]
    next: str | None


class ListPoolsRequest(Request):
    cursor: PoolCursor | None = None
    limit: Limit = 100


@resource.operation("GET", "/v1/pools", role="viewer")
def list_pools(access: StoreAccess, request: ListPoolsRequest) -> PoolList:
    """List pools by name, with who holds their places."""
    with access.snapshot():
        found = placing.pools(access)
    shown, last = page_of(found, lambda pool: pool.name, name_in(request.cursor), request.limit)
    return PoolList(pools=shown, next=None if last is None else f"p.{last.name}")


class PoolSet(msgspec.Struct, kw_only=True):
    name: str
    size: int
    used: int
    existing: bool


class SetPoolRequest(Request):
    name: PoolName
    size: Annotated[int, Meta(ge=0, le=1_000_000)]
    usd: BudgetUsd | None = None
    tokens: BudgetTokens | None = None
    renew: Annotated[bool, Meta(description="What its tasks have spent so far no longer counts")] = False


@resource.operation(
    "PUT", "/v1/pools/{name}", role="admin", errors=("conflict", "command_used", "observer"), example={"size": 4}
)
def set_pool(access: StoreAccess, request: SetPoolRequest) -> PoolSet:
    """Create a pool, or change its size. 0 lets nothing more start; what runs goes on. With `usd` and `tokens`, all
    tasks in it together may spend no more than that; what is left out stays as it is."""
    usd, tokens = micros(request.usd), request.tokens
    reply = access.commit(c.SetPool(request.name, request.size, usd, tokens, request.renew))
    return PoolSet(name=request.name, size=request.size, used=reply.data["used"], existing=reply.existing)
