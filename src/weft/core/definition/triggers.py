"""`triggers:` of a definition: their keys, what is checked about them while it is loaded, and what becomes of them.

Whether a cron expression and a time zone mean something is checked by whoever may read the zone database
(`authoring/trigger_checks.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from weft.core.definition.container_types import Field, Record
from weft.core.definition.fields import ARGUMENTS, CONDITION, SECRET_NAME, WORKFLOW_NAME
from weft.core.definition.inputs import resolve_inputs
from weft.core.definition.problems import BAD, Path, Reader, Spot, has_expression, mismatch, quoted
from weft.core.definition.scalar_types import Boolean, Choice, Duration, Pattern, Text
from weft.core.definition.text_formats import parse_duration_ms
from weft.core.expressions import Expression, ExpressionError, parse_condition, parse_template, templates_in
from weft.core.workflow import TIMED, InputDef, TriggerDef

#: The keys that say what fires it; a trigger has exactly one of them.
KINDS: Final = ("cron", "every", "webhook", "after")
EVERY_MS_MIN: Final = 1000
#: What `trigger` has in expressions, by kind.
MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
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
    fix="use small letters, digits and -, at most 64 characters: it stands in the address",
)
RATE: Final = Pattern(
    expected="a rate", regex="[1-9][0-9]{0,5}/[smhd]", fix="write it like 10/m: at most ten a minute (s, m, h, d)"
)

WEBHOOK_RECORD: Final = Record(
    (
        Field("name", HOOK_NAME, "Its name in the address; unique in the store."),
        Field("secret", SECRET_NAME, "The secret with which the caller signs the body (HMAC SHA-256)."),
        Field("token", SECRET_NAME, "The secret that the caller sends: `Authorization: Bearer …`."),
        Field("if", CONDITION, "A condition over `trigger.body`; false: the call is answered, and nothing runs."),
        Field("rate", RATE, "How often it may fire, e.g. `10/m`."),
    ),
    "webhook",
)
AFTER_RECORD: Final = Record(
    (
        Field("run", WORKFLOW_NAME, "The workflow whose runs it follows, by name."),
        Field("state", Choice(("succeeded", "failed", "finished")),
              "How such a run must have ended; succeeded by default. `finished`: in any way."),
    ),
    "after",
)  # fmt: skip
TRIGGER_RECORD: Final = Record(
    (
        Field("name", TRIGGER_NAME, "Its name within the workflow; by default its kind, then `cron-2` …"),
        Field("cron", Text("a cron expression", length_max=256), "When it fires: `minute hour day month weekday`."),
        Field("timezone", Text("a time zone"), "The zone of `cron`, e.g. `Europe/Berlin`; UTC by default."),
        Field("every", Duration(least_ms=1), "Fires every so often, counted from 1970; at least 1s."),
        Field("webhook", WEBHOOK_RECORD, "Fires when somebody calls it."),
        Field("after", AFTER_RECORD, "Fires when a run of another workflow has ended."),
        Field("inputs", ARGUMENTS, "Inputs of its runs; `${{ trigger.time }}` and the like in them."),
        Field("catch_up", Choice(("none", "last", "all")),
              "Which of the times that passed while nobody could fire are made up for; none by default."),
        Field("overlap", Choice(("skip", "queue", "replace", "allow")),
              "What happens while an earlier run of it goes on: skip by default; allow for webhooks and after."),
        Field("jitter", Duration(least_ms=1), "Fires up to so much later, by a fixed amount for each time."),
        Field("paused", Boolean(), "Whether it begins paused."),
    ),
    "a trigger",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Triggers:
    """A list of triggers. One that could not be read is kept empty, so that places stay what they are."""

    def read(self, reader: Reader, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return mismatch(reader, "a list of triggers", value, "write triggers: [{cron: …}]")
        out = []
        names: dict[str, None] = {}
        for at, item in enumerate(value):
            reader.path.append(at)
            before = len(reader.problems)
            one = TRIGGER_RECORD.read(reader, item)
            if one is not BAD:
                _check_one(reader, item, one, told=len(reader.problems) > before)
                name = one.get("name")
                if name is not None and name in names:
                    reader.path.append("name")
                    reader.problem(f"there are two triggers named {quoted(name)}", "give one of them another name")
                    reader.path.pop()
                names.setdefault(str(name), None)
            out.append({} if one is BAD else one)
            reader.path.pop()
        return out

    def schema(self) -> dict[str, Any]:
        one = {**TRIGGER_RECORD.schema(), "oneOf": [{"required": [kind]} for kind in KINDS]}
        return {"type": "array", "items": one}


TRIGGERS: Final = Triggers()


def _check_one(reader: Reader, value: dict[Any, Any], out: dict[str, Any], *, told: bool) -> None:
    """What depends on more than one key of a trigger."""
    kinds = [kind for kind in KINDS if kind in value]
    if len(kinds) > 1:
        reader.problem(f"a trigger has only one of {' and '.join(kinds)}", "split it into two", at="key")
        return
    if not kinds:
        if not told:
            reader.problem("nothing fires this trigger", f"add one of {', '.join(KINDS)}", at="key")
        return
    kind = kinds[0]

    def wrong(key: str, message: str, fix: str) -> None:
        reader.problem_at((*reader.path, key), message, fix, "key")

    if "timezone" in value and kind != "cron":
        wrong("timezone", "`timezone` has a meaning for `cron` only", "remove it")
    for key in ("catch_up", "jitter"):
        if key in value and kind not in TIMED:
            wrong(key, f"`{key}` has a meaning for `cron` and `every` only", "remove it")
    if out.get("catch_up") == "all" and out.get("overlap") in ("skip", "replace"):
        what = "would skip all but the first" if out["overlap"] == "skip" else "would end all but the last"
        wrong("overlap", f"with catch_up: all, overlap: {out['overlap']} {what}", "use queue, or allow")
    if "every" in out and parse_duration_ms(out["every"]) < EVERY_MS_MIN:
        reader.problem_at((*reader.path, "every"), "an interval is at least 1 s", "write every: 1s")
    elif "every" in out and "jitter" in out and parse_duration_ms(out["jitter"]) >= parse_duration_ms(out["every"]):
        wrong("jitter", "the jitter must be shorter than the interval", "make it shorter")
    if kind == "webhook" and "webhook" in out and not told:
        _check_webhook(reader, out["webhook"])
    if kind == "after" and "after" in out and not told and "run" not in out["after"]:
        wrong("after", "after which workflow's runs it fires is missing", "write after: {run: NAME}")


def _check_webhook(reader: Reader, hook: dict[str, Any]) -> None:
    path = (*reader.path, "webhook")
    if "name" not in hook:
        reader.problem_at(path, "the webhook has no name", "write webhook: {name: …, secret: …}", "key")
    given = [key for key in ("secret", "token") if key in hook]
    if not given:
        fix = "name a secret: secret: NAME (the caller signs) or token: NAME (the caller sends it)"
        reader.problem_at(path, "anybody could call this webhook", fix, "key")
    elif len(given) > 1:
        reader.problem_at((*path, "token"), "a webhook has only one of secret and token", "remove one", "key")


def check_triggers(reader: Reader, document: Mapping[str, Any], inputs: Mapping[str, InputDef] | None) -> None:
    """Their expressions, and their inputs against those of the workflow (None: those could not be read)."""
    for at, trigger in enumerate(document.get("triggers", ())):
        kind = next((kind for kind in KINDS if kind in trigger), None)
        if kind is None:
            continue
        path: Path = ("triggers", at)
        if kind == "after" and trigger["after"].get("run") == document["name"]:
            reader.problem_at(
                (*path, "after", "run"), "a workflow that follows its own runs would never end", "name another one"
            )
        condition = trigger.get("webhook", {}).get("if") if kind == "webhook" else None
        if condition is not None:
            _check_text(reader, (*path, "webhook", "if"), condition, kind, condition=True)
        for place, text in templates_in(trigger.get("inputs", {})):
            _check_text(reader, (*path, "inputs", *place), text, kind)
        if inputs is not None:
            _check_inputs(reader, path, trigger.get("inputs", {}), inputs)


def _check_text(reader: Reader, path: Path, text: str, kind: str, *, condition: bool = False) -> None:
    try:
        expressions = (parse_condition(text),) if condition else parse_template(text).expressions
    except ExpressionError as error:
        reader.problem_at(path, error.message, error.fix, spot=Spot(text, error.column or 1))
        return
    for expression in expressions:
        for wrong in _wrong(expression, kind):
            reader.problem_at(path, wrong.message, wrong.fix, spot=Spot(text, wrong.column or 1))


def _wrong(expression: Expression, kind: str) -> list[ExpressionError]:
    out = []
    members = MEMBERS[kind]
    for reference in expression.places:
        root = reference.path[0]
        if root != "trigger":
            fix = f"here is only trigger: {', '.join(f'trigger.{member}' for member in members)}"
            out.append(ExpressionError(f"{quoted(root)} is not known here", reference.column, fix))
        elif len(reference.path) > 1 and reference.path[1] not in members:
            what = f"'trigger' of {kind} has no {quoted(reference.path[1])}"
            out.append(ExpressionError(what, reference.key_columns[0], f"it has {', '.join(members)}"))
    return out


def _check_inputs(reader: Reader, path: Path, given: Mapping[str, Any], inputs: Mapping[str, InputDef]) -> None:
    """Values that are known already must fit; those that only a fire knows are left to it."""
    later = [name for name, value in given.items() if any(has_expression(t) for _, t in templates_in(value))]
    constant = {name: value for name, value in given.items() if name not in later}
    open_inputs = {name: one for name, one in inputs.items() if name not in later}
    for name in later:
        if name not in inputs:
            constant[name] = None  # told as an unknown one
    for problem in resolve_inputs(open_inputs, constant)[1]:
        name = str(problem.path[0])
        if name in given:
            reader.problem_at((*path, "inputs", *problem.path), problem.message, problem.fix, problem.at)
        else:
            fix = f"give it: inputs: {{{name}: …}}, or give it a default"
            reader.problem_at(path, f"the trigger does not give the input {quoted(name)}, which has no default", fix)


def define_triggers(document: Mapping[str, Any]) -> tuple[TriggerDef, ...]:
    """From the canonical document: names and defaults filled in."""
    given = document.get("triggers", ())
    taken = {trigger["name"] for trigger in given if "name" in trigger}
    out = []
    for trigger in given:
        kind = next(kind for kind in KINDS if kind in trigger)
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
