"""`triggers:` of a definition: their keys, their checks, and the trigger definitions that they become.

Cron expressions and time zones are checked where the zone database can be read (`authoring/trigger_checks.py`).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from weft.core.definition.field_types.collections import Field, Record
from weft.core.definition.field_types.scalars import Boolean, Duration, Enum, Pattern, Text
from weft.core.definition.field_types.text_formats import parse_duration_ms
from weft.core.definition.fields import ARGUMENTS, CONDITION, SECRET_NAME, WORKFLOW_NAME
from weft.core.definition.inputs import resolve_inputs
from weft.core.definition.problems import (
    INVALID,
    Path,
    ProblemCollector,
    TextOffset,
    has_expression,
    mismatch,
    quoted,
)
from weft.core.expressions import Expression, ExpressionError, parse_condition, parse_template, templates_in
from weft.core.workflow import TIMED, InputDef, TriggerDef

#: The keys that say what fires a trigger: it has exactly one of them.
TRIGGER_KINDS: Final = ("cron", "every", "webhook", "after")
EVERY_MS_MIN: Final = 1000
#: The members of `trigger` in expressions, by kind.
TRIGGER_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "cron": ("time",), "every": ("time",), "webhook": ("time", "body"), "after": ("time", "run"),
}  # fmt: skip
_UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

TRIGGER_NAME: Final = Pattern(
    expected="a trigger's name",
    regex="[A-Za-z_][A-Za-z0-9_-]{0,63}",
    fix="use letters, digits, _ and -, beginning with a letter or _, at most 64 characters",
)
HOOK_NAME: Final = Pattern(
    expected="a webhook's name",
    regex="[a-z0-9][a-z0-9-]{0,63}",
    fix="use lowercase letters, digits and -, at most 64 characters: the name is part of the address",
)
RATE: Final = Pattern(
    expected="a rate",
    regex="[1-9][0-9]{0,5}/[smhd]",
    fix="write it like 10/m, which is at most ten per minute (s, m, h, d)",
)

WEBHOOK_RECORD: Final = Record(
    (
        Field("name", HOOK_NAME, "Its name in the address; unique in the store."),
        Field("secret", SECRET_NAME, "The secret with which the caller signs the body (HMAC SHA-256)."),
        Field("token", SECRET_NAME, "The secret that the caller sends: `Authorization: Bearer …`."),
        Field(
            "if",
            CONDITION,
            "A condition over `trigger.body`; if it is false, the call gets a reply, and nothing runs.",
        ),
        Field("rate", RATE, "How often it may fire, e.g. `10/m`."),
    ),
    "webhook",
)
AFTER_RECORD: Final = Record(
    (
        Field("run", WORKFLOW_NAME, "The workflow whose runs it follows, by name."),
        Field("state", Enum(("succeeded", "failed", "finished")),
              "How such a run must end; succeeded by default. `finished`: in any state."),
    ),
    "after",
)  # fmt: skip
TRIGGER_RECORD: Final = Record(
    (
        Field("name", TRIGGER_NAME, "Its name within the workflow; by default its kind, then `cron-2` …"),
        Field("cron", Text("a cron expression", length_max=256), "When it fires: `minute hour day month weekday`."),
        Field("timezone", Text("a time zone"), "The zone of `cron`, e.g. `Europe/Berlin`; UTC by default."),
        Field("every", Duration(least_ms=1), "The interval at which it fires, counted from 1970; at least 1s."),
        Field("webhook", WEBHOOK_RECORD, "Fires when a caller sends a request to its address."),
        Field("after", AFTER_RECORD, "Fires when a run of another workflow ends."),
        Field("inputs", ARGUMENTS, "Inputs of its runs; `${{ trigger.time }}` and the like in them."),
        Field("catch_up", Enum(("none", "last", "all")),
              "Which of the times at which no node could fire it are made up for; none by default."),
        Field("overlap", Enum(("skip", "queue", "replace", "allow")),
              "What happens while an earlier run is active: skip by default; allow for webhooks and after."),
        Field("jitter", Duration(least_ms=1), "Delays each fire by up to this, by a fixed amount for each time."),
        Field("start_by", Duration(least_ms=1),
              "A time for which no run has started so long after it is reported as late."),
        Field("paused", Boolean(), "Whether it is paused when it is first applied."),
    ),
    "a trigger",
)  # fmt: skip


class TriggersType(msgspec.Struct, frozen=True):
    """A list of triggers. One that cannot be read becomes an empty one, so that the indexes of the others stay."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return mismatch(collector, "a list of triggers", value, "write triggers: [{cron: …}]")
        out = []
        names: dict[str, None] = {}
        for at, item in enumerate(value):
            collector.path.append(at)
            before = len(collector.problems)
            one = TRIGGER_RECORD.read(collector, item)
            if one is not INVALID:
                _check_trigger(collector, item, one, has_problems=len(collector.problems) > before)
                name = one.get("name")
                if name is not None and name in names:
                    collector.path.append("name")
                    collector.problem(f"there are two triggers named {quoted(name)}", "give one of them another name")
                    collector.path.pop()
                names.setdefault(str(name), None)
            out.append({} if one is INVALID else one)
            collector.path.pop()
        return out

    def schema(self) -> dict[str, Any]:
        one = {**TRIGGER_RECORD.schema(), "oneOf": [{"required": [kind]} for kind in TRIGGER_KINDS]}
        return {"type": "array", "items": one}


TRIGGERS: Final = TriggersType()


def _check_trigger(
    collector: ProblemCollector, value: dict[Any, Any], out: dict[str, Any], *, has_problems: bool
) -> None:
    """Checks that depend on more than one key of a trigger."""
    kinds = [kind for kind in TRIGGER_KINDS if kind in value]
    if len(kinds) > 1:
        collector.problem(
            f"a trigger can have only one of {' and '.join(kinds)}", "split it into two triggers", at="key"
        )
        return
    if not kinds:
        if not has_problems:
            collector.problem("nothing fires this trigger", f"add one of {', '.join(TRIGGER_KINDS)}", at="key")
        return
    kind = kinds[0]

    def wrong(key: str, message: str, fix: str) -> None:
        collector.problem_at((*collector.path, key), message, fix, "key")

    if "timezone" in value and kind != "cron":
        wrong("timezone", "`timezone` applies only to `cron`", "remove it")
    for key in ("catch_up", "jitter", "start_by"):
        if key in value and kind not in TIMED:
            wrong(key, f"`{key}` applies only to `cron` and `every`", "remove it")
    if out.get("catch_up") == "all" and out.get("overlap") in ("skip", "replace"):
        what = "would skip all but the first" if out["overlap"] == "skip" else "would end all but the last"
        wrong("overlap", f"with catch_up: all, overlap: {out['overlap']} {what}", "use queue, or allow")
    if "every" in out and parse_duration_ms(out["every"]) < EVERY_MS_MIN:
        collector.problem_at((*collector.path, "every"), "the interval must be at least 1 s", "write every: 1s")
    elif "every" in out and "jitter" in out and parse_duration_ms(out["jitter"]) >= parse_duration_ms(out["every"]):
        wrong("jitter", "the jitter must be shorter than the interval", "make it shorter")
    if (
        "jitter" in out
        and "start_by" in out
        and parse_duration_ms(out["jitter"]) >= parse_duration_ms(out["start_by"])
    ):
        wrong("start_by", "the jitter alone would make it late", "make start_by longer than jitter")
    if kind == "webhook" and "webhook" in out and not has_problems:
        _check_webhook(collector, out["webhook"])
    if kind == "after" and "after" in out and not has_problems and "run" not in out["after"]:
        wrong("after", "the workflow whose runs the trigger follows is missing", "write after: {run: NAME}")


def _check_webhook(collector: ProblemCollector, hook: dict[str, Any]) -> None:
    path = (*collector.path, "webhook")
    if "name" not in hook:
        collector.problem_at(path, "the webhook needs a name", "write webhook: {name: …, secret: …}", "key")
    secrets = [key for key in ("secret", "token") if key in hook]
    if not secrets:
        fix = "add secret: NAME (the caller signs with it) or token: NAME (the caller sends it)"
        collector.problem_at(path, "the webhook has no secret, so anyone could call it", fix, "key")
    elif len(secrets) > 1:
        collector.problem_at(
            (*path, "token"), "a webhook can have only one of secret and token", "remove one of them", "key"
        )


def check_triggers(
    collector: ProblemCollector, document: Mapping[str, Any], inputs: Mapping[str, InputDef] | None
) -> None:
    """Checks the expressions of triggers, and their inputs against those of the workflow (None: not readable)."""
    for at, trigger in enumerate(document.get("triggers", ())):
        kind = next((kind for kind in TRIGGER_KINDS if kind in trigger), None)
        if kind is None:
            continue
        path: Path = ("triggers", at)
        if kind == "after" and trigger["after"].get("run") == document["name"]:
            collector.problem_at(
                (*path, "after", "run"),
                "a workflow that is triggered by its own runs would never end",
                "name another workflow",
            )
        condition = trigger.get("webhook", {}).get("if") if kind == "webhook" else None
        if condition is not None:
            _check_text(collector, (*path, "webhook", "if"), condition, kind, condition=True)
        for place, text in templates_in(trigger.get("inputs", {})):
            _check_text(collector, (*path, "inputs", *place), text, kind)
        if inputs is not None:
            _check_inputs(collector, path, trigger.get("inputs", {}), inputs)


def _check_text(collector: ProblemCollector, path: Path, text: str, kind: str, *, condition: bool = False) -> None:
    try:
        expressions = (parse_condition(text),) if condition else parse_template(text).expressions
    except ExpressionError as error:
        collector.problem_at(path, error.message, error.fix, offset=TextOffset(text, error.column or 1))
        return
    for expression in expressions:
        for wrong in _name_errors(expression, kind):
            collector.problem_at(path, wrong.message, wrong.fix, offset=TextOffset(text, wrong.column or 1))


def _name_errors(expression: Expression, kind: str) -> list[ExpressionError]:
    out = []
    members = TRIGGER_MEMBERS[kind]
    for reference in expression.places:
        root = reference.path[0]
        if root != "trigger":
            fix = f"use {', '.join(f'trigger.{member}' for member in members)}"
            out.append(ExpressionError(f"{quoted(root)} is not available in a trigger", reference.column, fix))
        elif len(reference.path) > 1 and reference.path[1] not in members:
            message = f"'trigger' of {kind} has no {quoted(reference.path[1])}"
            out.append(ExpressionError(message, reference.key_columns[0], f"it has {', '.join(members)}"))
    return out


def _check_inputs(
    collector: ProblemCollector, path: Path, values: Mapping[str, Any], inputs: Mapping[str, InputDef]
) -> None:
    """Constant values must match; values with expressions are checked when the trigger fires."""
    later = [name for name, value in values.items() if any(has_expression(t) for _, t in templates_in(value))]
    constant = {name: value for name, value in values.items() if name not in later}
    open_inputs = {name: one for name, one in inputs.items() if name not in later}
    for name in later:
        if name not in inputs:
            constant[name] = None  # reported as an unknown input
    for problem in resolve_inputs(open_inputs, constant)[1]:
        name = str(problem.path[0])
        if name in values:
            collector.problem_at((*path, "inputs", *problem.path), problem.message, problem.fix, problem.at)
        else:
            fix = f"set it: inputs: {{{name}: …}}, or declare a default for it"
            collector.problem_at(
                path, f"the trigger does not set the input {quoted(name)}, which has no default", fix
            )


def define_triggers(document: Mapping[str, Any]) -> tuple[TriggerDef, ...]:
    """The triggers of a canonical document, with names and defaults filled in."""
    triggers = document.get("triggers", ())
    taken = {trigger["name"] for trigger in triggers if "name" in trigger}
    out = []
    for trigger in triggers:
        kind = next(kind for kind in TRIGGER_KINDS if kind in trigger)
        name = trigger.get("name") or _free_name(kind, taken)
        taken.add(name)
        hook, after = trigger.get("webhook", {}), trigger.get("after", {})
        catch_up = trigger.get("catch_up", "none")
        default = "allow" if kind not in TIMED else "queue" if catch_up == "all" else "skip"
        out.append(
            TriggerDef(
                name=name, kind=kind, overlap=trigger.get("overlap", default), inputs=trigger.get("inputs", {}),
                catch_up=catch_up, jitter_ms=_ms(trigger.get("jitter")) or 0, paused=trigger.get("paused", False),
                cron=trigger.get("cron"), timezone=trigger.get("timezone", "UTC"), every_ms=_ms(trigger.get("every")),
                hook=hook.get("name"), secret=hook.get("secret"), token=hook.get("token"), condition=hook.get("if"),
                rate=_rate(hook.get("rate")), after=after.get("run"), after_state=after.get("state", "succeeded"),
                start_by_ms=_ms(trigger.get("start_by")),
            )
        )  # fmt: skip
    return tuple(out)


def _free_name(kind: str, taken: set[str]) -> str:
    name, number = kind, 1
    while name in taken:
        number += 1
        name = f"{kind}-{number}"
    return name


def _ms(value: Any) -> int | None:
    return None if value is None else parse_duration_ms(value)


def _rate(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    count, unit = re.fullmatch(r"(\d+)/([smhd])", text).groups()  # type: ignore[union-attr]
    return int(count), _UNITS_MS[unit]
