"""The states and events of the code, of the schema and of the docs are the same ones."""

import re

import pytest

from tests.architecture.source import ROOT, SRC, cluster_kinds, emitted_kinds
from tests.core.history import events
from tests.core.scenarios.story import Story, read_files
from tests.core.test_scenarios import STORIES
from tests.docs.events import ANY, CLUSTER_EVENTS, EVENTS, events_reference
from tests.docs.states import states_reference
from weft.core.history.kinds import EVENT_KINDS
from weft.core.history.replay import Replay
from weft.core.states import (
    ACTIVE,
    FAILED,
    RUN_STATES,
    RUN_TERMINAL,
    RUN_TRANSITIONS,
    TASK_STATES,
    TERMINAL,
    TRANSITIONS,
)

SCHEMAS = sorted(SRC.glob("store/*/migrations/*.up.sql"))
_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*?)\n\)", re.DOTALL)
_CHECK = re.compile(r"\bstate\s[^,]*?CHECK \(state IN \(([^)]*)\)\)", re.DOTALL)


def checked_states(table: str) -> list[list[str]]:
    """The states that each dialect's schema allows in a table."""
    found = []
    for path in SCHEMAS:
        for name, body in _TABLE.findall(path.read_text()):
            match = _CHECK.search(body)
            if name == table and match:
                found.append(re.findall(r"'(\w+)'", match[1]))
    return found


@pytest.mark.parametrize(("table", "states"), [("runs", RUN_STATES), ("tasks", TASK_STATES)])
def test_the_schema_allows_exactly_the_states(table: str, states: tuple[str, ...]) -> None:
    found = checked_states(table)
    assert found
    assert all(sorted(one) == sorted(states) for one in found), found


def test_transitions_speak_of_known_states_and_leave_no_end() -> None:
    assert {state for pair in TRANSITIONS for state in pair} == set(TASK_STATES)
    assert {state for pair in RUN_TRANSITIONS for state in pair} == set(RUN_STATES)
    assert not [pair for pair in TRANSITIONS if pair[0] in TERMINAL], "a task that has ended does not move"
    assert all(pair[1] == "running" for pair in RUN_TRANSITIONS if pair[0] in RUN_TERMINAL)
    assert set(TASK_STATES) >= ACTIVE | FAILED | TERMINAL


def test_every_state_can_be_reached_and_left() -> None:
    reached = ["pending"]
    for state in reached:
        reached += [end for start, end in TRANSITIONS if start == state and end not in reached]
    assert sorted(reached) == sorted(TASK_STATES)
    assert {start for start, _ in TRANSITIONS} == set(TASK_STATES) - TERMINAL


def test_the_page_of_states_is_what_the_code_says() -> None:
    assert (ROOT / "docs/reference/states.md").read_text() == states_reference(), "make docs"


# -- events ----------------------------------------------------------------------------------------------------


#: Kinds that no story tells of, and why not.
NOT_TOLD: dict[str, str] = {}


def replayed_kinds() -> set[str]:
    return {name.removeprefix("_on_") for name in vars(Replay) if name.startswith("_on_")}


def test_replay_knows_exactly_the_events_that_rules_leave() -> None:
    assert sorted(replayed_kinds()) == sorted(emitted_kinds())


def test_the_page_of_events_lists_exactly_those() -> None:
    assert sorted(EVENTS) == sorted(emitted_kinds())
    assert sorted(CLUSTER_EVENTS) == sorted(cluster_kinds())
    assert (ROOT / "docs/reference/events.md").read_text() == events_reference(), "make docs"


def test_a_filter_may_ask_for_exactly_those() -> None:
    assert sorted(EVENT_KINDS) == sorted([*emitted_kinds(), *cluster_kinds()])


def test_the_stories_tell_of_every_kind_with_the_fields_that_are_documented() -> None:
    """Looked up in what the stories really leave in a store, but for those of thousands of tasks."""

    seen: dict[str, set[str]] = {}
    for path in STORIES:
        _, definition, body = path.read_text().split("---\n", 2)
        if " of " in definition:
            continue
        story = Story(*read_files(definition))
        for line in body.splitlines():
            if line and line[0] not in " #":
                story.play(line)
        for event in events(story.engine.store.reader()):
            seen.setdefault(event.kind, set()).update(event.data)
        story.engine.store.close()
    known = EVENTS | CLUSTER_EVENTS
    assert sorted(set(known) - set(seen)) == sorted(NOT_TOLD), "tell a story of it, and take it off NOT_TOLD"
    undocumented = {kind: sorted(fields - set(known[kind].fields) - set(ANY)) for kind, fields in seen.items()}
    assert {kind: fields for kind, fields in undocumented.items() if fields} == {}
