"""The type of the key `retry`: how often, after which failures, and with how much memory a task is tried again."""

import re
from typing import Any, Final

import msgspec

from weft.core.definition.field_types.collections import Field, Record
from weft.core.definition.field_types.scalars import Duration, Number
from weft.core.definition.problems import (
    INVALID,
    NO_EXPRESSION,
    ProblemCollector,
    describe,
    has_expression,
    mismatch,
    quoted,
)

#: Failures that have a word of their own in `on` and `not_on`; the others are exit codes and exceptions.
FAILURE_WORDS: Final = ("timeout", "lost", "oom", "schema", "refused")
_EXCEPTION: Final = r"([A-Za-z_]\w*\.)*_*[A-Z]\w*"
_FACTOR: Final = r"x([0-9]{1,4}(\.[0-9]{1,3})?)"
_FACTOR_MAX: Final = 1000


class FailureType(msgspec.Struct, frozen=True):
    """An exit code, the name of an exception, or one of the words."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        expected = f"an exit code, an exception, or {', '.join(FAILURE_WORDS)}"
        if isinstance(value, int) and not isinstance(value, bool):
            if value == 0:
                return collector.problem("0 is the exit code of a success", "remove it")
            fix = f"a process that signal {-value} ends has {128 - value}" if -64 <= value < 0 else None
            expected = "an exit code from 1 to 255, or an HTTP status"
            return value if 1 <= value <= 599 else mismatch(collector, expected, value, fix)
        if not isinstance(value, str):
            return mismatch(collector, expected, value)
        if has_expression(value):
            return collector.problem(*NO_EXPRESSION)
        if value in FAILURE_WORDS:
            return value
        if value.isascii() and value.isdecimal():
            return mismatch(collector, expected, value, "remove the quotes")
        if value.lower() in FAILURE_WORDS and value.isupper():
            return mismatch(collector, expected, value, f"write {value.lower()}")
        if re.fullmatch(_EXCEPTION, value, re.ASCII) is None or len(value) > 200:
            meant = collector.did_you_mean(value, FAILURE_WORDS)
            return mismatch(
                collector, expected, value, meant or "write 75, ValueError, package.Error, timeout, lost or oom"
            )
        return value

    def schema(self) -> dict[str, Any]:
        words = {"enum": list(FAILURE_WORDS)}
        name = {"type": "string", "pattern": f"^{_EXCEPTION}$", "maxLength": 200}
        return {"anyOf": [Number(1, 599).schema(), words, name]}


class FailuresType(msgspec.Struct, frozen=True):
    """One failure, or a list of them. An empty list is refused: `max: 0` says that nothing is retried."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            one = FailureType().read(collector, value)
            return INVALID if one is INVALID else [one]
        if not value:
            return mismatch(collector, "a list of failures", value, "remove the key; max: 0 retries none")
        out = []
        for at, item in enumerate(value):
            collector.path.append(at)
            out.append(FailureType().read(collector, item))
            collector.path.pop()
        return INVALID if INVALID in out else list(dict.fromkeys(out))

    def schema(self) -> dict[str, Any]:
        one = FailureType().schema()
        return {"anyOf": [*one["anyOf"], {"type": "array", "items": one, "minItems": 1}]}


class MemoryFactor(msgspec.Struct, frozen=True):
    """`x2`, `x1.5`."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        found = re.fullmatch(_FACTOR, value, re.ASCII) if isinstance(value, str) else None
        if isinstance(value, str) and has_expression(value):
            return collector.problem(*NO_EXPRESSION)
        if found is None:
            good = number and 1 < value <= _FACTOR_MAX
            return mismatch(collector, "a factor", value, f"write x{value:g}" if good else "write x2 or x1.5")
        factor = float(found[1])
        if not 1 < factor <= _FACTOR_MAX:
            return collector.problem(
                f"the factor must be above 1 and at most {_FACTOR_MAX:,}, found {describe(value)}",
                "write x2 or x1.5",
            )
        return f"x{factor:g}"

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{_FACTOR}$"}


class OnLost(msgspec.Struct, frozen=True):
    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, bool) or value == "adopt":
            return value
        if isinstance(value, str) and has_expression(value):
            return collector.problem(*NO_EXPRESSION)
        fix = collector.did_you_mean(value, ("adopt", "true", "false")) if isinstance(value, str) else None
        return mismatch(collector, "true, false or adopt", value, fix)

    def schema(self) -> dict[str, Any]:
        return {"enum": [True, False, "adopt"]}


RETRY_RECORD: Final = Record(
    (
        Field("max", Number(0, 10_000), "How many retries follow the first attempt."),
        Field("backoff", Duration(), "The delay before the first retry."),
        Field("multiplier", Number(1, 1000, whole=False), "The factor by which the delay grows with each retry."),
        Field("max_backoff", Duration(), "The longest delay."),
        Field("jitter", Number(0, 1, whole=False), "The share of the delay that is randomized."),
        Field("on", FailuresType(), "The only failures that are retried: exit codes, exceptions,"
              " `timeout`, `lost`, `oom`."),
        Field("not_on", FailuresType(), "Failures that are not retried."),
        Field("memory", MemoryFactor(), "After `oom` the next attempt requires more memory: `x2` is twice as much."),
        Field("on_lost", OnLost(), "Whether an attempt that is lost with its node is queued again; `adopt`: the next"
              " attempt goes on with its container."),
    ),
    "retry",
)  # fmt: skip


class RetryType(msgspec.Struct, frozen=True):
    """A mapping, or a number, which is `max`."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            count = Number(0, 10_000).read(collector, value)
            return INVALID if count is INVALID else {"max": count}
        out = RETRY_RECORD.read(collector, value)
        if out is not INVALID:
            for key, message, fix in contradictions(out):
                collector.problem_at((*collector.path, key), message, fix, "key")
        return out

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Number(0, 10_000).schema(), RETRY_RECORD.schema()]}


def contradictions(retry: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(key, what is wrong, the fix) of keys of `retry` that say the opposite of each other."""
    on, not_on, on_lost = retry.get("on", ()), retry.get("not_on", ()), retry.get("on_lost")
    out = [
        ("not_on", f"{quoted(str(failure))} is both in `on` and in `not_on`", "remove it from one of them")
        for failure in not_on
        if failure in on
    ]
    if on_lost is False and "lost" in on:
        out.append(("on_lost", "`on` retries lost attempts, `on_lost: false` does not", "remove one of them"))
    if on_lost not in (None, False) and "lost" in not_on:
        fix = "remove lost from not_on, or say on_lost: false"
        shown = "adopt" if on_lost == "adopt" else "true"
        out.append(("on_lost", f"`not_on: [lost]` is the same as `on_lost: false`, not `on_lost: {shown}`", fix))
    return out


def retries_lost(retry: dict[str, Any]) -> Any:
    """`on_lost` as the other keys complete it: true, false or adopt."""
    if "on_lost" in retry:
        return retry["on_lost"]
    if "on" in retry:
        return "lost" in retry["on"]
    return "lost" not in retry.get("not_on", ())


def memory_factor(retry: dict[str, Any]) -> float | None:
    return float(retry["memory"].removeprefix("x")) if "memory" in retry else None
