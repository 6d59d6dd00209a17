"""Nodes killed around the effects of weft.once: what was completed is never repeated, what was cut off is known."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.harness import Place
from tests.pausing import pause

CRASHES = ("once.before_commit", "once.committed")

DEFINITION = """
name: crash
tasks:
  pay: {python: "effects:pay", retry: 2}
  send: {map: [0, 1, 2], python: "effects:send", with: {number: "${{ item }}"}}
output: {pay: "${{ tasks.pay.output }}", send: "${{ tasks.send.output }}"}
"""
FUNCTIONS = """
import weft

def note(text):
    with open("effects", "a") as file:
        file.write(text + "\\n")

def charge():
    now = weft.current()
    note(f"pay {now.idempotency_key}")
    return {"receipt": now.attempt}

def pay():
    return weft.once("charge", charge, unknown=UNKNOWN)

async def send(number):
    async def one():
        note(f"send {number}")
        return weft.current().attempt
    return await weft.once("mail", one)
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, {"pay": [], "send": []})
    made.file.write_text(DEFINITION)
    functions(made, "call")
    yield made
    made.close()


def functions(place: Place, unknown: str) -> None:
    (place.directory / "effects.py").write_text(FUNCTIONS.replace("UNKNOWN", repr(unknown)))


def effects(place: Place) -> list[str]:
    return (place.directory / "effects").read_text().splitlines()


def crash_at(place: Place, point: str) -> None:
    assert place.weft("run", "crash.yaml", "--slots", "8", WEFT_CRASH_AT=point) == -signal.SIGKILL, place.log()
    place.all_gone(time.monotonic())


def finished(place: Place) -> dict[str, object]:
    connection = place.connection()
    try:
        verified = connection.verify("last")
        assert verified.ok, f"{verified.differences}\n{place.story(connection)}"
        assert connection.run("last").state == "succeeded", place.story(connection)
        output: dict[str, object] = connection.output("last")
        return output
    finally:
        connection.close()


@pytest.mark.parametrize("time_no", [1, 2, 3, 4])
def test_a_completed_effect_is_not_repeated(place: Place, time_no: int) -> None:
    """Killed right after the commit: neither the function nor the node knew. The next attempt finds the record."""
    crash_at(place, f"once.committed:{time_no}")
    done = place.rows("SELECT key, value, attempt FROM memos WHERE status = 'completed' ORDER BY key")
    assert len(done) == time_no
    assert place.weft("resume", "last") == 0, place.log()
    output = finished(place)
    for key, value, attempt in done:
        _, _, task, _ = json.loads(key)
        name = "pay " if task == "pay" else f"send {task.partition('.')[2]}"
        assert sum(line.startswith(name) for line in effects(place)) == 1, (task, effects(place))
        assert attempt == 1
        if task == "pay":
            assert output["pay"] == json.loads(value)
    assert place.rows("SELECT status, count(*) FROM memos GROUP BY status") == [("completed", 4)]


def test_the_limit_an_effect_that_was_cut_off_happens_again(place: Place) -> None:
    """Killed after the effect and before the commit: nobody can know. It is repeated, with the same key to tell."""
    crash_at(place, "once.before_commit")
    assert place.weft("resume", "last") == 0, place.log()
    finished(place)
    paid = [line for line in effects(place) if line.startswith("pay")]
    assert len(set(paid)) == 1
    assert 1 <= len(paid) <= 2
    assert len(effects(place)) > 4, "at least the one that was being stored happened twice"


def test_an_effect_that_was_cut_off_can_be_refused(place: Place) -> None:
    functions(place, "raise")
    place.file.write_text(DEFINITION.partition("  send:")[0])
    crash_at(place, "once.before_commit")
    assert effects(place) == [effects(place)[0]]
    assert place.weft("resume", "last") == 1
    assert len(effects(place)) == 1
    ((reason,),) = place.rows("SELECT reason FROM tasks WHERE state = 'dead_letter'")
    assert reason == "OutcomeUnknown: once('charge'): attempt 1 began it, and how it ended is not known"


def test_a_node_that_was_stopped_past_its_lease_cannot_complete_anything(place: Place) -> None:
    """SIGSTOP between the begin and the end of an effect, then SIGCONT: the late end is refused."""
    (place.directory / "effects.py").write_text(
        "import os, time, weft\n"
        "def wait():\n"
        "    open('began', 'a').write('x')\n"
        "    while os.environ['WEFT_ATTEMPT'] == '1' and not os.path.exists('go'): time.sleep(0.01)\n"
        "    return int(os.environ['WEFT_ATTEMPT'])\n"
        "def pay(): return weft.once('charge', wait)\n"
    )
    place.file.write_text(DEFINITION.partition("  send:")[0])
    assert place.weft("submit", "crash.yaml") == 0
    first = place.start("first", "2", module="tests.crash.node_child")
    began = place.directory / "began"
    until(began.exists)
    pause(first.pid, place.directory / ".weft" / "weft.db")
    second = place.start("second", "10", module="tests.crash.node_child")  # a slow machine must not lose it
    until(lambda: place.rows("SELECT 1 FROM memos WHERE status = 'completed'") == [(1,)])
    (place.directory / "go").touch()
    first.send_signal(signal.SIGCONT)
    for process in (first, second):
        assert process.stdin is not None
        process.stdin.close()
        assert place.wait(process) == 0, place.log()
    assert place.rows("SELECT status, value, attempt FROM memos") == [("completed", "2", 2)]
    assert place.rows("SELECT state, attempt FROM tasks") == [("succeeded", 2)]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
