"""The types of single keys of a task: `needs`, `retry`, `cache`, `map`, `tolerate`, `wait`. Some may be left to an
expression."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weft.core.definition.container_types import Field, Json, Record
from weft.core.definition.problems import BAD, Reader, has_expression, mismatch, quoted
from weft.core.definition.scalar_types import Boolean, Duration, Number, Pattern, Text
from weft.core.expressions import Expression, ExpressionError, parse_template

_WHOLE: Final = r"^\s*\$\{\{[\s\S]*\}\}\s*$"
_SHARE: Final = r"(100|[0-9]{1,2}(\.[0-9]{1,6})?)%"
_TIME: Final = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)

TASK_NAME: Final = Pattern(
    expected="a task name",
    regex="[A-Za-z_][A-Za-z0-9_-]{0,63}",
    fix="use letters, digits, _ and -, beginning with a letter or _, at most 64 characters",
    refused=("__proto__",),  # a name like this breaks every JavaScript reader of the JSON views
)
SIGNAL_NAME: Final = Pattern(
    expected="a signal's name",
    regex="[A-Za-z_][A-Za-z0-9_-]{0,63}",
    fix="use letters, digits, _ and -, beginning with a letter or _, at most 64 characters",
)


@dataclass(frozen=True, slots=True)
class Array:
    """What to map over: a list, or one expression that gives one. A text around it would make it a text."""

    def read(self, reader: Reader, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return Json("the element", expressions=True).read(reader, value)
        fix = 'write a list, or one whole expression: map: "${{ … }}"'
        if not isinstance(value, str) or not has_expression(value):
            return mismatch(reader, "an array", value, fix)
        try:
            parts = parse_template(value.strip()).parts
        except ExpressionError:
            return value  # told with its column when all expressions are checked
        if len(parts) != 1 or not isinstance(parts[0], Expression):
            return reader.problem("text around the ${{ … }} makes this a text, not an array", fix)
        return value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "pattern": _WHOLE}, {"type": "array"}]}


@dataclass(frozen=True, slots=True)
class Tolerated:
    """A number of elements, or a share of them."""

    def read(self, reader: Reader, value: Any) -> Any:
        if isinstance(value, str) and re.fullmatch(_SHARE, value, re.ASCII):
            return value
        number = Number(0, 1_000_000)
        if isinstance(value, str) and not has_expression(value):
            return mismatch(reader, "a number of elements, or a share of them", value, "write 3, or 5%")
        return number.read(reader, value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Number(0, 1_000_000).schema(), {"type": "string", "pattern": f"^{_SHARE}$"}]}


@dataclass(frozen=True, slots=True)
class Span:
    """A duration, or an expression that gives one."""

    def read(self, reader: Reader, value: Any) -> Any:
        return value if isinstance(value, str) and has_expression(value) else Duration().read(reader, value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [*Duration().schema()["oneOf"], {"type": "string", "pattern": r"\$\{\{"}]}


@dataclass(frozen=True, slots=True)
class Moment:
    """A time in ISO form (UTC unless it says otherwise), or an expression that gives one."""

    def read(self, reader: Reader, value: Any) -> Any:
        if isinstance(value, str) and has_expression(value):
            return value
        fix = "write it like 2026-01-31T08:00:00Z or 2026-01-31T08:00:00+02:00"
        if not isinstance(value, str) or not re.fullmatch(_TIME, value, re.ASCII):
            return mismatch(reader, "a time", value, fix)
        try:
            datetime.fromisoformat(value)
        except ValueError as error:
            return reader.problem(f"{quoted(value)} is no time: {error}", fix)
        return value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "pattern": f"^{_TIME}$"}, {"type": "string", "pattern": r"\$\{\{"}]}


WAIT_RECORD: Final = Record(
    (
        Field("signal", SIGNAL_NAME, "The signal to wait for: `weft signal RUN NAME`."),
        Field("timeout", Duration(least_ms=1), "How long to wait for the signal."),
        Field("default", Json("the default", expressions=False), "Its output if the signal does not come in time;"
              " without one the task fails then.", null=True),
        Field("for", Span(), "How long to wait."),
        Field("until", Moment(), "When to go on: an ISO time, UTC unless it says otherwise."),
    ),
    "wait",
)  # fmt: skip
_WHAT_FOR: Final = ("signal", "for", "until")


@dataclass(frozen=True, slots=True)
class WaitShape:
    """Exactly one thing to wait for; only a signal may fail to come."""

    def read(self, reader: Reader, value: Any) -> Any:
        if isinstance(value, str):
            fix = f"write wait: {{signal: {value}}}" if SIGNAL_NAME.compiled.fullmatch(value) else None
            return mismatch(
                reader, "a mapping (wait)", value, fix or "write wait: {signal: …}, {for: …} or {until: …}"
            )
        before = len(reader.problems)
        out = WAIT_RECORD.read(reader, value)
        if out is BAD:
            return BAD
        given = [key for key in _WHAT_FOR if key in value]
        if len(given) > 1:
            reader.problem(f"a wait has only one of {' and '.join(given)}", "split it into two tasks", at="key")
        elif not given and len(reader.problems) == before:
            reader.problem("the wait waits for nothing", "add signal: …, for: … or until: …", at="key")
        elif given and given != ["signal"]:
            for key in ("timeout", "default"):
                if key in value:
                    reader.path.append(key)
                    reader.problem(f"`{key}` has a meaning for `signal` only", "remove it", at="key")
                    reader.path.pop()
        elif "default" in value and "timeout" not in value and given:
            reader.problem("without a timeout the default is never used", "add timeout: …, or remove default")
        return out if len(reader.problems) == before else BAD

    def schema(self) -> dict[str, Any]:
        return {**WAIT_RECORD.schema(), "oneOf": [{"required": [key]} for key in _WHAT_FOR]}


WAIT: Final = WaitShape()


@dataclass(frozen=True, slots=True)
class Needs:
    """Task names. Whether the tasks exist is looked up once all are known, so a million edges stay cheap."""

    def read(self, reader: Reader, value: Any) -> Any:
        if isinstance(value, str):
            return [value]
        if isinstance(value, (list, tuple)) and all(type(name) is str for name in value):
            return list(dict.fromkeys(value))
        if not isinstance(value, (list, tuple)):
            return mismatch(reader, "a list of task names", value)
        for at, name in enumerate(value):
            if type(name) is not str:
                reader.path.append(at)
                mismatch(reader, "a task name", name)
                reader.path.pop()
        return BAD

    def schema(self) -> dict[str, Any]:
        name = TASK_NAME.schema()
        return {"oneOf": [name, {"type": "array", "items": name}]}


RETRY_RECORD: Final = Record(
    (
        Field("max", Number(0, 10_000), "How many times to try again after the first attempt."),
        Field("backoff", Duration(), "The delay before the first retry."),
        Field("multiplier", Number(1, 1000, whole=False), "By what the delay grows with each retry."),
        Field("max_backoff", Duration(), "The longest delay."),
        Field("jitter", Number(0, 1, whole=False), "The share of the delay that is spread at random."),
        Field("on_lost", Boolean(), "Whether an attempt lost with its node is queued again."),
    ),
    "retry",
)


@dataclass(frozen=True, slots=True)
class RetryShape:
    """A number alone is `max`."""

    def read(self, reader: Reader, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            count = Number(0, 10_000).read(reader, value)
            return BAD if count is BAD else {"max": count}
        return RETRY_RECORD.read(reader, value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Number(0, 10_000).schema(), RETRY_RECORD.schema()]}


CACHE_RECORD: Final = Record(
    (
        Field("key", Text("a key", templates=True, integers=True), "What the result depends on;"
              " by default all that the attempt is made of."),
        Field("ttl", Duration(least_ms=1), "How long a result is kept; by default until it is removed."),
    ),
    "cache",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CacheShape:
    """`true`, or more exactly. A text alone could be either a key or a time."""

    def read(self, reader: Reader, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        if isinstance(value, dict):
            return CACHE_RECORD.read(reader, value)
        return mismatch(reader, "true, or a mapping (cache)", value, "write cache: {key: …} or cache: {ttl: …}")

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Boolean().schema(), CACHE_RECORD.schema()]}
