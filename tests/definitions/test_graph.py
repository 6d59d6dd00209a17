"""The graph algorithms against dumb twins that try everything."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.authoring.load import load_value
from weft.core.graph import critical_path, cycles_of, levels_of, successors_of


@st.composite
def graphs(draw: st.DrawFn, acyclic: bool) -> list[list[int]]:
    size = draw(st.integers(1, 9))
    return [
        sorted(
            draw(
                st.sets(
                    st.sampled_from([p for p in range(size) if p < pos or (not acyclic and p != pos)]), max_size=3
                )
            )
        )
        if pos or (not acyclic and size > 1)
        else []
        for pos in range(size)
    ]


def reaches(needs: list[list[int]], start: int, goal: int) -> bool:
    seen, work = set(), list(needs[start])
    while work:
        pos = work.pop()
        if pos == goal:
            return True
        if pos not in seen:
            seen.add(pos)
            work += needs[pos]
    return False


@settings(deadline=None)
@given(graphs(acyclic=True))
def test_levels_are_longest_ways(needs: list[list[int]]) -> None:
    levels = levels_of(needs, successors_of(needs))
    for pos, needed in enumerate(needs):
        assert levels[pos] == max((levels[need] + 1 for need in needed), default=0)
    assert cycles_of(needs, successors_of(needs)) == []


@settings(deadline=None)
@given(graphs(acyclic=False))
def test_one_cycle_per_group_that_waits_for_itself(needs: list[list[int]]) -> None:
    successors = successors_of(needs)
    levels = levels_of(needs, successors)
    circular = [pos for pos in range(len(needs)) if reaches(needs, pos, pos)]
    cycles = cycles_of(needs, successors)
    for pos in range(len(needs)):
        blocked = any(pos == c or reaches(needs, pos, c) for c in circular)
        assert (levels[pos] == -1) == blocked
    groups = {
        frozenset(p for p in circular if p == c or (reaches(needs, c, p) and reaches(needs, p, c))) for c in circular
    }
    assert len(cycles) == len(groups)
    for cycle in cycles:
        assert len(set(cycle)) == len(cycle)
        assert cycle[0] == min(next(group for group in groups if cycle[0] in group))
        for before, after in pairwise([*cycle, cycle[0]]):
            assert before in needs[after]


def test_the_cycle_shown_is_a_short_one() -> None:
    size = 50
    needs = [[(pos - 1) % size] for pos in range(size)]
    needs[0].append(3)
    assert cycles_of(needs, successors_of(needs)) == [[0, 1, 2, 3]]


def test_a_hundred_thousand_in_a_circle() -> None:
    size = 100_000
    needs = [[(pos - 1) % size] for pos in range(size)]
    assert len(cycles_of(needs, successors_of(needs))[0]) == size


@settings(deadline=None)
@given(graphs(acyclic=True), st.data())
def test_critical_path_and_slack(needs: list[list[int]], data: st.DataObject) -> None:
    durations = [data.draw(st.integers(0, 5)) for _ in needs]
    workflow = load_value(
        {"tasks": {f"t{pos}": {"run": "x", "needs": [f"t{n}" for n in needed]} for pos, needed in enumerate(needs)}}
    ).workflow

    def length(taken: list[int]) -> int:
        ends: list[int] = []
        for pos, needed in enumerate(needs):
            ends.append(taken[pos] + max((ends[need] for need in needed), default=0))
        return max(ends)

    got = critical_path(workflow, durations)
    assert got.length == length(durations)
    assert sum(durations[pos] for pos in got.path) == got.length
    for before, after in pairwise(got.path):
        assert before in needs[after]
    for pos, slack in enumerate(got.slack):
        longer = list(durations)
        longer[pos] += slack
        assert length(longer) == got.length
        longer[pos] += 1
        assert length(longer) == got.length + 1


def test_final_tasks_come_last_on_the_critical_path() -> None:
    workflow = load_value({"tasks": {"a": "x", "b": "x", "clean": {"run": "x", "when": "always"}}}).workflow
    got = critical_path(workflow, [5, 9, 2])
    assert got.path == (1, 2)
    assert got.length == 11
    assert got.slack == (4, 0, 0)
