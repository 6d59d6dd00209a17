"""The types of the keys `deadline` and `notify`: what should have happened by when, and who is told of what."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from weft.core.definition.field_types.collections import Field, ListOf, MapOf, Record
from weft.core.definition.field_types.scalars import Duration, Enum, Pattern, Text
from weft.core.definition.field_types.service_fields import HEADER_NAME
from weft.core.definition.field_types.text_formats import parse_duration_ms
from weft.core.definition.problems import (
    INVALID,
    Path,
    ProblemCollector,
    TextOffset,
    has_expression,
    mismatch,
    quoted,
)
from weft.core.expressions import Expression, ExpressionError, parse_template
from weft.core.workflow import NOTIFY_EVENTS, NOTIFY_KINDS, NotifyTarget

#: What the texts of a notification see, by root.
NOTIFY_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "run": ("id", "name", "generation", "state", "reason", "failed"),
    "notification": ("id", "event", "task", "text", "link"),
}
TARGETS_MAX: Final = 20
_SECRET: Final = r"\$(?:\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*)"
_START: Final = re.compile(rf"https?://|{_SECRET}")

#: What is meant as a secret in an address or a header. `$filter` and the like are part of the address.
_NAMED: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Z_][A-Z0-9_]*)\b)|^\$([A-Za-z_][A-Za-z0-9_]*)")


class DeadlineRecord(Record):
    def read(self, collector: ProblemCollector, value: Any) -> Any:
        out = super().read(collector, value)
        if out is INVALID or not {"start_by", "finish_by"} <= out.keys():
            return out
        if parse_duration_ms(out["start_by"]) > parse_duration_ms(out["finish_by"]):
            fix = "make start_by shorter than finish_by"
            collector.problem_at((*collector.path, "start_by"), "it may start after it must have ended", fix)
        return out


DEADLINE: Final = DeadlineRecord(
    (
        Field("start_by", Duration(least_ms=1), "How long after the run's creation its first attempt may start."),
        Field("finish_by", Duration(least_ms=1), "How long after the run's creation it may end."),
    ),
    "deadline",
    least=1,
)


class NotifyAddress(msgspec.Struct, frozen=True):
    """Of a webhook: all of it may be a secret."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        text = Text("a URL").read(collector, value)
        if not isinstance(text, str) or _START.match(text):
            return text
        return mismatch(collector, "a URL", value, "write https://…, or $NAME of a secret that holds the URL")

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(https?://|{_SECRET})"}


_MAIL_ADDRESS: Final = Pattern(
    expected="an e-mail address",
    regex=r"[^@\s<>,;:\x00-\x1f\x7f]{1,128}@[^@\s<>,;:\x00-\x1f\x7f]{1,255}",
    fix="write it like ops@example.com",
)
_EMAIL: Final = Record(
    (
        Field("to", ListOf(_MAIL_ADDRESS, "a list of e-mail addresses", single=True, once=True, least=1),
              "Who gets it: an address, or a list of them."),
        Field("subject", Text("a subject", templates=True, length_max=500), "The subject; `${{ run.* }}` in it."),
    ),
    "email",
)  # fmt: skip


def target_record(secret_name: Pattern) -> Record:
    return Record(
        (
            Field("on", ListOf(Enum(NOTIFY_EVENTS), "a list of events", single=True, once=True, least=1),
                  "What it is about: failed, recovered, dead_letter, late, waiting."),
            Field("webhook", NotifyAddress(), "A URL that gets a POST with JSON; `$NAME` in it stands for a secret."),
            Field("slack", NotifyAddress(), "The URL of a Slack-compatible webhook."),
            Field("email", _EMAIL, "An e-mail, sent with the settings smtp_*."),
            Field("command", ListOf(Text("an argument as text", empty=True, integers=True),
                                    "a list of arguments, the program first", least=1),
                  "A program that the leader's node runs, for at most 30 s; the text is in $WEFT_NOTIFICATION_TEXT."),
            Field("headers", MapOf(HEADER_NAME, Text("the header's value as text", empty=True, integers=True),
                                   "a mapping of headers to values"), "Headers of a webhook; `$NAME` as in its URL."),
            Field("secrets", ListOf(secret_name, "a list of the names of secrets", single=True, once=True),
                  "Secrets that the URL and the headers name, and variables of a command."),
            Field("text", Text("text", templates=True, length_max=20_000),
                  "What it says; `${{ run.* }}` and `${{ notification.* }}` in it."),
        ),
        "notify",
    )  # fmt: skip


class NotifyType(msgspec.Struct, frozen=True):
    """A list of targets; one alone need not be in a list."""

    secret_name: Pattern

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, dict):
            one = self._read_one(collector, value)
            return INVALID if one is INVALID else [one]
        if not isinstance(value, (list, tuple)) or len(value) > TARGETS_MAX:
            fix = f"write notify: [{{on: [failed], webhook: …}}], at most {TARGETS_MAX} of them"
            return mismatch(collector, "a list of targets", value, fix)
        out = []
        for at, item in enumerate(value):
            collector.path.append(at)
            one = self._read_one(collector, item)
            out.append({} if one is INVALID else one)
            collector.path.pop()
        return out

    def _read_one(self, collector: ProblemCollector, value: Any) -> Any:
        record = target_record(self.secret_name)
        before = len(collector.problems)
        out = record.read(collector, value)
        if out is INVALID or len(collector.problems) > before:
            return out
        kinds = [kind for kind in NOTIFY_KINDS if kind in value]
        if len(kinds) != 1:
            what = f"can have only one of {' and '.join(kinds)}" if kinds else "goes nowhere"
            fix = "write two of them" if kinds else f"add one of {', '.join(NOTIFY_KINDS)}"
            collector.problem(f"the notification {what}", fix, at="key")
        if "on" not in value:
            collector.problem("the notification is about nothing", "add on: [failed, …]", at="key")
        if "headers" in value and "webhook" not in value:
            collector.problem_at((*collector.path, "headers"), "only a webhook has headers", "remove them", "key")
        if "email" in value and "to" not in value["email"]:
            collector.problem_at((*collector.path, "email"), "the e-mail has no recipient", "add to: …", "key")
        for place, text in _addresses(out):
            _check_secrets(collector, (*collector.path, *place), text, out.get("secrets", ()))
        for place, text in _texts(out):
            _check_text(collector, (*collector.path, *place), text)
        return out

    def schema(self) -> dict[str, Any]:
        one = target_record(self.secret_name).schema()
        one = {**one, "required": ["on"], "oneOf": [{"required": [kind]} for kind in NOTIFY_KINDS]}
        return {"anyOf": [one, {"type": "array", "items": one, "maxItems": TARGETS_MAX}]}


def _addresses(target: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    for kind in ("webhook", "slack"):
        if kind in target:
            yield (kind,), target[kind]
    for name, value in target.get("headers", {}).items():
        yield ("headers", name), str(value)


def _check_secrets(collector: ProblemCollector, path: Path, text: str, secrets: Iterable[str]) -> None:
    for match in _NAMED.finditer(text):
        name = match[1] or match[2] or match[3]
        if name not in secrets:
            collector.problem_at(
                path, f"{quoted(match[0])} is not a secret of the notification", f"add secrets: [{name}]"
            )


def _texts(target: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    if "text" in target:
        yield ("text",), target["text"]
    if "subject" in target.get("email", {}):
        yield ("email", "subject"), target["email"]["subject"]


def _check_text(collector: ProblemCollector, path: Path, text: str) -> None:
    if not has_expression(text):
        return
    try:
        errors = [wrong for one in parse_template(text).expressions for wrong in _name_errors(one)]
    except ExpressionError as error:
        errors = [error]
    for wrong in errors:
        collector.problem_at(path, wrong.message, wrong.fix, offset=TextOffset(text, wrong.column or 1))


def _name_errors(expression: Expression) -> list[ExpressionError]:
    out = []
    for reference in expression.places:
        root = reference.path[0]
        known = NOTIFY_NAMES.get(root)
        if known is None:
            fix = f"use {' and '.join(f'{name}.*' for name in NOTIFY_NAMES)}"
            message = f"{quoted(root)} is not available in a notification"
            out.append(ExpressionError(message, reference.column, fix))
        elif len(reference.path) > 1 and reference.path[1] not in known:
            message = f"{quoted(root)} has no {quoted(reference.path[1])}"
            out.append(ExpressionError(message, reference.key_columns[0], f"it has {', '.join(known)}"))
    return out


def define_targets(targets: Any) -> tuple[NotifyTarget, ...]:
    """Of a canonical document's `notify`."""
    return tuple(msgspec.convert(one, NotifyTarget) for one in targets or ())


def define_deadlines(document: Mapping[str, Any]) -> tuple[tuple[int, str, int], ...]:
    """(position, start_by or finish_by, ms) of the run (-1) and of its tasks."""
    own = [(pos, task["deadline"]) for pos, task in enumerate(document["tasks"].values()) if "deadline" in task]
    all_of_them = [*([(-1, document["deadline"])] if "deadline" in document else []), *own]
    return tuple((pos, by, parse_duration_ms(value)) for pos, one in all_of_them for by, value in one.items())
