"""The screens, on a store and through a server: what is seen, where keys lead, what they do."""

import time

import pytest

from tests.api.conftest import until
from tests.client.conftest import Place, place  # noqa: F401 - a fixture
from tests.tui.conftest import PLAN, View, watch
from weft.authoring.load import Loaded, load_value
from weft.client.verbs import Connection
from weft.tui.run_screen import RunScreen


def ran(store: Place) -> str:
    """The plan, as far as it goes without its signal."""
    store.work()
    run = store.submit(PLAN)
    until(lambda: store.connection.task(run, "approve").state == "waiting")
    until(lambda: store.connection.task(run, "poor").state == "dead_letter")
    return run


def test_from_runs_to_the_output_of_a_task(place: Place) -> None:  # noqa: F811
    run = ran(place)

    async def story(view: View) -> None:
        await view.sees(run, "plan", "▸ running", "enter open", "c cancel", "p pause")
        await view.press("enter")
        await view.sees("extract", "load")
        assert view.line("extract").split() == [
            "1",
            "extract",
            "✓",
            "succeeded",
            "here",
            "1",
            *view.line("extract").split()[6:],
        ]
        await view.row("poor", "† dead letter")
        await view.row("never", "○ skipped")
        await view.row("approve", "? waiting", "← ok")
        await view.row("many ×3", "✓ 3/3")
        await view.press("end", "home")
        await view.sees("enter output")
        await view.press("enter")
        await view.sees("one", "stdout 4 B", "o stderr")
        await view.press("o")
        await view.sees("quietly", "o stdout")
        await view.press("w")
        await view.sees("why extract", "it succeeded")
        await view.press("escape")
        await view.sees_no("why extract")
        await view.press("escape")
        await view.sees("many ×3", "[ back in time")

    watch(place.connection, story)


def test_a_mapped_task_opens_into_its_elements(store: Place) -> None:
    run = ran(store)

    async def story(view: View) -> None:
        await view.sees("many ×3", "▸ many")
        await view.press("down", "down")
        await view.sees("enter elements")
        await view.press("enter")
        await view.sees("▾ many", "many.0", "many.1", "many.2")
        await view.press("down", "down", "enter")
        await view.sees("element 1")
        await view.press("escape")
        await view.sees("many.2")
        await view.press("up", "up")
        await view.sees("enter elements")
        await view.press("enter")
        await view.sees_no("many.1")

    watch(store.connection, story, run=run)


def test_a_filter_shows_what_has_its_words(store: Place) -> None:
    store.submit({"name": "other", "tasks": {"a": "true"}})
    run = ran(store)

    async def story(view: View) -> None:
        await view.sees("plan", "other")
        await view.type("/oth")
        await view.sees_no("plan")
        await view.press("escape")
        await view.sees("plan", "other")
        await view.type("/running")
        await view.press("enter")
        await view.sees_no("other")
        await view.until(lambda: "filter: running" in view.head)
        await view.press("escape")
        await view.sees("plan", "other")
        await view.go(f"run {run[:8]}")
        await view.sees("extract")
        await view.type("/dead letter")
        await view.sees_no("extract")
        await view.row("poor", "† dead letter")

    watch(store.connection, story)


def test_colon_goes_everywhere_and_completes(store: Place) -> None:
    run = ran(store)
    store.store.set_pool("db", 2)
    timed = {"name": "timed", "tasks": {"a": "true"}, "triggers": [{"name": "nightly", "cron": "0 2 * * *"}]}
    store.store.apply(store_loaded(timed), str(store.directory), "a test")

    async def story(view: View) -> None:
        await view.sees(run)
        await view.type(":no")
        await view.sees(":nodes")
        await view.press("tab", "enter")
        await view.sees("weft nodes", "✓ healthy", "d drain", "term 1")
        await view.press("enter")
        await view.sees("node here", "claimed")
        await view.go("dead")
        await view.sees("dead letters", "poor", "exit code 4")
        await view.sees_no("t retry")  # its run goes on
        await view.go("triggers")
        await view.sees("timed/nightly", "p pause", "f fire")
        await view.press("p")
        await view.sees("‖ paused", "p unpause")
        await view.go("pools")
        await view.sees("db", "0/2")
        await view.go("runs")
        await view.sees("weft runs")
        await view.go("nowhere")
        await view.sees("there is no :nowhere")
        await view.go("run zzzz")
        await view.sees("there is no run zzzz")
        await view.press("question_mark")
        await view.sees("select", "Here, now:")

    watch(store.connection, story)


def store_loaded(definition: object) -> Loaded:
    return load_value(definition, "test")


def test_verbs_change_the_run(store: Place) -> None:
    run = ran(store)

    async def story(view: View) -> None:
        await view.sees("approve", "P pause run")
        await view.press("P")
        await view.sees("is paused", "‖ paused", "P unpause run")
        await view.press("P")
        await view.sees("P pause run")
        await view.type("/approve")
        await view.press("enter")
        await view.sees("g signal", "j reject")
        await view.press("g")
        await view.sees("Answer the wait")
        await view.type("[1]")
        await view.press("enter")
        await view.sees("✓ succeeded")
        await view.press("escape")
        await view.sees("✗ failed")  # the run: what it waited for is there, and poor is a dead letter
        await view.type("/poor")
        await view.press("enter")
        await view.sees("t retry", "T retry dead run", "R resume run")
        await view.press("t")
        await view.sees("with new retries", "y yes")
        await view.press("n")
        await view.sees_no("y yes")
        assert store.connection.run(run).generation == 1
        await view.press("t")
        await view.sees("y yes")
        await view.press("y")
        await view.until(lambda: store.connection.run(run).generation == 2)

    watch(store.connection, story, run=run)
    assert store.connection.task(run, "approve").state == "succeeded"
    store.ended(run)


def test_nothing_is_cancelled_without_a_yes(store: Place) -> None:
    run = store.submit(PLAN)

    async def story(view: View) -> None:
        await view.sees("plan", "c cancel")
        await view.press("c")
        await view.sees("Cancel plan", "y yes   n no")
        await view.press("x")
        await view.press("escape")
        await view.sees_no("y yes   n no")
        assert store.connection.run(run).state == "running"
        await view.press("c")
        await view.sees("y yes   n no")
        await view.press("y")
        await view.sees("■ cancelled", "r resume")

    watch(store.connection, story)
    assert store.connection.run(run).state == "cancelled"


def test_an_observer_is_offered_nothing_that_changes(store: Place) -> None:
    run = store.submit(PLAN)
    store.store.access.role = "observer"

    async def story(view: View) -> None:
        await view.sees("plan", "viewer", "w why")
        for word in ("cancel", "pause", "rerun"):
            assert word not in "\n".join(view.lines[-4:])
        await view.press("c", "p", "n")
        await view.press("enter")
        await view.sees("extract")
        assert "skip" not in "\n".join(view.lines[-4:])
        await view.press("C", "s")
        await view.sees("extract")
        assert "y yes" not in view.text

    watch(store.connection, story)
    assert store.connection.run(run).state == "running"
    assert not store.connection.run(run).paused


def test_brackets_go_through_the_history(store: Place) -> None:
    run = ran(store)

    async def story(view: View) -> None:
        await view.sees("† dead letter", "[ back in time")
        await view.press("[")
        await view.sees("AS IT WAS", "] later", "esc now")
        await view.sees_no("C cancel run")
        for _ in range(3):
            await view.press("left_curly_bracket")
        await view.sees("event 1 of", "submitted")
        await view.sees_no("†")
        assert "here" not in view.line("extract")
        while "assigned extract" not in view.head:
            await view.press("]")
        await view.row("extract", "▸ running", "here")
        await view.press("escape")
        await view.sees("† dead letter", "C cancel run")

    watch(store.connection, story, run=run)


@pytest.mark.parametrize("width", [60, 120])
def test_it_fits_the_width(store: Place, width: int) -> None:
    run = ran(store)

    async def story(view: View) -> None:
        await view.sees("extract", "† dead letter", "? waiting", "here", "q quit")
        assert max(map(len, view.lines)) <= width
        await view.until(lambda: ("exit code 4" in view.line("poor")) == (width == 120))
        await view.press("escape")
        await view.sees(run, "▸ running")
        assert max(map(len, view.lines)) <= width

    watch(store.connection, story, run=run, width=width)


def test_hostile_names_are_text(store: Place) -> None:
    store.submit({"name": "x", "tasks": {"a": "true"}}, labels={"k": "[bold]\x1b[2J\u202e"})

    async def story(view: View) -> None:
        await view.sees("k=[bold]")
        assert "\u202e" not in view.text
        assert "\x1b" not in view.text

    watch(store.connection, story, width=140)


def test_output_is_searched(store: Place) -> None:
    store.work()
    run = store.submit({"name": "talks", "tasks": {"talk": "seq -f 'line %g' 1 400; echo Needle one; seq 400 800"}})
    until(lambda: store.connection.run(run).finished)

    async def story(view: View) -> None:
        await view.row("talk", "✓ succeeded")
        await view.press("enter")
        await view.sees("800", "/ search")
        await view.type("/needle")
        await view.sees("Needle one")
        await view.press("enter")
        await view.sees("n/N earlier/later match")
        await view.press("escape")
        await view.type("/nothing like it")
        await view.sees("n looks through all of it")
        await view.press("enter")
        await view.press("n")
        await view.sees("no earlier match in all of it")

    watch(store.connection, story, run=run)


def test_a_search_goes_beyond_what_is_kept(place: Place) -> None:  # noqa: F811
    place.work()
    talk = "echo Needle one; seq 1 20000; echo needle two; seq 20000 40000"
    run = place.submit({"name": "talks", "tasks": {"talk": talk}})
    until(lambda: place.connection.run(run).finished)

    async def story(view: View) -> None:
        await view.row("talk", "✓ succeeded")
        await view.press("enter")
        await view.sees("40000")
        await view.type("/needle")
        await view.sees("n looks through all of it")
        await view.press("enter")
        await view.press("n")
        await view.sees("needle two", "19999", "20001")
        await view.press("n")
        await view.sees("Needle one")
        await view.press("n")
        await view.sees("no earlier match")
        await view.press("N")
        await view.sees("needle two")
        await view.press("end")
        await view.sees("40000")

    watch(place.connection, story, run=run)


def test_why_and_generations_of_the_past(store: Place) -> None:
    store.work()
    run = store.submit({"name": "twice", "tasks": {"a": "test -e there", "b": {"needs": ["a"], "run": "true"}}})
    store.ended(run)
    (store.directory / "there").touch()
    store.connection.resume(run)
    store.ended(run)

    async def story(view: View) -> None:
        await view.sees("✓ succeeded", "< generation before")
        await view.press("less_than_sign")
        await view.sees("AS IT WAS", "generation 1", "✗ failed")
        await view.press("w")
        await view.sees("why a", "exit code 1")
        await view.press("escape")
        await view.press("greater_than_sign")
        await view.sees_no("AS IT WAS")

    watch(store.connection, story, run=run)


def test_what_a_wait_waits_for_is_seen_after_an_answer_that_was_lost(
    store: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, asked = ran(store), RunScreen._find_signals
    lost: list[None] = []

    def lost_once(self: RunScreen, connection: Connection) -> dict[int, str]:
        if lost:
            time.sleep(0.3)  # the rows have been drawn by now
            return asked(self, connection)
        lost.append(None)
        raise OSError("cut off")

    monkeypatch.setattr(RunScreen, "_find_signals", lost_once)

    async def story(view: View) -> None:
        await view.row("approve", "? waiting", "← ok")

    watch(store.connection, story, run=run)
