"""A run from a task on, the same on a store and through a server: what came before is taken over."""

from typing import Any

import pytest

from tests.client.conftest import Place
from weft.core.commands import Refused

LARGE = 2**20 + 10  # characters, more than the store keeps
STEPS: dict[str, Any] = {
    "name": "steps",
    "inputs": {"word": {"type": "string", "default": "one"}},
    "tasks": {
        "list": {"run": """echo x >> lists; echo '["a", "b"]' > "$WEFT_OUTPUT" """},
        "each": {
            "needs": ["list"], "map": "${{ tasks.list.output }}", "label": "${{ item }}",
            "run": """echo x >> each; printf '"%s"' ${{ item }} > "$WEFT_OUTPUT" """,
        },
        "large": {"run": f"""echo x >> larges; printf '"%0{LARGE}d"' 7 > "$WEFT_OUTPUT" """},
        "join": {
            "needs": ["each", "large"],
            "env": {"TEXT": "${{ tasks.large.output.length }} ${{ tasks.each.output }} ${{ inputs.word }}"},
            "run": """echo "$TEXT" >> joined; test -e fixed""",
        },
        "last": {"needs": ["join"], "run": "echo last"},
    },
}  # fmt: skip


def lines(place: Place, name: str) -> list[str]:
    return (place.directory / name).read_text().splitlines()


def test_a_rerun_takes_over_what_came_before(place: Place) -> None:
    place.work()
    old = place.submit(STEPS, '{"word":"one"}')
    assert place.ended(old) == "failed"
    (place.directory / "fixed").touch()
    plan = place.connection.preview_rerun(old, ["join"])
    assert (plan.again, plan.taken_over) == (["join", "last"], ["list", "each", "large"])
    assert [run.id for run in place.store.runs()] == [old], "a preview changes nothing"
    new = place.connection.rerun(old, from_tasks=["join"], inputs={"word": "two"}).run
    assert new is not None
    assert place.ended(new) == "succeeded"
    assert [len(lines(place, name)) for name in ("lists", "each", "larges")] == [1, 2, 1]
    assert lines(place, "joined") == [f'{LARGE} ["a","b"] one', f'{LARGE} ["a","b"] two']
    assert place.connection.run(new).taken_from == old
    assert place.connection.verify(new).differences == []
    tasks = {task.name: task for task in place.connection.tasks(new)[0]}
    assert tasks["each.1"].label == "b"
    assert tasks["each.1"].cached == {"run": old, "task": "each.1", "attempt": 1, "taken_over": True}
    assert tasks["join"].cached is None
    (why,) = place.connection.why(new, "list")
    assert f"taken over from list of run {old}" in why.details[0]
    taken = {task.task: task.taken_over for task in place.connection.diff_runs(old, new).tasks}
    assert taken == {"list": True, "each": True, "large": True, "join": False, "last": False}


def test_the_source_stays_as_long_as_the_new_run(place: Place) -> None:
    """Also what a chain of reruns goes back to: the artifact is where the first of them has it."""
    place.work()
    first = place.submit(STEPS, '{"word":"one"}')
    place.ended(first)
    second = place.connection.rerun(first, from_tasks=["join"]).run
    assert second is not None
    place.ended(second)
    done = list(place.store.prune(2**50, ["failed", "succeeded"]))
    assert [run for one in done for run in one.runs] == [second, first], "the newest goes first, then its source"
    first = place.submit(STEPS, '{"word":"one"}')
    place.ended(first)
    second = place.connection.rerun(first, from_tasks=["join"]).run or ""
    place.ended(second)
    (place.directory / "fixed").touch()
    third = place.connection.rerun(second, from_tasks=["join"]).run or ""
    assert place.ended(third) == "succeeded"
    (done_once,) = place.store.prune(2**50, ["failed"])
    assert done_once.runs == []
    assert [(one.run, one.taken_over_by) for one in done_once.kept] == [(first, second), (second, third)]
    assert place.connection.verify(third).differences == []
    _, file = place.connection.open_artifact(third, "large", None)
    with file:
        assert file.read() == f'"{7:0{LARGE}d}"'.encode()


def test_what_cannot_be_taken_over_is_refused(place: Place) -> None:
    place.work()
    old = place.submit(STEPS, '{"word":"one"}')
    place.ended(old)
    with pytest.raises(Refused, match=r"join is failed, and only .* can be taken over: add --from join"):
        place.connection.rerun(old, from_tasks=["last"])
    with pytest.raises(Refused, match=r"each\.1 is an element"):
        place.connection.preview_rerun(old, ["each.1"])
