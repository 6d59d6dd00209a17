"""The store: what it holds, its pools, and tidying up."""

from typing import Annotated

import msgspec

from weft.api import replies as r
from weft.api.paging import Cursor, Limit, page_of
from weft.api.parameters import PoolName
from weft.api.routes import BODY, Asking, Routes
from weft.control.records import StoreInfo
from weft.core.states import RunState

routes = Routes("store")
PRUNED_AT_ONCE = 1000


@routes("GET", "/v1/store", role="viewer", reply=StoreInfo)
def get_store(control: Asking) -> StoreInfo:
    """Where the store is and what it holds. It counts everything: not for every second."""
    return control.info()


@routes("GET", "/v1/clock", role="viewer", reply=r.Clock)
def get_clock(control: Asking) -> r.Clock:
    """What time it is in the store, and the number of its newest event: where to begin to follow."""
    return r.Clock(now=control.now(), last_event=control.last_event())


@routes("GET", "/v1/pools", role="viewer", reply=r.PoolList)
def list_pools(control: Asking, cursor_: Cursor = None, limit: Limit = 100) -> r.PoolList:
    """List pools by name, with who holds their places."""
    pools, more = page_of(control.pools(), "pools", lambda pool: (pool.name,), cursor_, limit, str)
    return r.PoolList(pools=pools, next=more)


class PoolBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    size: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


@routes(
    "PUT", "/v1/pools/{name}", role="admin", reply=r.PoolSet,
    example={"size": 4},
)  # fmt: skip
def set_pool(control: Asking, name: PoolName, body: Annotated[PoolBody, BODY]) -> r.PoolSet:
    """Make a pool, or change its size. 0 lets nothing more start; what runs goes on."""
    done = control.set_pool(name, body.size)
    return r.PoolSet(name=name, size=body.size, used=done.data["used"], existing=done.existing)


class PruneBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`before` is a moment of the store's clock: runs that ended earlier go."""

    before: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    states: list[RunState] | None = None
    cache: bool = False  # also results that `cache` has kept since before that


@routes(
    "POST", "/v1/runs:prune", role="admin", reply=r.Pruned,
    example={"before": 1_769_821_200_000, "states": ["succeeded"]},
)  # fmt: skip
def prune_runs(control: Asking, body: Annotated[PruneBody, BODY]) -> r.Pruned:
    """Remove runs that ended long ago, with their output, about a thousand at a time."""
    states = None if body.states is None else [str(state) for state in body.states]
    removed: list[str] = []
    for gone in control.prune(body.before, states, cache=body.cache):
        removed += gone
        if len(removed) >= PRUNED_AT_ONCE:
            return r.Pruned(runs=removed, more=True)
    return r.Pruned(runs=removed, more=False)
