"""Where the tasks of a workflow stand in a picture of its graph: levels from left to right, rows within a level.

Pure and deterministic. An edge over several levels is routed through a place of its own on each of them, so that it
does not run through boxes; past a block of columns it goes above or below. The order within a level comes of a few
barycentre passes; rows are then moved towards their neighbours as far as the order allows (pooling adjacent
violators, linear). General layouts of libraries took 47 s for 10,000 tasks with 20,000 edges, or did not come back:
bench/README.md has what this takes.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

SWEEPS: Final = 2  # of ordering, each down and up
SHIFTS: Final = 2  # of rows towards their neighbours
TALL: Final = 400  # tasks of a level that stand in one column; a wider level becomes a block of columns
BEND_SPACE: Final = 0.4  # of a row, for an edge that passes
BENDS_EACH: Final = 1  # places for passing edges, by task: beyond that, the longest edges are not routed

Edges = Sequence[Sequence[int]]


class GraphLayout(msgspec.Struct, frozen=True):
    """`column` and `row` by position; rows are quarters of a box's height. `bends` are the
    places (column, row) that an edge passes, by the edge's place in `edges`."""

    column: list[int]
    row: list[int]
    columns: int
    rows: int
    edges: list[int]  # from, to, from, to …: positions
    bends: dict[int, list[int]]


def layout(needs: Edges, levels: Sequence[int]) -> GraphLayout:
    edges = [(before, after) for after, needed in enumerate(needs) for before in dict.fromkeys(needed)]
    net = _Net(levels, edges)
    net.sort_levels()
    rows = net.rows()
    column, columns = net.columns()
    top = min(rows, default=0.0)
    quarters = [round((row - top) * 4) for row in rows]
    tasks = len(levels)
    return GraphLayout(
        column=[first for first, _ in column[:tasks]], row=quarters[:tasks], columns=columns,
        rows=max(quarters, default=0) // 4 + 1,
        edges=[end for edge in edges for end in edge],
        bends={
            number: [part for bend in passed for at in dict.fromkeys(column[bend]) for part in (at, quarters[bend])]
            for number, passed in net.passed.items()
        },
    )  # fmt: skip


class _Net:
    """Tasks, and bends of the edges that pass a level, as one graph whose edges go from a level to the next."""

    def __init__(self, levels: Sequence[int], edges: list[tuple[int, int]]) -> None:
        self._tasks = len(levels)
        depth = max(levels, default=-1) + 1
        self._levels: list[list[int]] = [[] for _ in range(depth)]
        for pos, level in enumerate(levels):
            self._levels[level].append(pos)
        self._wide = [len(level) > TALL for level in self._levels]
        self._around: list[list[int]] = [[] for _ in range(depth)]  # bends of edges that pass a block of columns
        self._before: list[list[int]] = [[] for _ in levels]
        self._after: list[list[int]] = [[] for _ in levels]
        self.passed: dict[int, list[int]] = {}
        room = BENDS_EACH * len(levels)
        for number in sorted(range(len(edges)), key=lambda n: (levels[edges[n][1]] - levels[edges[n][0]], n)):
            before, after = edges[number]
            between = range(levels[before] + 1, levels[after])
            if len(between) <= room:
                room -= len(between)
                self._route(number, before, after, between)

    def _route(self, number: int, before: int, after: int, between: range) -> None:
        at = before
        for level in between:
            bend = len(self._before)
            self._before.append([])
            self._after.append([])
            (self._around if self._wide[level] else self._levels)[level].append(bend)
            self.passed.setdefault(number, []).append(bend)
            self._join(at, bend)
            at = bend
        self._join(at, after)

    def _join(self, before: int, after: int) -> None:
        self._after[before].append(after)
        self._before[after].append(before)

    def sort_levels(self) -> None:
        place = [0.0] * len(self._before)
        parts = [part for both in zip(self._levels, self._around, strict=True) for part in both if part]
        for level in parts:
            _number(level, place)
        for _ in range(SWEEPS):
            for level in parts[1:]:
                _sort(level, self._before, place)
            for level in reversed(parts[:-1]):
                _sort(level, self._after, place)

    def rows(self) -> list[float]:
        row = [0.0] * len(self._before)
        for level, wide, around in zip(self._levels, self._wide, self._around, strict=True):
            if wide:
                high = _height(len(level))
                for nth, pos in enumerate(level):
                    row[pos] = nth % high - (high - 1) / 2
                above = (len(around) + 1) // 2
                for nth, bend in enumerate(around):
                    away = above - 1 - nth if nth < above else nth - above
                    row[bend] = (-1 if nth < above else 1) * ((high + 1) / 2 + BEND_SPACE * away)
            else:
                offsets = self._offsets(level)
                middle = offsets[-1] / 2
                for pos, offset in zip(level, offsets, strict=True):
                    row[pos] = offset - middle
        narrow = [level for level, wide in zip(self._levels, self._wide, strict=True) if not wide]
        for _ in range(SHIFTS):
            for level in narrow:
                self._shift(level, self._before, row)
            for level in reversed(narrow):
                self._shift(level, self._after, row)
        return row

    def _offsets(self, level: list[int]) -> list[float]:
        """How far from the first each of them stands at least."""
        offsets: list[float] = []
        at = previous = 0.0
        for pos in level:
            space = 1.0 if pos < self._tasks else BEND_SPACE
            at += (previous + space) / 2 if offsets else 0.0
            offsets.append(at)
            previous = space
        return offsets

    def _shift(self, level: list[int], neighbours: list[list[int]], row: list[float]) -> None:
        """Each as near to the mean of its neighbours as order and space allow, by least squares."""
        offsets = self._offsets(level)
        sums: list[float] = []
        counts: list[int] = []
        for pos, offset in zip(level, offsets, strict=True):
            near = neighbours[pos]
            wanted = row[pos] if not near else sum([row[one] for one in near]) / len(near)
            total, count = wanted - offset, 1
            while sums and sums[-1] * count >= total * counts[-1]:
                total += sums.pop()
                count += counts.pop()
            sums.append(total)
            counts.append(count)
        nth = 0
        for total, count in zip(sums, counts, strict=True):
            start = total / count
            for _ in range(count):
                row[level[nth]] = start + offsets[nth]
                nth += 1

    def columns(self) -> tuple[list[tuple[int, int]], int]:
        """The first and the last column of each task and bend, and how many there are."""
        column = [(0, 0)] * len(self._before)
        at = 0
        for level, wide, around in zip(self._levels, self._wide, self._around, strict=True):
            high = _height(len(level)) if wide else len(level)
            last = at + -(-len(level) // high) - 1
            for nth, pos in enumerate(level):
                column[pos] = (at + nth // high,) * 2
            for bend in around:
                column[bend] = (at, last)
            at = last + 1
        return column, at


def _height(tasks: int) -> int:
    """Rows of a block that is about as high as it is wide: boxes are four times as wide as high."""
    return max(TALL // 4, 2 * int(tasks**0.5))


def _number(level: list[int], place: list[float]) -> None:
    share = 1 / max(1, len(level))
    for nth, pos in enumerate(level):
        place[pos] = (nth + 0.5) * share


def _sort(level: list[int], neighbours: list[list[int]], place: list[float]) -> None:
    wanted = {}
    for pos in level:
        near = neighbours[pos]
        if len(near) == 1:
            wanted[pos] = place[near[0]]
        else:
            wanted[pos] = sum([place[one] for one in near]) / len(near) if near else place[pos]
    level.sort(key=wanted.__getitem__)
    _number(level, place)
