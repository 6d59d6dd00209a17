"""Needs that nobody wrote down: a task named in an expression is waited for.

A task reaches all its ancestors, so a name that lies behind what the task says it needs adds nothing: `report`, which
needs a handler that runs in any case, may read the task which that handler handles without being skipped with it.
Ancestors are counted over everything written or named; that makes the answer independent of any order.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Final

from weft.core.graph import Edges, levels_of, successors_of

#: Targets followed through the graph in one pass, one bit each. With more, the bits of 100,000 tasks take memory;
#: with fewer, a definition where all tasks name far ancestors takes more passes.
_BITS: Final = 2048


def complete_needs(said: Edges, named: Edges) -> list[tuple[int, ...]]:
    """Positions: what each task says it needs, then what it names and does not reach already, ascending."""
    extra = [_others(needs, names) if names else () for needs, names in zip(said, named, strict=True)]
    asked = [(pos, target) for pos, names in enumerate(extra) if said[pos] for target in names]
    if asked:
        reached = _reached(said, extra, asked)
        extra = [tuple(t for t in names if (pos, t) not in reached) for pos, names in enumerate(extra)]
    return [(*needs, *names) if names else tuple(needs) for needs, names in zip(said, extra, strict=True)]


def all_edges(said: Edges, named: Edges) -> list[Sequence[int]]:
    """Everything written or named: what cycles are looked for in."""
    return [(*needs, *_others(needs, names)) if names else needs for needs, names in zip(said, named, strict=True)]


def _others(needs: Sequence[int], names: Sequence[int]) -> tuple[int, ...]:
    known = dict.fromkeys(needs)
    return tuple(sorted(dict.fromkeys(pos for pos in names if pos not in known)))


def _reached(said: Edges, extra: Edges, asked: list[tuple[int, int]]) -> dict[tuple[int, int], None]:
    """Those (task, target) of which the target lies behind something that the task says it needs."""
    edges = [(*needs, *names) for needs, names in zip(said, extra, strict=True)]
    levels = levels_of(edges, successors_of(edges))
    order = sorted(range(len(edges)), key=levels.__getitem__)
    rank = [0] * len(order)
    for at, pos in enumerate(order):
        rank[pos] = at
    asked = sorted(asked, key=lambda pair: rank[pair[1]])
    out: dict[tuple[int, int], None] = {}
    start = 0
    while start < len(asked):
        bit: dict[int, int] = {}
        end = start
        while end < len(asked) and (asked[end][1] in bit or len(bit) < _BITS):
            bit.setdefault(asked[end][1], 1 << len(bit))
            end += 1
        behind = _behind(edges, order[rank[asked[start][1]] : max(rank[pos] for pos, _ in asked[start:end])], bit)
        reach: dict[int, int] = {}  # by task: one that names thousands and needs thousands is looked at once
        for pos, target in asked[start:end]:
            if pos not in reach:
                reach[pos] = reduce(or_, (behind.get(need, 0) for need in said[pos]))
            if reach[pos] & bit[target]:
                out[(pos, target)] = None
        start = end
    return out


def _behind(edges: Edges, order: list[int], bit: dict[int, int]) -> dict[int, int]:
    """For each position, the bits of the targets that it is or that lie behind it. `order` has needs first."""
    out: dict[int, int] = {}
    for pos in order:
        mask = bit.get(pos, 0)
        for need in edges[pos]:
            mask |= out.get(need, 0)
        if mask:
            out[pos] = mask
    return out
