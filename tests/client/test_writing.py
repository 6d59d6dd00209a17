"""What can be changed is the same on a store and through a server."""

import pytest

from tests.api.conftest import until
from tests.client.conftest import Place
from tests.client.test_reading import CHAIN, MANY, WAITS
from weft.authoring.load import load_file
from weft.core.commands import Refused, Reply
from weft.operations.errors import Observing

LEVELS = {"name": "levels", "mode": "levels", "tasks": {"a": {"run": "true"}, "b": {"needs": ["a"], "run": "true"}}}
FLAKY = {"name": "flaky", "tasks": {"a": {"run": "test -e fine", "retry": {"max": 0}}}}
DEAD = {"name": "dead", "tasks": {"a": {"run": "test -e fine", "retry": {"max": 1, "backoff": "1ms"}}}}


def test_all_that_can_be_said_about_a_run_arrives(place: Place) -> None:
    said = {"priority": 7, "max_parallel": 3, "key": "once", "labels": {"team": "blue"}, "fresh": True}
    command = place.submission(CHAIN, '{"who": "them"}', **said)
    reply = place.connection.submit(command)
    assert (reply.existing, reply.state) == (False, "running")
    assert reply.run_id is not None
    info = place.store.run(reply.run_id)
    assert (info.priority, info.max_parallel, info.key, info.inputs) == (7, 3, "once", {"who": "them"})
    assert info.workflow == command.workflow
    again = place.connection.submit(place.submission(CHAIN, '{"who": "them"}', **said))
    assert (again.run_id, again.existing) == (reply.run_id, True)
    with pytest.raises(Refused, match="key"):
        place.connection.submit(place.submission(CHAIN, '{"who": "others"}', **said))


def test_a_key_means_the_same_run_on_a_store_and_through_a_server(place: Place) -> None:
    said = {"key": "once", "max_parallel": 2}
    first = place.store.submit(place.submission(CHAIN, '{"who":   "a b"}', **said))
    then = place.connection.submit(place.submission(CHAIN, '{"who": "a b"}', **said))
    assert (then.run_id, then.existing) == (first.run_id, True)


def test_many_at_once_each_with_its_own_answer(place: Place) -> None:
    commands = [
        place.submission(MANY, key="one"), place.submission(MANY, key="one"), place.submission(CHAIN, key="one"),
        place.submission(CHAIN),
    ]  # fmt: skip
    first, same, other, alone = place.connection.submit_each(commands)
    assert isinstance(first, Reply)
    assert isinstance(same, Reply)
    assert isinstance(other, Refused)
    assert isinstance(alone, Reply)
    assert (first.run_id, True) == (same.run_id, same.existing)
    assert other.code == "conflict"
    assert len(place.store.runs()) == 2


def test_a_request_said_twice_is_applied_once(place: Place) -> None:
    command = place.submission(MANY)
    replies = [place.connection.for_request("request-1").submit(command) for _ in range(2)]
    assert replies[0].run_id == replies[1].run_id
    runs = [place.connection.for_request("request-2").rerun(str(replies[0].run_id)) for _ in range(2)]
    assert runs[0].run == runs[1].run
    assert len(place.store.runs()) == 2


def test_cancelling(place: Place) -> None:
    place.work()
    run = place.submit({"name": "long", "tasks": {"a": {"run": "sleep 60"}, "b": {"run": "sleep 60"}}})
    connection = place.connection
    until(lambda: connection.task(run, "a").started_at and connection.task(run, "b").started_at)
    connection.cancel(run, "a", "not this one")
    until(lambda: connection.task(run, "a").state == "cancelled")
    assert connection.task(run, "b").state == "running"
    assert not connection.cancel(run).existing
    assert place.ended(run) == "cancelled"
    assert connection.cancel(run).existing
    connection.expire_dead()
    connection.tidy(run)


@pytest.mark.parametrize("now", [False, True])
def test_handlers_run_after_a_cancel_unless_it_is_now(place: Place, now: bool) -> None:
    place.work()
    tasks = {
        "a": {"run": "sleep 60"},
        "b": {"needs": ["a"], "run": "true"},
        "clean": {"when": "always", "run": "true"},
    }
    run = place.submit({"name": "long", "tasks": tasks})
    until(lambda: place.connection.task(run, "a").started_at)
    place.connection.cancel(run, now=now)
    assert place.ended(run) == "cancelled"
    states = {task.name: task.state for task in place.connection.all_tasks(run)}
    assert states == {"a": "cancelled", "b": "cancelled", "clean": "cancelled" if now else "succeeded"}
    assert place.connection.verify(run).ok


def test_a_signal_and_its_refusal(place: Place) -> None:
    place.work()
    run = place.submit(WAITS)
    connection = place.connection
    until(lambda: connection.task(run, "ask").state == "waiting")
    assert connection.signal(run, "ask", {"who": "me"}).changed == 1
    assert connection.signal(run, "go", {"who": "me"}).existing
    with pytest.raises(Refused):
        connection.signal(run, "go", {"who": "you"})
    assert place.ended(run) == "succeeded"
    other = place.submit(WAITS)
    connection.signal(other, "go", reject="no")
    assert place.ended(other) == "failed"


def test_what_failed_runs_again(place: Place) -> None:
    place.work()
    connection = place.connection
    failed, dead = place.submit(FLAKY), place.submit(DEAD)
    assert (place.ended(failed), place.ended(dead)) == ("failed", "failed")
    assert [task.run_id for task in connection.dead_letters()[0]] == [dead]
    (place.directory / "fine").touch()
    assert connection.resume(failed).run == failed
    assert connection.retry_dead(dead, ["a"]).run == dead
    assert (place.ended(failed), place.ended(dead)) == ("succeeded", "succeeded")
    again = connection.rerun(failed, fresh=True).run
    assert again is not None
    assert place.ended(again) == "succeeded"


def test_levels_by_hand(place: Place) -> None:
    place.work()
    run = place.submit(LEVELS, manual_advance=True)
    connection = place.connection
    until(lambda: connection.awaiting_advance(run))
    assert connection.run(run).succeeded == 1
    connection.advance(run, by_task=True)
    assert place.ended(run) == "succeeded"
    assert connection.canonical(run) == place.store.canonical(run) != []


def test_pools_and_nodes(place: Place) -> None:
    place.work()
    connection = place.connection
    assert not connection.set_pool("db", 2).existing
    assert connection.set_pool("db", 2).existing
    assert [(pool.name, pool.size) for pool in connection.pools()] == [("db", 2)]
    until(lambda: connection.nodes())
    node = connection.drain("here", 5000)
    assert node.node == "here"
    assert node.drain_at > 0
    until(lambda: connection.node(node.session).ended_at)


def test_pruning_gives_every_id_once(place: Place) -> None:
    place.work()
    runs = [place.submit(MANY) for _ in range(3)]
    kept = place.submit(WAITS)
    for run in runs:
        place.ended(run)
    gone = [id for done in place.connection.prune(2**52, ["succeeded"]) for id in done.runs]
    assert sorted(gone) == sorted(runs)
    assert [run.id for run in place.connection.runs()] == [kept]
    assert not any((place.directory / ".weft" / "output" / run).exists() for run in runs)


def test_an_observer_changes_nothing(place: Place) -> None:
    place.store.access.role = "observer"
    with pytest.raises(Observing) as caught:
        place.submit(CHAIN)
    assert caught.value.leader.session is None
    assert "nobody leads right now" in str(caught.value)


def test_workflows_of_files_come_along(place: Place) -> None:
    """At two depths, in two directories, where one word means two things."""
    below = place.directory / "below"
    below.mkdir()
    (place.directory / "top.yaml").write_text(
        "name: top\ntasks:\n  one: {workflow: part.yaml, with: {text: a}}\n  two: {workflow: below/mid.yaml}\n"
    )
    (place.directory / "part.yaml").write_text(
        'name: part\ninputs: {text: {type: string}}\ntasks: {say: "echo here ${{ inputs.text }}"}\n'
    )
    (below / "mid.yaml").write_text("name: mid\ntasks: {three: {workflow: part.yaml}}\n")
    (below / "part.yaml").write_text("name: part\ntasks: {say: pwd}\n")
    loaded = load_file(place.directory / "top.yaml")
    place.work()
    run = place.submit(loaded, key="k")
    assert place.ended(run) == "succeeded"
    said = {}
    for _, id in place.connection.family(run):
        if place.connection.run(id).name == "part":
            starter = place.connection.starter(id)
            assert starter is not None
            said[starter.name] = place.connection.read_output(id, "say", 1, "stdout").data
    assert said == {"one": b"here a\n", "three": f"{below}\n".encode()}
    assert place.store.submit(place.submission(loaded, key="k")).existing
