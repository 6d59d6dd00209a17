"""Algorithms over a graph given as lists of positions. All iterative: a chain of 100,000 is ordinary input."""

from collections.abc import Sequence

import msgspec

from weft.core.workflow import Workflow

Edges = Sequence[Sequence[int]]
HEAD_START_MS = 1000  # of the longest path in a run; why so little: docs/adr/0030


def successors_of(needs: Edges) -> list[list[int]]:
    out: list[list[int]] = [[] for _ in needs]
    for pos, needed in enumerate(needs):
        for before in needed:
            out[before].append(pos)
    return out


def levels_of(needs: Edges, successors: Edges) -> list[int]:
    """The longest way from a start to each position; -1 for what lies on a cycle or behind one."""
    levels = [-1] * len(needs)
    open_needs = [len(needed) for needed in needs]
    frontier = [pos for pos, count in enumerate(open_needs) if count == 0]
    level = 0
    while frontier:
        reached: list[int] = []
        for pos in frontier:
            levels[pos] = level
            for after in successors[pos]:
                open_needs[after] -= 1
                if open_needs[after] == 0:
                    reached.append(after)
        frontier = reached
        level += 1
    return levels


def longest_paths(successors: Edges, levels: Sequence[int], durations: Sequence[int] | None = None) -> list[int]:
    """By position: the longest way from its start to an end, in the unit of the durations, or in tasks."""
    lengths = [1] * len(levels) if durations is None else list(durations)
    for pos in sorted(range(len(levels)), key=levels.__getitem__, reverse=True):
        after = successors[pos]
        if after:
            lengths[pos] += max([lengths[one] for one in after])
    return lengths


def head_starts(successors: Edges, levels: Sequence[int], durations: Sequence[int] | None = None) -> tuple[int, ...]:
    """By position, in ms: what a longer path than others' is worth in the queue. Empty: all paths are alike."""
    lengths = longest_paths(successors, levels, durations)
    shortest, longest = min(lengths, default=0), max(lengths, default=0)
    if shortest == longest:
        return ()
    return tuple([HEAD_START_MS * (length - shortest) // longest for length in lengths])


def cycles_of(needs: Edges, successors: Edges, most: int = 10) -> list[list[int]]:
    """One short cycle for each group of positions that all reach each other, in the order in which work would
    flow round it. A cycle starts at its smallest position, which is not repeated at its end."""
    levels = levels_of(needs, successors)
    if min(levels, default=0) >= 0:
        return []
    cycles = []
    for group in _circular_groups(successors, [level < 0 for level in levels]):
        cycles.append(_short_cycle(successors, group))
        if len(cycles) == most:
            break
    return sorted(cycles)


def _circular_groups(successors: Edges, inside: list[bool]) -> list[list[int]]:
    """Strongly connected components of more than one position (Tarjan's algorithm with its own stack)."""
    number = [0] * len(successors)
    low = [0] * len(successors)
    held = [False] * len(successors)
    count = 0
    open_: list[int] = []
    groups: list[list[int]] = []
    for root, looked_at in enumerate(inside):
        if not looked_at or number[root]:
            continue
        work = [(root, 0)]
        while work:
            pos, edge = work.pop()
            if edge == 0:
                count += 1
                number[pos] = low[pos] = count
                open_.append(pos)
                held[pos] = True
            deeper = False
            edges = successors[pos]
            while edge < len(edges):
                after = edges[edge]
                edge += 1
                if not number[after]:
                    work += [(pos, edge), (after, 0)]
                    deeper = True
                    break
                if held[after]:
                    low[pos] = min(low[pos], number[after])
            if deeper:
                continue
            if low[pos] == number[pos]:
                start = len(open_) - 1
                while open_[start] != pos:
                    start -= 1
                group = open_[start:]
                del open_[start:]
                for member in group:
                    held[member] = False
                if len(group) > 1:
                    groups.append(sorted(group))
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[pos])
    return groups


def _short_cycle(successors: Edges, group: list[int]) -> list[int]:
    """The shortest way from the group's first position back to it."""
    start = group[0]
    members = dict.fromkeys(group)
    came_from: dict[int, int] = {}
    frontier = [start]
    while frontier:
        reached = []
        for pos in frontier:
            for after in successors[pos]:
                if after == start:
                    cycle = [pos]
                    while cycle[-1] != start:
                        cycle.append(came_from[cycle[-1]])
                    cycle.reverse()
                    return cycle
                if after in members and after not in came_from:
                    came_from[after] = pos
                    reached.append(after)
        frontier = reached
    raise AssertionError("a group whose members reach each other has a cycle")


class CriticalPath(msgspec.Struct, frozen=True):
    """`slack` by position: by how much that task could have taken longer without making the run longer."""

    path: tuple[int, ...]
    length: int
    slack: tuple[int, ...]


def critical_path(workflow: Workflow, durations: Sequence[int]) -> CriticalPath:
    """The chain of tasks that made the run as long as it was, given each position's duration in any unit.

    What is `final` waits for all tasks that are not, so it starts when the last of those is done.
    """
    tasks = workflow.tasks
    if not tasks:
        return CriticalPath((), 0, ())
    order = sorted(range(len(tasks)), key=workflow.levels.__getitem__)
    early = [0] * len(tasks)  # the earliest end
    because = [-1] * len(tasks)  # the task whose end let it start
    main_end, main_last = 0, -1
    for pos in order:
        task = tasks[pos]
        start, cause = (main_end, main_last) if task.final else (0, -1)
        for need in task.needs:
            if early[need] > start or (cause < 0 and early[need] == start):
                start, cause = early[need], need
        early[pos], because[pos] = start + durations[pos], cause
        if not task.final and (early[pos] > main_end or main_last < 0):
            main_end, main_last = early[pos], pos
    length = max(early)
    late = _latest_ends(workflow, durations, order, length)
    last = max(range(len(tasks)), key=lambda pos: (early[pos], -pos))
    path = [last]
    while because[path[-1]] >= 0:
        path.append(because[path[-1]])
    path.reverse()
    return CriticalPath(tuple(path), length, tuple(late[pos] - early[pos] for pos in range(len(tasks))))


def _latest_ends(workflow: Workflow, durations: Sequence[int], order: list[int], length: int) -> list[int]:
    late = [length] * len(order)
    main_late = length
    for pos in reversed(order):
        final = workflow.tasks[pos].final
        late[pos] = min((late[after] - durations[after] for after in workflow.successors[pos]), default=length)
        if final:
            main_late = min(main_late, late[pos] - durations[pos])
        else:
            late[pos] = min(late[pos], main_late)
    return late
