"""What expressions mean, where that is ours to decide: conditions, final values, errors and their places."""

from typing import Any

import pytest

from weft.core.expressions import ExpressionError, caret, parse, place

NAMES: dict[str, Any] = {
    "inputs": {"day": "2026-01-02", "n": 3, "zero": 0, "none": None, "list": [1, 2], "big": 12345678901234567890},
    "tasks": {"build": {"exitCode": 0, "state": "succeeded"}, "a-b": {"exitCode": 1}},
    "parent": {"build": {"exitCode": 0}, "test": {"result": {"stdout": "12 passed, 0 failures"}}},
}


def refused(source: str, names: dict[str, Any] = NAMES) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(source).evaluate(names)
    assert caught.value.column is not None
    assert 1 <= caught.value.column <= len(source) + 1
    return caught.value


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("inputs.day", "2026-01-02"),
        ("1 + 1", 2),
        ("0.1 + 0.2", 0.30000000000000004),
        ("7 / 2", 3.5),
        ("-0", 0),
        ("[-0, 1 - 1]", [0, 0]),
        ("inputs.big", 12345678901234567890),
        ("'' + inputs.big", "12345678901234567000"),
        ("tasks['a-b'].exitCode", 1),
        ("inputs?.nope ?? 'none'", "none"),
        ("inputs.nope?.deeper.still ?? 1", 1),
        ("inputs['list'][1]", 2),
        ("inputs.list[inputs.n - 2]", 2),
        ("inputs.list['1']", 2),
        ("inputs.list['01'] === undefined && 'ab'['00'] === undefined", True),
        ("'😀'.length", 2),
        ("'a-b-c'.split('-').join('+')", "a+b+c"),
        ("  (1)\n", 1),
        ("inputs.n > 2 ? 'big' : 'small'", "big"),
        ("'\\x41\\u0042\\u{43}\\n\\''", "ABC\n'"),
        ("inputs", NAMES["inputs"]),
    ],
)
def test_values(source: str, value: Any) -> None:
    result = parse(source).evaluate(NAMES)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("source", "truth"),
    [
        ("parent.build.exitCode === 0 && parent.test.result.stdout.includes('0 failures')", True),
        ("parent.build.exitCode !== 0", False),
        ("inputs.none", False),
        ("inputs.zero", False),
        ("inputs.n", True),
        ("inputs.list", True),
        ("[]", True),
        ("inputs", True),
        ("!inputs.day", False),
        ("!'' && true", True),
    ],
)
def test_conditions(source: str, truth: bool) -> None:
    assert parse(source).truth(NAMES) is truth


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("inputs.day", "string"),
        ("inputs.nope", "undefined"),
        ("'x' && inputs.day", "string"),
        ("0 / 0", "NaN"),
        ("tasks.nope.exitCode === 0", "cannot read 'exitCode' of undefined: tasks has no 'nope'"),
    ],
)
def test_an_error_is_never_false(source: str, complaint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(source).truth(NAMES)
    assert complaint in caught.value.message


def test_a_missing_member_lists_the_keys_that_are_there() -> None:
    error = refused("tasks.build.exitcode")
    assert "tasks.build has no 'exitcode'; it has 'exitCode', 'state'" in error.message
    assert error.column == 13
    assert error.fix == "did you mean 'exitCode'?"
    assert "it has " in refused("inputs[inputs.day]").message
    assert "array of 2" in refused("inputs.list[2]").message
    many = {"o": {f"key{i}" * 30: i for i in range(100_000)}}
    assert len(refused("o.nope", many).message) < 1200


@pytest.mark.parametrize(
    ("source", "column", "complaint", "fix"),
    [
        ("a = 1", 3, "assignment", "==="),
        ("a and b", 3, "'and' is not an operator", "&&"),
        ("a or b", 3, "'or' is not an operator", "||"),
        ("not a", 1, "'not'", "!"),
        ("`x`", 1, "backticks", "'…'"),
        ("a => b", 3, "functions", ">="),
        ("new Date()", 1, "'new'", "JSON"),
        ("typeof a", 1, "'typeof'", "==="),
        ("f(1)", 1, "function 'f'", ".includes()"),
        ("a.b.replace('x', 'y')", 5, "'replace'", "includes"),
        ("a.startswith('x')", 3, "'startswith'", "startsWith"),
        ("/x/.test(a)", 1, "regular expressions", "includes"),
        ("{a: 1}", 1, "object literals", "inputs"),
        ("a ?? b || c", 8, "mixed", "parentheses"),
        ("a && b ?? c", 8, "mixed", "parentheses"),
        ("a & b", 3, "'&'", "&&"),
        ("a | b", 3, "'|'", "||"),
        ("a ** b", 3, "'**'", "*"),
        ("a; b", 2, "';'", "remove"),
        ("'abc", 1, "no end", "'"),
        ("a.includes()", 3, "takes 1 to 2", "methods"),
        ("a.trim(1)", 3, "takes 0", "methods"),
        ("a.b c", 5, "not expected", "operators"),
        ("(a", 3, "too early", ")"),
        ("[1, 2", 6, "too early", "]"),
        ("[1,,2]", 4, "missing", "null"),
        ("a.", 3, "name must follow", "['…']"),
        ("a ? b", 6, "too early", ":"),
        ("010", 1, "not a number", "decimal"),
        ("3px", 1, "not a number", "decimal"),
        ("'\\u12'", 2, "hexadecimal", "\\uHHHH"),
        ("", 1, "no expression", "inputs"),
        ("True", 1, "'True'", "true"),
        ("x?.(1)", 4, "?.(", "value?.method"),
        ("a.constructor('x')()", 3, "no method", "methods"),
        ("inputs.b ++ 1", 10, "'++'", "+ 1"),
        ("…", 1, "no meaning", "remove"),
        ("inputz.day", 1, "'inputz' is not known", "inputs"),
        ("inputs.n.trim()", 10, "not a method of a number", "strings"),
        ("'x'.join(',')", 5, "not a method of a string", "arrays"),
        ("'x'.includes", 5, "is a method", "call it"),
        ("inputs.none.x", 13, "cannot read 'x' of null", "?."),
    ],
)
def test_errors_name_the_place_and_the_fix(source: str, column: int, complaint: str, fix: str) -> None:
    error = refused(source)
    assert complaint in error.message
    assert error.column == column
    assert fix in (error.fix or "")


def test_carets() -> None:
    assert caret("a = 1", 3) == "a = 1\n  ^"
    assert caret("x &&\n\ty = 1", 9) == "\ty = 1\n\t  ^"
    assert place("x &&\n\ty = 1", 9) == (2, 4)
    long = "a" * 500 + "="
    assert caret(long, 501).splitlines()[1].index("^") == caret(long, 501).splitlines()[0].index("=")


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ("tasks.build.exitCode === 0", [("tasks", "build", "exitCode")]),
        ("tasks['a-b'].output[0].x", [("tasks", "a-b", "output", "0", "x")]),
        ("parent.x.result.stdout.includes(inputs.day)", [("inputs", "day"), ("parent", "x", "result", "stdout")]),
        ("tasks.a.output[inputs.k].z", [("inputs", "k"), ("tasks", "a", "output", "…")]),
        ("item + index", [("index",), ("item",)]),
        ("workflow.context.k ?? context?.k.l", [("context", "k", "l"), ("workflow", "context", "k")]),
        ("(tasks.a ?? tasks.b).output", [("tasks", "a"), ("tasks", "b")]),
        ("[run.id, run.id].join(run.id)", [("run", "id")]),
        ("tasks.b.x || tasks.a.x || tasks.b.x", [("tasks", "a", "x"), ("tasks", "b", "x")]),
        ("'x'[inputs.n]", [("inputs", "n")]),
        ("a[b[c.d]].e", [("a", "…"), ("b", "…"), ("c", "d")]),
    ],
)
def test_references(source: str, paths: list[tuple[str, ...]]) -> None:
    found = parse(source).references
    assert [(*r.path, "…") if r.dynamic else r.path for r in found] == paths


def test_the_same_source_is_parsed_once() -> None:
    assert parse("inputs.n + 41") is parse("inputs.n + 41")


def test_what_is_not_json_never_gets_in_or_out() -> None:
    for value in (object(), {1, 2}, (1, 2), b"x", 1j, type, len):
        for source in (
            "v",
            "v.x",
            "v + 1",
            "v === v",
            "!v",
            "v.length",
            "[v].includes(v)",
            "v.includes('x')",
            "v['x']",
        ):
            with pytest.raises(ExpressionError):
                parse(source).evaluate({"v": value})
    for source in ("'\\ud800'", "['\\ud800']", "'😀'[0]", "'😀'.split('')", "[undefined]", "[[0 / 0]]", "1e999"):
        refused(source)
    assert parse("'😀'[0] + '😀'[1]").evaluate({}) == "😀"
    assert parse("'😀'.split('').join('')").evaluate({}) == "😀"
