"""The layout of graphs: every task has a place of its own, levels go from left to right, the same each time."""

import itertools
import random

import pytest

from weft.core.graph import levels_of, successors_of
from weft.operations.graph.layout import TALL, GraphLayout, layout

Needs = list[list[int]]


def laid_out(needs: Needs) -> tuple[GraphLayout, list[int]]:
    levels = levels_of(needs, successors_of(needs))
    return layout(needs, levels), levels


def mesh(tasks: int, seed: int) -> Needs:
    chosen = random.Random(seed)
    return [
        [] if pos < 5 else sorted({chosen.randrange(max(0, pos - 40), pos) for _ in range(2)}) for pos in range(tasks)
    ]


GRAPHS: dict[str, Needs] = {
    "nothing": [],
    "one": [[]],
    "chain": [[pos - 1] if pos else [] for pos in range(300)],
    "fan": [[], *([0] for _ in range(3 * TALL)), list(range(1, 3 * TALL + 1))],
    "around": [[], [], *([0] for _ in range(3 * TALL)), [0, 1, *range(2, 3 * TALL + 2)]],
    "mesh": mesh(600, 1),
    "far": [[], *([pos] for pos in range(50)), [0, 50]],
}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_task_has_a_place_of_its_own(name: str) -> None:
    found, levels = laid_out(GRAPHS[name])
    assert len(found.column) == len(found.row) == len(levels)
    places: dict[int, list[int]] = {}
    for column, row in zip(found.column, found.row, strict=True):
        places.setdefault(column, []).append(row)
    for rows in places.values():
        rows.sort()
        assert all(after - before >= 3 for before, after in itertools.pairwise(rows)), name  # quarters, rounded
        assert rows[0] >= 0
        assert rows[-1] <= 4 * found.rows
    assert max(found.column, default=-1) < max(found.columns, 1)


@pytest.mark.parametrize("name", GRAPHS)
def test_edges_go_from_left_to_right(name: str) -> None:
    needs = GRAPHS[name]
    found, _ = laid_out(needs)
    pairs = list(zip(found.edges[::2], found.edges[1::2], strict=True))
    assert sorted(pairs) == sorted((before, after) for after, needed in enumerate(needs) for before in needed)
    for number, (before, after) in enumerate(pairs):
        way = [found.column[before], *found.bends.get(number, [])[::2], found.column[after]]
        assert way == sorted(set(way)), "an edge never goes back"


def test_an_edge_over_many_levels_has_a_place_on_each() -> None:
    found, levels = laid_out(GRAPHS["far"])
    (number,) = [at for at in range(len(found.edges) // 2) if found.edges[2 * at : 2 * at + 2] == [0, 51]]
    passed = found.bends[number]
    assert passed[::2] == list(range(1, levels[51]))
    boxes = {(found.column[pos], found.row[pos]) for pos in range(52)}
    assert not boxes & set(zip(passed[::2], passed[1::2], strict=True)), "it runs through no box"


def test_an_edge_passes_a_block_of_columns_above_or_below() -> None:
    found, _ = laid_out(GRAPHS["around"])
    join = len(GRAPHS["around"]) - 1
    block = range(2, join)
    rows, columns = [found.row[pos] for pos in block], [found.column[pos] for pos in block]
    ways = [
        found.bends[at]
        for at in range(len(found.edges) // 2)
        if found.edges[2 * at : 2 * at + 2] in ([0, join], [1, join])
    ]
    assert [way[::2] for way in ways] == [[min(columns), max(columns)]] * 2
    (one, other) = sorted(way[1] for way in ways)
    assert one < min(rows) <= max(rows) < other
    assert all(way[1] == way[3] for way in ways), "straight along the block"


def test_it_is_the_same_each_time() -> None:
    assert laid_out(GRAPHS["mesh"]) == laid_out(mesh(600, 1))


def test_neighbours_come_near() -> None:
    """Twenty chains whose tasks stand in the document in any order are drawn as twenty straight lines."""
    chains = list(range(20))
    needs: Needs = [[] for _ in chains]
    last = {chain: chain for chain in chains}  # where each of them ends so far
    for level in range(1, 10):
        random.Random(level).shuffle(chains)
        needs += [[last[chain]] for chain in chains]
        last = {chain: level * 20 + at for at, chain in enumerate(chains)}
    found, _ = laid_out(needs)
    assert all(found.row[pos] == found.row[needed[0]] for pos, needed in enumerate(needs) if needed)


def test_passing_edges_are_bounded() -> None:
    """A ladder in which every task needs the first one: routing all would take 500,000 places."""
    needs: Needs = [[]] + [[0, pos - 1] if pos > 1 else [0] for pos in range(1, 1000)]
    found, _ = laid_out(needs)
    assert sum(map(len, found.bends.values())) // 2 <= 1000
