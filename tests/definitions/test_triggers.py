"""`triggers:` of definitions: what is wrong is told with its place and a fix; what is not said has a default."""

import pytest

from weft.authoring.errors import DefinitionErrors
from weft.authoring.load import load_text
from weft.core.workflow import TriggerDef

HEAD = "inputs: {day: string, n: {default: 1}}\ntasks: {a: 'true'}\ntriggers:\n"

#: a trigger, where in its line it is wrong, what the message says, what the fix says
WRONG = [
    ("{cron: '0 2 * *', inputs: {day: x}}", 12, "this one has 4", "for example"),
    ("{cron: '0 25 * * *', inputs: {day: x}}", 12, "Bad hour", "the hour is 0–23"),
    ("{cron: '0 2 * * *', timezone: europe/berlin, inputs: {day: x}}", 35, "no time zone", "Europe/Berlin"),
    ("{every: 100ms, inputs: {day: x}}", 13, "at least 1 s", "every: 1s"),
    ("{every: 1s, timezone: UTC, inputs: {day: x}}", 17, "`timezone` applies only to `cron`", "remove"),
    ("{every: 1s, cron: '* * * * *', inputs: {day: x}}", 5, "only one of cron and every", "split"),
    ("{inputs: {day: x}}", 5, "nothing fires this trigger", "cron, every, webhook, after"),
    ("{crn: '* * * * *', inputs: {day: x}}", 6, "unknown key 'crn'", "cron"),
    ("{every: 1s}", 5, "does not set the input 'day'", "inputs: {day: …}"),
    ("{every: 1s, inputs: {day: 1}}", 31, "takes text, found the number 1", None),
    ("{every: 1s, inputs: {day: x, dy: y}}", 34, "no input 'dy'", "day"),
    ("{every: 1s, inputs: {day: '${{ trigger.body }}'}}", 44, "has no 'body'", "it has time"),
    ("{every: 1s, inputs: {day: '${{ inputs.n }}'}}", 36, "'inputs' is not available in a trigger", "trigger.time"),
    ("{every: 1s, inputs: {day: '${{ trigger. }}'}}", None, "", None),
    ("{every: 1s, jitter: 2s, inputs: {day: x}}", 17, "jitter must be shorter", None),
    ("{every: 1s, catch_up: all, overlap: skip, inputs: {day: x}}", 32, "skip all but the first", "queue"),
    ("{every: 1s, catch_up: al, inputs: {day: x}}", 27, "one of none, last, all", None),
    ("{webhook: {name: h}, inputs: {day: x}}", 6, "anyone could call", "secret: NAME"),
    ("{webhook: {secret: S}, inputs: {day: x}}", 6, "needs a name", None),
    ("{webhook: {name: h, secret: S, token: T}, inputs: {day: x}}", 36, "only one of secret and token", None),
    ("{webhook: {name: H, secret: S}, inputs: {day: x}}", 22, "webhook's name", "lowercase letters"),
    ("{webhook: {name: h, secret: S, rate: 5}, inputs: {day: x}}", 42, "a rate", None),
    ("{webhook: {name: h, secret: S, rate: 5/x}, inputs: {day: x}}", 42, "a rate", "10/m"),
    (
        "{webhook: {name: h, secret: S, if: 'tasks.a'}, inputs: {day: x}}",
        41,
        "'tasks' is not available",
        "trigger.body",
    ),
    ("{webhook: {name: h, secret: S}, catch_up: last, inputs: {day: x}}", 37, "`catch_up` applies only", None),
    (
        "{after: {state: failed}, inputs: {day: x}}",
        6,
        "the workflow whose runs the trigger follows",
        "after: {run: NAME}",
    ),
    ("{after: {run: w}, inputs: {day: x}}", 19, "is triggered by its own runs", "another"),
    ("{name: 9, every: 1s, inputs: {day: x}}", 12, "a trigger's name", None),
]


@pytest.mark.parametrize(("text", "column", "message", "fix"), WRONG, ids=[text for text, *_ in WRONG])
def test_what_is_wrong_has_a_place_and_a_fix(text: str, column: int | None, message: str, fix: str | None) -> None:
    with pytest.raises(DefinitionErrors) as caught:
        load_text(f"{HEAD}  - {text}\n", "w")
    (error,) = caught.value.errors
    assert message in error.message
    assert error.line == 4
    if column is not None:
        assert error.column == column, str(error)
    if fix is not None:
        assert error.fix is not None
        assert fix in error.fix


def test_two_of_one_name() -> None:
    with pytest.raises(DefinitionErrors, match="two triggers named 'x'"):
        load_text("tasks: {a: 'true'}\ntriggers: [{name: x, every: 1s}, {name: x, every: 2s}]\n")


def triggers(text: str) -> tuple[TriggerDef, ...]:
    return load_text(f"tasks: {{a: 'true'}}\ntriggers: {text}\n", "w").workflow.triggers


def test_defaults() -> None:
    found = triggers("[{every: 1s}, {name: every-2, cron: '@daily'}, {every: 2s}, {every: 3s, catch_up: all}]")
    assert [(one.name, one.overlap, one.catch_up) for one in found] == [
        ("every", "skip", "none"), ("every-2", "skip", "none"), ("every-3", "skip", "none"),
        ("every-4", "queue", "all"),
    ]  # fmt: skip
    hook, after = triggers("[{webhook: {name: h, token: T, rate: 3/h}}, {after: {run: other}}]")
    assert (hook.overlap, hook.rate, hook.key) == ("allow", (3, 3_600_000), "h")
    assert (after.overlap, after.after_state, after.key) == ("allow", "succeeded", "other")


def test_reading_it_again_changes_nothing() -> None:
    from weft.core.definition.read import read

    text = "[{jitter: 1m, cron: '0 2 * * *', timezone: Asia/Tokyo}, {webhook: {secret: S, name: h}}]"
    document = load_text(f"tasks: {{a: 'true'}}\ntriggers: {text}\n", "w").document
    assert read(document).document == document


def test_a_webhooks_secret_is_hidden_from_tasks() -> None:
    workflow = load_text(
        "tasks: {a: {run: 'true', secrets: A}}\ntriggers: [{webhook: {name: h, secret: S}}]\n"
    ).workflow
    assert workflow.secrets == ("A", "S")
