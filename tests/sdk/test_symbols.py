"""What a flow may not do with values that are not there yet: each an error at the author's own line, with a fix."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import FlowError
from weft.authoring.flow_files import find_flow
from weft.core.expressions import resolve_value
from weft.sdk.flows import Flow
from weft.sdk.symbols import Symbol, origin_of
from weft.sdk.tracing import Trace

HEAD = """\
    from weft import flow, shell, task, wait

    @task
    def make(number: int = 0) -> int:
        return number

    @task
    def pair(a, *, b=1): ...

    LEAK = []

    @flow
    def other(x: int) -> None:
        LEAK.append(make(x))

    @flow
    def broken(value: int, values: list) -> None:
"""

#: (the line of the flow, what is said, a word of the fix)
REFUSED = [
    ("if make(): pass", "used as a condition", "if_="),
    ("while value: pass", "used as a condition", "if_="),
    ("not value", "used as a condition", "if_="),
    ("value and make()", "used as a condition", "if_="),
    ("for x in values: make(x)", "looped over", ".map"),
    ("[make(x) for x in values]", "looped over", ".map"),
    ("list(values)", "looped over", ".map"),
    ("make(*values)", "looped over", ".map"),
    ("a, b = values", "looped over", ".map"),
    ("len(values)", "used in len()", "within a task"),
    ("3 in values", "searched", "within a task"),
    ("f'{value} files'", "converted to text", "env="),
    ("'%s' % value", "converted to text", "env="),
    ("str(value)", "converted to text", "env="),
    ("'a' + value", "used in a calculation", "within a task"),
    ("value + 1", "used in a calculation", "within a task"),
    ("1 - value", "used in a calculation", "within a task"),
    ("-value", "used in a calculation", "within a task"),
    ("int(value)", "used in a calculation", "within a task"),
    ("range(value)", "used in a calculation", "within a task"),
    ("[1, 2][value]", "used in a calculation", "within a task"),
    ("round(value)", "used in a calculation", "within a task"),
    ("value == 3", "compared", "if_="),
    ("value < 3", "compared", "if_="),
    ("sorted([value, 1])", "compared", "if_="),
    ("value.upper()", "inputs.value.upper is called", "within a task"),
    ("value.x = 1", "changed", "in a task"),
    ("values[0] = 1", "changed", "in a task"),
    ("del values[0]", "changed", "in a task"),
    ("{value: 1}", "used as a key", "a constant key"),
    ("values[-1]", "no negative index", "[-1:][0]"),
    ("values[::2]", "can be indexed only by", "within a task"),
    ("with value: pass", "entered", "a flow only calls tasks"),
    ("make('a', 'b')", "make(number: int = 0) -> int: too many positional arguments", "the arguments that it takes"),
    ("make(nmber=1)", "unexpected keyword argument 'nmber'", "the arguments that it takes"),
    ("pair()", "missing a required argument: 'a'", "the arguments that it takes"),
    ("make(object())", "the argument number: a object has no JSON form", "pass a dict"),
    ("make(float('nan'))", "nan has no JSON form", "None"),
    ("make(2**64)", "does not fit into 64 bits", "as text"),
    ("make({1: 2})", "the key 1 cannot be stored", "texts"),
    ("make(make)", "a function cannot be an argument", "call it"),
    ("make({'deep': [{'er': {1, object()}}]})", "['deep']['er']: a object", "pass a dict"),
    ("make.options(timeout=value)()", "timeout is part of the definition", ""),
    ("make.options(needs=[value])()", "inputs.value is an input", "remove it from needs"),
    ("make.options(needs=[7])()", "not a int", "needs=["),
    ("make.options(name='a')(); make.options(name='a')()", "two tasks named 'a'", "another name"),
    ("make.options(batch=2)()", "applies only to the elements of a map", ".map"),
    ("make.map('text')", "takes a list, not a str", "a list"),
    ("make.map(7)", "takes a list, not a int", "a list"),
    ("shell(value)", "a text, or a list", "shell(["),
    ("wait()", "takes exactly one of a signal", "wait('approve')"),
    ("wait('a', for_='1m')", "takes exactly one of a signal", "wait('approve')"),
    ("wait(for_='1m', timeout='2m')", "apply only to a signal", "remove them"),
    ("broken.run(1, [])", "broken.run() is called inside the flow 'broken'", "call broken(…)"),
    ("other.definition(); make(LEAK[0])", "a value of the flow 'other', used in 'broken'", "argument"),
    # told by the definition's own rules, at the line of the call
    ("make.options(timeout='soon')()", "expected a duration, found the text 'soon' (at tasks.make.timeout)", "10m"),
    ("make.options(needs='mak')()", "needs 'mak', which does not exist", "did you mean 'make'"),
    ("make.options(if_='tasks.mak.output > 1')()", "there is no task 'mak'", "make"),
    ("make.options(name='no good')()", "expected a task name", "letters"),
    ("shell('echo `${{ inputs.value }}`')", "", "env"),
    ("shell('')", "expected a shell command", ""),
]


def flow_at(reference: str) -> Flow[..., Any]:
    found = find_flow(reference)
    assert isinstance(found, Flow)
    return found


@pytest.fixture
def broken(tmp_path: Path) -> Callable[[str], str]:
    """Loads a flow with this line in it; what is said about it, and that it is said at that line."""
    made: list[Path] = []

    def load(line: str) -> str:
        file = tmp_path / f"flows_{len(made)}.py"
        made.append(file)
        file.write_text(textwrap.dedent(HEAD) + f"    {line}\n    make()\n")
        number = file.read_text().splitlines().index(f"    {line}") + 1
        with pytest.raises(FlowError) as caught:
            flow_at(f"{file}:broken").definition()
        text = str(caught.value)
        assert text.startswith(f"{file}:{number}:"), text
        return text

    return load


@pytest.mark.parametrize(("line", "said", "fix"), REFUSED, ids=[row[0] for row in REFUSED])
def test_it_is_refused_at_its_line(broken: Callable[[str], str], line: str, said: str, fix: str) -> None:
    text = broken(line)
    message, _, shown = text.partition("\n  fix: ")
    assert said in message
    assert fix in shown, text
    assert line in text


def test_all_problems_of_the_definition_come_at_once(tmp_path: Path) -> None:
    file = tmp_path / "several.py"
    file.write_text(
        "from weft import flow, shell\n\n@flow\ndef f() -> None:\n"
        "    shell('a', timeout='soon')\n    shell('b', priority=99)\n    shell('c', needs=['x'])\n"
    )
    with pytest.raises(FlowError) as caught:
        flow_at(f"{file}:f").definition()
    assert [error.line for error in caught.value.errors] == [5, 6, 7]


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("x", "the input 'x' of f has no type"),
        ("x=None", "the input 'x' of f has no type"),
        ("x: object", "the input 'x' of f cannot be a object"),
        ("x: str | int", "cannot be a str | int"),
        ("x: str | None", "may be None, so it needs a default"),
        ("x: 'Missing'", "cannot be resolved: name 'Missing' is not defined"),
        ("*x: int", "has none"),
        ("**x: int", "has none"),
        ("x: int = 'a'", "expected a whole number, found the text 'a' (at inputs.x.default)"),
        ("x: str = '${{ a }}'", "is not allowed here"),
        ("x: list = [object()]", "the default of x: a object has no JSON form"),
    ],
)
def test_bad_inputs_are_told_at_the_flow(tmp_path: Path, signature: str, said: str) -> None:
    file = tmp_path / "inputs.py"
    file.write_text(f"from weft import flow, shell\n\n@flow\ndef f({signature}):\n    shell('true')\n")
    with pytest.raises(FlowError) as caught:
        flow_at(f"{file}:f").definition()
    text = str(caught.value)
    assert said in text
    if "default of x" not in said:
        assert text.startswith(f"{file}:3:"), text


def test_a_flow_without_tasks_or_async_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "odd.py"
    file.write_text("from weft import flow\n\n@flow\ndef empty(): ...\n")
    with pytest.raises(FlowError, match="has no tasks"):
        flow_at(f"{file}:empty").definition()
    file = tmp_path / "odder.py"
    file.write_text("from weft import flow\n\n@flow\nasync def f(): ...\n")
    with pytest.raises(FlowError, match=r"odder.py:3:1: f is async"):
        find_flow(f"{file}:f")


KEYS = st.text(max_size=8) | st.sampled_from(
    ["used in len()", "if", "a-b", "}}", "'", "\\", "\n", "__proto__x", "${{"]
)
PATHS = st.lists(KEYS | st.integers(0, 3), max_size=5)


@given(PATHS)
@settings(max_examples=300, deadline=None)
def test_a_symbol_finds_what_its_path_means(path: list[Any]) -> None:
    """However a key looks, the expression that is written for it leads to it."""
    value: Any = "found"
    for key in reversed(path):
        value = {key: value} if isinstance(key, str) else [None] * key + [value]
    trace = Trace("test", "/")
    symbol = trace.input("x")
    for key in path:
        symbol = symbol[key]
    try:
        found = resolve_value(trace.template(symbol), {"inputs": {"x": value}})
    except UnicodeEncodeError:
        return
    assert found == "found"


def test_attributes_and_keys_are_the_same() -> None:
    symbol = Trace("test", "/").input("x")
    assert origin_of(symbol.a.b[0]).text == origin_of(symbol["a"]["b"][0]).text == "inputs.x.a.b[0]"
    assert isinstance(symbol.anything, Symbol)
    assert repr(symbol) == "<symbol inputs.x>"
    with pytest.raises(AttributeError):
        symbol.__deepcopy__  # noqa: B018
