"""What can be looked at is the same from a store and from a server."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import until
from tests.client.conftest import Place
from weft.authoring.load import load_file
from weft.client.remote import ServerConnection
from weft.client.verbs import Connection
from weft.core.commands import Refused
from weft.operations.errors import Ambiguous, NotFound

CHAIN = {
    "name": "chain",
    "inputs": {"who": {"type": "string", "default": "you"}},
    "tasks": {"a": {"run": "echo one"}, "b": {"needs": ["a"], "run": "echo two >&2"}},
    "output": "${{ tasks.a.stdout }}",
}
MANY = {"name": "many", "tasks": {"t": {"replicas": 25, "run": "true"}}}
WAITS = {"name": "waits", "tasks": {"ask": {"wait": {"signal": "go"}}, "after": {"needs": ["ask"], "run": "true"}}}
CHILD = """\
name: child
tasks:
  hold: {wait: {signal: go}}
"""
PARENT = """\
name: parent
tasks:
  call: {workflow: child.yaml}
"""


def test_a_remote_control_has_every_verb() -> None:
    verbs = {name for name in vars(Connection) if not name.startswith("_")}
    assert verbs <= set(dir(ServerConnection))


def test_why_says_that_there_is_no_such_element(place: Place) -> None:
    later = {"needs": ["a"], "replicas": 2, "run": "true"}
    run = place.submit(
        {"name": "w", "tasks": {"a": {"run": "true"}, "now": {"replicas": 3, "run": "true"}, "m": later}}
    )
    assert place.connection.why(run, "now.2")[0].task == "now.2"
    for task, why in (
        ("a.7", "a is one task, without elements"),
        ("m.0", "m gets its elements when it starts"),
        ("now.3", "now has 3 elements, numbered from 0"),
    ):
        with pytest.raises(NotFound, match=f"the run has no task {task}.*: {why}"):
            place.connection.why(run, task)


def test_a_run_from_its_beginning_to_its_end(place: Place) -> None:
    connection = place.connection
    run = place.submit(CHAIN, '{"who": "them"}')
    assert connection.find(run[:6]) == connection.find("last") == (1, run)
    assert connection.run(run).state == "running"
    assert [task.state for task in connection.all_tasks(run)] == ["queued", "pending"]
    place.work()
    assert place.ended(run) == "succeeded"
    info = connection.run(run)
    assert (info.inputs, info.source, info.total) == ({"who": "them"}, str(place.directory), 2)
    assert connection.output(run) == "one\n"
    assert connection.context(run) == {}
    assert connection.task(run, "b").node == "here"
    assert [attempt.outcome for attempt in connection.attempts(run, "b")] == ["succeeded"]
    part = connection.read_output(run, "b", 1, "stderr", offset=1, limit=2)
    assert (part.data, part.offset, part.next, part.size, part.ended) == (b"wo", 1, 3, 4, True)
    assert connection.verify(run).ok
    assert connection.workflow(run).hash == connection.workflows(run)[0].hash == info.workflow
    assert connection.document(info.workflow)["name"] == "chain"
    assert connection.family(run) == [(1, run)]
    assert connection.starter(run) is None
    assert connection.canonical(run) == []
    assert connection.why(run, "b")[0].task == "b"
    assert not connection.awaiting_advance(run)


def test_both_say_the_same(place: Place) -> None:
    """Whatever is asked for: the records are equal to those of the store itself."""
    place.work()
    run = place.submit(CHAIN)
    place.ended(run)
    ours, theirs = place.connection, place.store
    for verb in ("run", "workflow", "workflows", "family", "starter", "context", "output", "verify", "why"):
        assert getattr(ours, verb)(run) == getattr(theirs, verb)(run), verb
    for verb in ("runs", "tasks", "pools", "dead_letters", "workflow_names", "last_event"):
        assert getattr(ours, verb)() == getattr(theirs, verb)(), verb
    assert ours.events(run) == theirs.events(run)
    assert ours.attempts(run, "a") == theirs.attempts(run, "a")
    assert ours.version("chain") == theirs.version("chain")
    assert ours.versions("chain") == theirs.versions("chain")
    assert ours.info().runs == theirs.info().runs
    assert [node.session for node in ours.nodes()] == [node.session for node in theirs.nodes()]
    assert ours.node("here").session == theirs.node("here").session
    until(lambda: theirs.leader().session)
    assert ours.leader().session == theirs.leader().session
    until(lambda: theirs.node_work("here").running_count == 0)
    assert ours.node_work("here").claims == theirs.node_work("here").claims == 2
    other = place.submit(CHAIN)
    assert ours.last_event(run) == theirs.last_event(run) == ours.events(run)[-1].seq < ours.events(other)[0].seq
    assert abs(ours.now() - theirs.now()) < 60_000


def test_lists_go_on_where_a_page_ended(place: Place) -> None:
    connection = place.connection
    runs = [place.submit(MANY) for _ in range(5)]
    first = connection.runs(limit=2)
    assert [run.id for run in first] == runs[:2:-1]
    assert [run.id for run in connection.runs(before=first[-1].no)] == runs[2::-1]
    page, after = connection.tasks(runs[0], limit=10)
    assert after is not None
    rest, end = connection.tasks(runs[0], after=after)
    names = [task.name for task in [*page, *rest]]
    assert (len(names), len(set(names)), end) == (26, 26, None)
    everything, _ = connection.tasks(states=["queued"], limit=2000)
    assert len(everything) == 125
    history = connection.events(runs[0], limit=1)
    assert connection.events(runs[0], after=history[0].seq)[0].seq > history[0].seq


@pytest.mark.parametrize("limit", [1, 1000, 1001, 2500])
def test_a_list_longer_than_a_servers_page_comes_whole(place: Place, limit: int) -> None:
    place.submit({"name": "wide", "tasks": {"t": {"replicas": 1200, "run": "true"}}})
    found, after = place.connection.tasks(limit=limit)
    assert len(found) == min(limit, 1201)
    assert (after is None) == (limit > 1201)


def test_events_by_their_filters(place: Place) -> None:
    place.work()
    run = place.submit(CHAIN)
    place.ended(run)
    connection = place.connection
    kinds = [event.kind for event in connection.events(run, task="a")]
    assert "finished" in kinds
    assert {event.kind for event in connection.events(None, kinds=["finished"])} == {"finished"}
    assert connection.events(run, until=0) == []
    assert connection.events(run, task="no task's name!") == []
    assert len(connection.events(None, node="here")) > 0
    with pytest.raises(NotFound, match="there is no node nobody"):
        connection.events(None, node="nobody")


def asked(place: Place) -> dict[str, Any]:
    connection, run = place.connection, place.submit(CHAIN)
    place.submit(CHAIN)
    return {
        "no such run": lambda: connection.run("uuu"),  # no id has this letter: one in 32,768 begins with zzz
        "no id": lambda: connection.run("../etc"),
        "no such task": lambda: connection.task(run, "zzz"),
        "no name of a task": lambda: connection.task(run, "a b/c"),
        "no such attempt": lambda: connection.read_output(run, "a", 7, "stdout"),
        "attempt 0": lambda: connection.read_output(run, "a", 0, "stdout"),
        "no such node": lambda: connection.node("zzz"),
        "no such workflow": lambda: connection.version("zzz"),
        "nearly its name": lambda: connection.version("chian"),
        "no such version": lambda: connection.version("chain", "0000"),
        "no such document": lambda: connection.document("0" * 64),
        "no hash": lambda: connection.document("zzz"),
        "too early": lambda: connection.output(run),
        "not resting": lambda: connection.advance(run),
        "no signal": lambda: connection.signal(run, "zzz"),
        "cancel no task": lambda: connection.cancel(run, "zzz"),
        "retry no dead letter": lambda: connection.retry_dead(run),
        "drain nobody": lambda: connection.drain("zzz", 1000),
    }


def test_refusals_are_the_same_errors_in_the_same_words(tmp_path: Path) -> None:
    shown: list[dict[str, tuple[str, str]]] = []
    for kind in ("local", "remote"):
        (tmp_path / kind).mkdir()
        place = Place(kind, tmp_path / kind)
        try:
            found = {}
            for name, ask in asked(place).items():
                with pytest.raises((NotFound, Ambiguous, Refused)) as caught:
                    pytest.fail(f"{name}: answered with {ask()}")
                text = str(caught.value)
                for number, run in enumerate(place.store.runs()):
                    text = text.replace(run.id, f"RUN{number}")
                found[name] = (type(caught.value).__name__, text)
            shown.append(found)
        finally:
            place.close()
    assert shown[0] == shown[1]


def test_a_beginning_that_several_share_is_ambiguous(place: Place) -> None:
    for number in range(40):
        place.submit(MANY, key=str(number))
    ids = [run.id for run in place.store.runs(limit=40)]
    shared = next(id[0] for id in ids if sum(other[0] == id[0] for other in ids) > 1)
    with pytest.raises(Ambiguous, match="could be any of"):
        place.connection.run(shared)


def test_a_family_and_what_it_waits_for(place: Place) -> None:
    (place.directory / "parent.yaml").write_text(PARENT)
    (place.directory / "child.yaml").write_text(CHILD)
    place.work()
    run = place.submit(load_file(place.directory / "parent.yaml"))
    connection = place.connection
    until(lambda: connection.waiting_below(run, 10))
    (wanted,) = connection.waiting_below(run, 10)
    assert (wanted.task, wanted.signal) == ("hold", "go")
    assert [id for _, id in connection.family(run)] == [run, wanted.run]
    starter = connection.starter(wanted.run)
    assert starter is not None
    assert (starter.run_id, starter.name) == (run, "call")
    assert [workflow.name for workflow in connection.workflows(run)] == ["parent", "child"]
    connection.signal(wanted.run, "go")
    assert place.ended(run) == "succeeded"


def test_what_a_node_did_is_counted_within_bounds(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.work()
    place.ended(place.submit(CHAIN))
    until(lambda: place.store.node_work("here").running_count == 0)
    work = place.connection.node_work("here")
    assert (work.counted, work.claims, work.outcomes) == ("all", 2, {"succeeded": 2})
    monkeypatch.setattr("weft.operations.reading.nodes.LOOKED_AT", 1)
    session = place.store.node("here").session
    until(lambda: place.store.node("here").measured_at)  # the next time is in ten seconds
    place.store.store.renew(session, 30_000, '{"counted":{"claims":7,"outcomes":{"succeeded":5,"failed":1}}}')
    work = place.connection.node_work("here")
    assert (work.counted, work.claims, work.outcomes) == ("node", 7, {"succeeded": 5, "failed": 1})
    place.store.store.renew(session, 30_000, "{}")
    work = place.connection.node_work("here")
    assert (work.counted, work.claims, work.outcomes) == ("newest", 1, {"succeeded": 1})
