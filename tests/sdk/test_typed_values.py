"""Values travel by their annotations: through a runner, inline, from YAML, and in a flow that is called directly."""

import asyncio
import datetime as dt
import json
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.sdk import typed_pipelines as t
from weft import FlowError
from weft.core.definition.inputs import InputError
from weft.executors.python_functions.json_values import WrongValue, encode_value, plain_value
from weft.executors.python_functions.load import Function, WrongArguments
from weft.sdk.flows import Flow


@pytest.fixture(scope="module")
def w(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with weft.open(tmp_path_factory.mktemp("store") / "weft.db", python_runners=1) as opened:
        yield opened


def test_typed_values_travel_through_runners_and_inline(w: weft.Weft) -> None:
    result = w.run(t.round_trip, t.DAY)
    assert result == t.EVERYTHING.config
    assert type(result) is t.Config
    run = w.connection.runs()[0]
    assert run.inputs == {"day": "2026-01-31", "color": "blue"}
    stored = w.output(run.id)
    assert stored == {
        "day": "2026-01-31", "where": "out", "tags": ["a", "b"],
        "below": {"day": "2026-01-31", "where": "out", "tags": [], "below": None},
    }  # fmt: skip
    assert w.output(run.id, t.round_trip) == w.finish(run.id, t.round_trip) == result


def test_a_flow_that_is_called_directly_converts_as_a_run_does() -> None:
    assert t.round_trip() == t.EVERYTHING.config
    assert t.typed_inputs(dt.date(2026, 2, 1), path="here") == {
        "day": "2026-02-01",
        "config": plain_value(t.Config(t.DAY), ""),
    }


YAML = """
inputs: {day: {format: date, default: "2026-01-31"}}
output: ${{ tasks.one.output }}
tasks:
  one:
    python: typed_tasks.py:report
    with: {day: "${{ inputs.day }}", config: {retries: 3}}
"""
TASKS = """\
from __future__ import annotations
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from collections.abc import Sequence

@dataclass
class Config:
    retries: int = 1

def report(day: date, config: Config, seen: Sequence[str] = ()):
    return [day.year, config.retries, day]
"""


def test_functions_that_yaml_names_get_what_they_annotate(w: weft.Weft, tmp_path: Path) -> None:
    (tmp_path / "typed_tasks.py").write_text(TASKS)
    (tmp_path / "typed.yaml").write_text(YAML)
    assert w.finish(w.start(tmp_path / "typed.yaml", {"day": t.DAY})) == [2026, 3, "2026-01-31"]
    with pytest.raises(InputError, match="the input 'day' takes a date such as 2026-01-31, found the text 'soon'"):
        w.start(tmp_path / "typed.yaml", {"day": "soon"})
    (tmp_path / "typed.yaml").write_text(YAML.replace("retries: 3", "retires: 3"))
    with pytest.raises(weft.RunFailed) as caught:
        w.finish(w.start(tmp_path / "typed.yaml"))
    said = "report(): the argument config takes a Config, which has no retires: did you mean retries?"
    assert caught.value.failures[0].reason == said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("day", "soon", "day takes a date such as 2026-01-31, found the text 'soon'"),
        ("day", "2026-01-31T00:00:00", "day takes a date such as"),
        ("day", 20260131, "day takes a date such as 2026-01-31, found the number 20260131"),
        ("moment", "2026-01-31", "moment takes a date and time such as"),
        ("clock", "half past", "clock takes a time such as"),
        ("length", 90, "length takes a duration such as 1h30m or PT90M, found the number 90"),
        ("color", "green", "color takes one of 'red', 'blue', found the text 'green'"),
        ("size", True, "size takes one of 1, found the boolean true"),
        ("config", {"where": "x"}, "config takes a Config, and found none for day"),
        ("config", {"day": "2026-01-31", "below": {"day": 1}}, "config.below.day takes a date"),
        ("point", {"atTime": 3}, "point takes a Point, which says: Expected `datetime`, got `int` - at `$.atTime`"),
        ("model", {"when": "x"}, "model takes a Model, which says: when: "),
        ("attrs", {"length": "PT1S", "number": "1"}, "attrs.number takes a whole number, found the text '1'"),
        ("row", {}, "row takes a mapping, and found none for day"),
        ("pair", ["2026-01-31"], "pair takes a list of 2, found 1"),
        ("key", "7", "key takes a UUID such as"),
        ("price", "much", "price takes a decimal number such as 1.10, found the text 'much'"),
        ("path", 3, "path takes text for a path, found the number 3"),
        ("names", "xy", "names takes a list, found the text 'xy'"),
        ("days", ["2026-01-31", None], "days[1] takes a date such as 2026-01-31, found nothing"),
        ("both", [1, 2], "both[1] takes text, found the number 2"),
        ("data", "***", "data takes bytes as base64 text"),
        ("by_day", {"2026-01-31": "1"}, "by_day['2026-01-31'] takes a number, found the text '1'"),
        ("maybe", "x", "maybe takes a date such as 2026-01-31 or nothing, found the text 'x'"),
        ("either", 1, "either takes text or text for a path, found the number 1"),
        ("level", True, "level takes one of 1, 'high', found the boolean true"),
    ],
)
def test_an_annotation_mismatch_names_the_argument(name: str, value: Any, said: str) -> None:
    function = Function("takes", t.takes)
    arguments = json.loads(encode_value(t.given(), 1 << 20))
    t.check(**function.bind(arguments))
    with pytest.raises(WrongArguments) as caught:
        function.bind({**arguments, name: value})
    assert f"takes(): the argument {said}" in str(caught.value)


def test_what_has_no_annotation_at_run_time_is_handed_over_as_json() -> None:
    def loose(a, b: "Missing", *, c: str = None, **rest: dt.date): ...  # type: ignore[no-untyped-def,name-defined,assignment]  # noqa: F821, RUF013

    bound = Function("loose", loose).bind({"a": {1: 2}, "b": [1], "c": None, "d": "2026-01-31"})
    assert bound == {"a": {1: 2}, "b": [1], "c": None, "d": t.DAY}


def test_numbers_are_not_made_from_texts_but_from_each_other() -> None:
    def f(whole: int, part: float, either: int | float | None) -> None: ...

    bound = Function("f", f).bind({"whole": 3.0, "part": 2, "either": 2.0})
    assert [(type(v), v) for v in bound.values()] == [(int, 3), (float, 2.0), (float, 2.0)]
    with pytest.raises(WrongArguments, match=r"whole takes a whole number, found the number 3\.5"):
        Function("f", f).bind({"whole": 3.5, "part": 2, "either": 1})


class Frame:
    """As good as a DataFrame for what is said about one."""

    __module__ = "pandas.core.frame"

    def __ne__(self, other: object) -> bool:
        raise ValueError("the truth value of a frame is ambiguous")

    __hash__ = None  # type: ignore[assignment]


Frame.__name__ = "DataFrame"


def test_a_data_frame_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        WrongValue, match=r"returned a DataFrame, which JSON cannot hold: write it to a file \(.*path"
    ):
        encode_value(Frame(), 100)
    with pytest.raises(WrongValue, match=r"a dict whose \['a'\] is a DataFrame"):
        encode_value({"a": Frame()}, 100)
    with pytest.raises(FlowError, match=r"the input day: a DataFrame has no JSON form[^$]*fix: write it to a file"):
        t.typed_inputs.inputs_from({"day": Frame()})

    def load(frame: Frame) -> None: ...

    with pytest.raises(WrongArguments, match=r"the argument frame takes a DataFrame, which no JSON value can become"):
        Function("load", load).bind({"frame": [1]})


def numpy_stand_in() -> Any:
    numpy = types.ModuleType("numpy")
    for name, bases in (("generic", ()), ("floating", ("generic",)), ("integer", ("generic",))):
        made = type(name, tuple(getattr(numpy, base) for base in bases), {"__module__": "numpy"})
        setattr(numpy, name, made)

    class int64(numpy.integer):  # type: ignore[misc,name-defined]
        def __init__(self, value: int) -> None:
            self.value = value

        def __int__(self) -> int:
            return self.value

    numpy.int64 = int64  # type: ignore[attr-defined]
    return numpy


def test_numpy_scalars_travel() -> None:
    numpy = numpy_stand_in()
    assert encode_value({"n": numpy.int64(7)}, 100) == b'{"n":7}'

    def f(n: numpy.int64) -> None: ...  # type: ignore[name-defined]

    (n,) = Function("f", f).bind({"n": 7}).values()
    assert (type(n), n.value) == (numpy.int64, 7)
    with pytest.raises(WrongArguments, match="the argument n takes a whole number for an int64, found the text '7'"):
        Function("f", f).bind({"n": "7"})


def test_annotations_of_flows_become_types_of_inputs() -> None:
    inputs = t.typed_inputs.definition()["inputs"]
    assert inputs == {
        "day": {"type": "string", "format": "date"},
        "moment": {"type": "string", "format": "date-time", "default": "2026-01-31T00:00:00"},
        "length": {"type": "string", "format": "duration", "default": "PT3600S"},
        "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
        "size": {"type": "integer", "default": 1, "enum": [1]},
        "config": {
            "type": "object",
            "default": {"day": "2026-01-31", "where": "out", "tags": [], "below": None},
        },
        "point": {"type": "object", "default": None},
        "model": {"type": "object", "default": None},
        "key": {"type": "string", "format": "uuid", "default": None},
        "price": {"type": "string", "format": "decimal", "default": "1.5"},
        "path": {"type": "string", "default": "x"},
        "names": {"type": "array", "default": []},
        "number": {"type": "number", "default": 1},
    }


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"day": "soon"}, "the input 'day' takes a date such as 2026-01-31, found the text 'soon'"),
        ({"day": t.DAY, "color": "green"}, 'the input \'color\' must be one of "red", "blue"'),
        ({"day": t.DAY, "config": {"day": "x"}}, "the input 'config.day' takes a date such as"),
        ({"day": t.DAY, "names": {1}}, r"the input 'names\[0\]' takes text, found the number 1"),
        ({"day": t.DAY, "number": "1"}, "the input 'number' takes a number, found the text '1'"),
    ],
)
def test_a_direct_call_checks_inputs_as_a_run_does(w: weft.Weft, named: dict[str, Any], said: str) -> None:
    for call in (lambda: t.typed_inputs(**named), lambda: w.submit(t.typed_inputs, **named),
                 lambda: w.start(t.typed_inputs, named)):  # fmt: skip
        with pytest.raises(InputError, match=said):
            call()


def test_a_direct_call_fails_where_a_run_does(w: weft.Weft) -> None:
    said = "wants_text(): the argument text takes text, found the number 3"
    with pytest.raises(WrongArguments) as direct:
        t.mismatched(3)
    assert str(direct.value) == said
    with pytest.raises(weft.RunFailed) as run:
        w.run(t.mismatched, 3)
    assert run.value.failures[0].reason == said
    calls: list[Callable[[], object]] = [lambda: t.branches(7), lambda: w.run(t.branches, 7)]
    for call in calls:
        with pytest.raises(FlowError, match=r"inputs\.number is compared"):
            call()


def test_a_result_that_is_not_what_the_flow_says_is_told(w: weft.Weft) -> None:
    said = "lying does not return what its annotation says: it takes a whole number, found the text 'x'"
    calls: list[Callable[[], object]] = [t.lying, lambda: w.run(t.lying)]
    for call in calls:
        with pytest.raises(TypeError, match=said):
            call()


def test_a_direct_call_on_an_event_loop_says_what_to_do() -> None:
    async def main() -> list[Any]:
        with pytest.raises(FlowError, match=r"asyncio\.to_thread"):
            t.identified()
        return await asyncio.to_thread(t.identified)

    assert len(asyncio.run(main())) == 3


# -- what stands in for an attempt


def test_current_works_in_unit_tests() -> None:
    alone = t.identify()
    assert (alone["task"], alone["attempt"], alone["index"], alone["paid"]) == ("identify", 1, None, "paid")
    assert alone["key"] == f"{alone['run']}/identify"
    assert t.identify()["key"] != alone["key"], "a key must not meet that of another call"
    assert asyncio.run(t.identify_async()) == "identify_async"
    assert weft.current().attempt == 1
    first, mapped, last = t.identified()
    assert [one["task"] for one in mapped] == ["identify.0", "identify.1"]
    assert {one["run"] for one in (first, *mapped)} == {first["run"]}
    assert last == "identify_async"


def test_fake_attempt_says_what_current_finds() -> None:
    with weft.fake_attempt("pay", run_id="r1", attempt=2, index=3, variables={"A": "b"}) as attempt:
        assert weft.current() == weft.CurrentAttempt("r1", "pay.3", 2, 3, "r1/pay.3")
        assert weft.variables()["A"] == "b"
        assert t.identify()["task"] == "pay.3"
        assert attempt.context == {"last": "2026-01-31"}
        assert weft.once("x", lambda: 1) == 1
    assert weft.current().task == "direct"
    with pytest.raises(RuntimeError, match=r"with weft\.fake_attempt\(\) as attempt"):
        weft.context_update(a=1)


def test_once_gives_back_what_the_annotation_says() -> None:
    def bill() -> t.Config:
        return t.Config(t.DAY)

    assert weft.once("bill", bill) == t.Config(t.DAY)


# -- functions without their decorator


@pytest.mark.parametrize(
    ("flow", "said", "fix"),
    [
        (
            t.calls_plain,
            r"inputs\.day is converted to text by plain_helper\(\)",
            "write @task above def plain_helper",
        ),
        (t.calls_plain_async, "plain_async is async, but not a task", "write @task above async def plain_async"),
        (t.passes_plain, "the argument text is the function plain_helper", "write @task above def plain_helper"),
        (t.maps_plain, "plain_helper is not a task", "write @task above def plain_helper"),
        (t.calls_library, "raised TypeError: fromisoformat: argument must be str", "into a function with @task"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_undecorated_function_in_a_flow_is_told(flow: Flow[Any, Any], said: str, fix: str) -> None:
    with pytest.raises(FlowError, match=said) as caught:
        flow.load()
    text = str(caught.value)
    assert fix in text
    code = flow.__wrapped__.__code__
    assert f"typed_pipelines.py:{code.co_firstlineno + 2}:" in text, "the line of the flow"


def test_what_is_no_flow_cannot_be_run(w: weft.Weft) -> None:
    for given, said in (
        (t.plain_helper, "plain_helper is a plain function: write @flow above its def"),
        (t.wants_text, "wants_text is a task: call it in a function with @flow"),
    ):
        calls: list[Callable[[Any], object]] = [w.run, w.submit, w.start]
        for call in calls:
            with pytest.raises(TypeError, match=said):
                call(given)
    with pytest.raises(FlowError, match="is a flow, and cannot be a task"):
        weft.task(t.lying)
    with pytest.raises(FlowError, match="is a task, and cannot be a flow"):
        weft.flow(t.wants_text)


# -- after close


def test_use_after_close_says_so(tmp_path: Path) -> None:
    opened = weft.open(tmp_path / "weft.db")
    opened.close()
    opened.close()
    client = weft.Client("http://127.0.0.1:1")
    client.close()
    client.close()
    uses: list[Callable[[], Any]] = [
        lambda: opened.run(t.lying),
        lambda: opened.submit(t.lying),
        lambda: opened.finish("last"),
        lambda: opened.connection.runs(),
        opened.__enter__,
    ]
    for use in uses:
        with pytest.raises(weft.Closed, match=r"this store is closed: call weft\.open\(\) again"):
            use()
    for use in (lambda: client.start(t.lying), lambda: client.run(t.lying), lambda: client.output("x"),
                lambda: client.wait("x"), client.__enter__):  # fmt: skip
        with pytest.raises(weft.Closed, match="this client is closed: create another"):
            use()


def test_import_weft_imports_no_library_of_values() -> None:
    code = (
        "import sys, weft; weft.task, weft.flow, weft.current, weft.once\n"
        "import weft.executors.python_runner.runner, weft.executors.python_functions.typed_values\n"
        "print([name for name in ('pydantic', 'numpy', 'pandas', 'attr') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
