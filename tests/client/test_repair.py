"""A run is repaired in place, the same on a store and through a server: a corrected definition, decisions, pauses."""

from typing import Any

import pytest

from tests.api.conftest import until
from tests.client.conftest import Place
from weft.authoring.errors import DefinitionErrors
from weft.core.commands import Refused

BROKEN: dict[str, Any] = {
    "name": "broken",
    "tasks": {
        "load": {"run": """echo '{"rows": 7}' > "$WEFT_OUTPUT"; echo x >> loads"""},
        "check": {"needs": ["load"], "run": "exit 3"},
        "report": {"needs": ["check"], "run": "echo ${{ tasks.load.output.rows }} > report"},
        "other": {"run": "echo x >> others", "timeout": "10s"},
    },
}


def corrected(**tasks: Any) -> dict[str, Any]:
    """With other tasks, and in another order: positions must not depend on it."""
    both = {**BROKEN["tasks"], **tasks}
    return {**BROKEN, "tasks": {name: both[name] for name in reversed(both) if both[name] is not None}}


FIXED = corrected(
    check={"needs": ["load"], "run": "exit 0"},
    other={"run": "echo x >> others", "timeout": "20s", "retry": 2},
    extra={"needs": ["report"], "run": "cp report extra"},
)


def test_a_corrected_definition_keeps_what_did_not_change(place: Place) -> None:
    place.work()
    run = place.submit(BROKEN)
    assert place.ended(run) == "failed"
    plan = place.connection.correct(run, FIXED, preview=True)
    assert (plan.again, plan.changed, plan.new, plan.kept) == (
        ["check", "report", "extra"], ["check"], ["extra"], 2,
    )  # fmt: skip
    assert place.connection.run(run).generation == 1, "a preview changes nothing"
    done = place.connection.correct(run, FIXED)
    assert done.workflow == plan.workflow
    assert place.ended(run) == "succeeded"
    assert (place.directory / "extra").read_text() == "7\n"
    assert [(place.directory / name).read_text() for name in ("loads", "others")] == ["x\n", "x\n"]
    info = place.connection.run(run)
    assert (info.generation, info.workflow, info.total) == (2, plan.workflow, 5)
    assert place.connection.verify(run).differences == []
    (resumed,) = [event for event in place.connection.events(run, limit=100) if event.kind == "resumed"]
    assert resumed.data["workflow"] == plan.workflow


def test_a_run_is_corrected_again_and_again(place: Place) -> None:
    place.work()
    run = place.submit(BROKEN)
    place.ended(run)
    for code in (4, 5, 0):
        place.connection.correct(run, corrected(check={"needs": ["load"], "run": f"exit {code}"}))
        assert place.ended(run) == ("failed" if code else "succeeded")
        assert place.connection.verify(run).differences == []
    assert [done.runs for done in place.store.prune(2**50)] == [[run]]
    assert place.store.runs() == []
    assert place.store.access.read("workflow_document", place.submission(BROKEN).workflow) == []


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        (corrected(other=None), "has no task 'other', which the run has"),
        ({**FIXED, "mode": "levels"}, "mode cannot change within a run"),
        ({**FIXED, "inputs": {"day": {"type": "string", "default": "x"}}}, "was started without the input 'day'"),
        (corrected(check={"workflow": "elsewhere", "needs": ["load"]}), "knows no workflow 'elsewhere'"),
    ],
)
def test_what_cannot_be_mapped_is_refused(place: Place, definition: dict[str, Any], why: str) -> None:
    place.work()
    run = place.submit(BROKEN)
    place.ended(run)
    with pytest.raises(Refused, match=why):
        place.connection.correct(run, definition)
    with pytest.raises(DefinitionErrors):
        place.connection.correct(run, {"tasks": {"a": {"rum": "x"}}})
    assert place.connection.run(run).generation == 1


def test_a_run_that_goes_on_is_not_corrected(place: Place) -> None:
    run = place.submit(BROKEN)
    with pytest.raises(Refused, match="still running"):
        place.connection.correct(run, FIXED)


def test_a_definition_that_changes_nothing_is_refused(place: Place) -> None:
    place.work()
    run = place.submit({"name": "good", "tasks": {"a": {"run": "true"}}})
    place.ended(run)
    with pytest.raises(Refused, match="nothing that the definition changes"):
        place.connection.correct(run, {"name": "good", "tasks": {"a": {"run": "true", "timeout": "1m"}}})


def test_skipped_and_marked_by_hand(place: Place) -> None:
    place.work()
    run = place.submit(BROKEN)
    place.ended(run)
    reply = place.connection.mark(run, ["check"], {"by": "hand"}, "looked at it")
    assert (reply.changed, reply.state) == (1, "running")
    assert place.ended(run) == "succeeded"
    assert place.connection.verify(run).differences == []
    (_, by_hand) = place.connection.attempts(run, "check")
    assert by_hand.result is not None
    assert by_hand.result["output"] == {"by": "hand"}
    with pytest.raises(Refused, match="report has succeeded"):
        place.connection.skip(run, ["report"])
    other = place.submit(BROKEN)
    place.ended(other)
    place.connection.skip(other, ["check"], "not today")
    assert place.ended(other) == "succeeded"
    task = place.connection.task(other, "check")
    assert (task.state, task.reason) == ("skipped", "not today")


def test_a_paused_run_starts_nothing(place: Place) -> None:
    run = place.submit(BROKEN)
    assert place.connection.pause(run, "wait").changed == 2
    assert place.connection.run(run).paused
    place.work()
    until(lambda: place.store.nodes())
    assert {place.connection.task(run, name).state for name in BROKEN["tasks"]} == {"pending"}
    assert place.connection.unpause(run).changed == 2
    assert place.ended(run) == "failed"
    assert not place.connection.run(run).paused
    assert place.connection.verify(run).differences == []


def test_a_run_is_made_again_with_other_inputs(place: Place) -> None:
    definition = {
        "name": "daily",
        "inputs": {"day": {"type": "string"}, "n": {"type": "integer", "default": 1}},
        "tasks": {"a": {"run": "echo ${{ inputs.day }} ${{ inputs.n }} >> days"}},
    }
    place.work()
    run = place.submit(definition, '{"day": "mon", "n": 2}', labels={"team": "blue"})
    place.ended(run)
    again = place.connection.rerun(run, inputs={"day": "tue"})
    assert again.run is not None
    assert place.ended(again.run) == "succeeded"
    assert (place.directory / "days").read_text() == "mon 2\ntue 2\n"
    assert place.connection.run(again.run).labels == {"team": "blue"}
    for wrong in ({"week": 1}, {"n": "x"}):
        with pytest.raises(Refused, match=r"no input 'week'|takes a whole number"):
            place.connection.rerun(run, inputs=wrong)
