"""Every `when` over every combination of up to three needs' ends, against an expectation written from SEMANTICS.md.

The expectation looks at the needs themselves, one by one; the engine keeps counters. Each combination is driven
through the real rules and the real store, so the counting, the skipping and the telling are tested with it.
"""

import itertools
from typing import Any

import pytest

from tests.core.driver import Engine
from weft.core import commands as c
from weft.core.rules.readiness import ending_of, judge

WHENS = ("all_success", "none_failed", "any_success", "on_failure", "always")

#: how a need ends -> what SEMANTICS.md says a dependent takes it for
ENDS = {
    "succeeded": "success",
    "failed": "failure",
    "dead_letter": "failure",
    "cancelled": "failure",  # "a need that was cancelled … counts as failed"
    "skipped": "skip",  # "one skipped by its own condition counts as skipped"
    "upstream": "failure",  # "or skipped because of an earlier failure, counts as failed"
    "allowed": "success",  # "allow_failure stays failed, but counts as succeeded for dependents"
}


def expected(when: str, ends: tuple[str, ...]) -> str:
    """started, skipped (by its own rule) or upstream (because of an earlier failure)."""
    seen = [ENDS[end] for end in ends]
    starts = {
        "all_success": all(one == "success" for one in seen),
        "none_failed": "failure" not in seen,
        "any_success": "success" in seen,
        "on_failure": "failure" in seen,
        "always": True,
    }[when]
    if starts:
        return "started"
    return "upstream" if "failure" in seen else "skipped"


def needs_that_end(ends: tuple[str, ...]) -> dict[str, Any]:
    """Tasks n0 … that end as asked. A need that is skipped has a reason of its own to be."""
    tasks: dict[str, Any] = {}
    for at, end in enumerate(ends):
        task: dict[str, Any] = {"inline": "work"}
        if end == "dead_letter":
            task["retry"] = {"max": 1, "backoff": "1s", "jitter": 0}
        elif end == "allowed":
            task["allow_failure"] = True
        elif end == "skipped":
            tasks[f"good{at}"] = {"inline": "work"}
            task |= {"needs": [f"good{at}"], "when": "on_failure"}
        elif end == "upstream":
            tasks[f"bad{at}"] = {"inline": "work"}
            task["needs"] = [f"bad{at}"]
        tasks[f"n{at}"] = task
    return tasks


def drive(engine: Engine, run_id: str, ends: tuple[str, ...]) -> None:
    """Let all needs end as they should; what hangs on them is decided on the way."""
    for at, end in enumerate(ends):
        if end == "cancelled":
            engine.commit(c.CancelTask(run_id, f"n{at}"))
    engine.exchange("a")
    for _ in range(2):  # dead letters fail twice
        reports = []
        for name in list(engine.held["a"]):
            if name.startswith("subject"):
                continue
            at = int(name[-1])
            fails = name.startswith("bad") or (name[0] == "n" and ends[at] in ("failed", "dead_letter", "allowed"))
            reports.append(engine.report("a", name, "failed" if fails else "succeeded"))
        engine.exchange("a", reports)
        engine.time_ms += 2_000
        engine.exchange("a")


def combinations() -> list[tuple[str, ...]]:
    """The order of the needs does not matter to the rule, and is varied by the mirrored half."""
    found = [ends for count in (1, 2, 3) for ends in itertools.combinations_with_replacement(ENDS, count)]
    return found + [tuple(reversed(ends)) for ends in found if ends != tuple(reversed(ends))]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_rule_over_every_combination_of_ends(count: int) -> None:
    for ends in [ends for ends in combinations() if len(ends) == count]:
        engine = Engine()
        engine.node("a")
        tasks = needs_that_end(ends)
        names = [f"n{at}" for at in range(count)]
        for when in WHENS:
            tasks[f"subject_{when}"] = {"inline": "work", "needs": names, "when": when}
        run_id = engine.submit({"name": "w", "on_failure": "continue", "tasks": tasks})
        drive(engine, run_id, ends)
        for when in WHENS:
            subject = engine.task(run_id, f"subject_{when}")
            got = "started" if subject.state == "running" else "upstream" if subject.upstream else subject.state
            assert got == expected(when, ends), f"{when} with needs {ends}: {got}"
        engine.check(run_id)
        engine.store.close()


@pytest.mark.parametrize("when", WHENS)
def test_nothing_is_decided_while_a_need_is_open(when: str) -> None:
    for failed, skipped in itertools.product(range(3), repeat=2):
        assert judge(when, 5, 1, failed, skipped) == "wait"


@pytest.mark.parametrize("when", WHENS)
def test_the_counters_agree_with_the_ends_at_any_size(when: str) -> None:
    for good, failed, skipped in itertools.product(range(4), repeat=3):
        if good + failed + skipped == 0:
            continue
        ends = ("succeeded",) * good + ("failed",) * failed + ("skipped",) * skipped
        verdict = judge(when, len(ends), 0, failed, skipped)
        said = {"start": "started", "skip": "skipped", "skip_upstream": "upstream"}[verdict]
        if when == "on_failure":  # its rule is never false because of a failure
            assert said != "upstream"
        assert said == expected(when, ends), ends


def test_the_ends_as_a_dependent_sees_them() -> None:
    states = {
        "succeeded": ("succeeded", False, False), "failed": ("failed", False, False),
        "dead_letter": ("dead_letter", False, False), "cancelled": ("cancelled", False, False),
        "skipped": ("skipped", False, False), "upstream": ("skipped", True, False),
        "allowed": ("failed", False, True),
    }  # fmt: skip
    words = {"success": "ok", "failure": "failed", "skip": "skipped"}
    for end, given in states.items():
        assert ending_of(*given) == words[ENDS[end]], end
    assert ending_of("dead_letter", False, True) == "ok"
    assert ending_of("cancelled", False, True) == "failed", "a cancel is not a failure that was allowed"


@pytest.mark.parametrize(("end", "started"), [("succeeded", False), ("failed", True), ("allowed", False)])
def test_handlers_of_the_whole_run(end: str, started: bool) -> None:
    engine = Engine()
    engine.node("a")
    tasks = needs_that_end((end,))
    tasks["subject_alarm"] = {"inline": "work", "when": "on_failure"}
    tasks["subject_always"] = {"inline": "work", "when": "always"}
    run_id = engine.submit({"name": "w", "on_failure": "continue", "tasks": tasks})
    engine.exchange("a")
    assert engine.task(run_id, "subject_always").state == "pending", "handlers start after all other tasks"
    drive(engine, run_id, (end,))
    assert engine.task(run_id, "subject_always").state == "running"
    assert engine.task(run_id, "subject_alarm").state == ("running" if started else "skipped")
    engine.check(run_id)
