"""Names checked when a definition is loaded."""

import pytest

from weft.core.expressions import Scope, check, parse, parse_template

SCOPE = Scope(tasks=dict.fromkeys(["build", "notify-failure", "a", "a-b"]), inputs=dict.fromkeys(["day", "dry-run"]))


@pytest.mark.parametrize(
    "source",
    [
        "tasks.build.exitCode === 0 && inputs.day === 'x'",
        "parent['notify-failure'].result.stdout.includes('x')",
        "tasks['a-b'].output[inputs.day].anything",
        "context.k || workflow.context.k || run.id",
        "tasks.a - 1",
        "inputs['dry-run'] ? 1 : inputs[run.id]",
    ],
)
def test_good_names_pass(source: str) -> None:
    assert check(parse(source), SCOPE) == []


@pytest.mark.parametrize(
    ("source", "column", "complaint", "fix"),
    [
        ("tasks.biuld.exitCode", 7, "no task 'biuld'", "'build'"),
        ("tasks.build.exitcode", 13, "no member of a task 'exitcode'", "'exitCode'"),
        ("inputs.dya", 8, "no input 'dya'", "'day'"),
        ("inputs.zzzzzzz", 8, "no input", "'day', 'dry-run'"),
        ("build.exitCode", 1, "'build' is not known", "tasks.build"),
        ("input.day", 1, "'input' is not known", "inputs"),
        ("item", 1, "'item' is not known", "map"),
        ("index", 1, "'index' is not known", "replicas"),
        ("secrets.X", 1, "'secrets'", "environment"),
        ("workflow.name", 10, "'name'", "'context'"),
        ("tasks[inputs.day].exitCode", 1, "written out", "tasks.name"),
        ("tasks.notify-failure.exitCode", 7, "hyphen", "tasks['notify-failure']"),
        ("1 + parent.a-b.exitCode", 12, "hyphen", "parent['a-b']"),
        ("inputs.dry-run", 8, "hyphen", "inputs['dry-run']"),
        ("tasks.notify-failur.exitCode", 7, "hyphen", "tasks['notify-failure']"),
        ("tasks.x-y.exitCode", 7, "no task 'x-y'", "tasks['x-y']"),
        ("tasks.a.output === ['x']", 16, "never", "join"),
    ],
)
def test_wrong_names_are_found(source: str, column: int, complaint: str, fix: str) -> None:
    errors = check(parse(source), SCOPE)
    assert len(errors) == 1, errors
    assert complaint in errors[0].message
    assert errors[0].column == column
    assert fix in (errors[0].fix or "")


def test_all_errors_come_at_once_in_order() -> None:
    errors = check(parse("tasks.x.exitCode === 0 && inputs.y && zzz && tasks.x.exitCode"), SCOPE)
    assert [error.column for error in errors] == [7, 34, 39, 52]


def test_what_a_place_offers() -> None:
    assert check(parse("item.x + index"), Scope(item=True, index=True)) == []
    assert check(parse("trigger.time"), Scope(trigger=True)) == []
    assert check(parse("tasks.anything.output + inputs.anything"), Scope()) == []


def test_columns_count_in_the_whole_template() -> None:
    text = "day ${{ inputs.dya }} and ${{ tasks.a-b.output }}"
    errors = [error for expression in parse_template(text).expressions for error in check(expression, SCOPE)]
    assert [text[(error.column or 0) - 1 :].split()[0] for error in errors] == ["dya", "a-b.output"]
