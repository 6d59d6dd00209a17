"""The types of the keys `needs`, `cache`, `map`, `tolerate`, `wait`, `python` and `artifacts` of a task."""

import re
from datetime import datetime
from typing import Any, Final

import msgspec

from weft.core.definition.field_types.collections import Field, Json, Record
from weft.core.definition.field_types.scalars import Boolean, Duration, Number, Pattern, Text
from weft.core.definition.problems import INVALID, ProblemCollector, has_expression, mismatch, quoted
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
    refused=("__proto__",),  # an object key of this name breaks JavaScript code that reads the JSON views
)
SIGNAL_NAME: Final = Pattern(
    expected="a signal's name",
    regex="[A-Za-z_][A-Za-z0-9_-]{0,63}",
    fix="use letters, digits, _ and -, beginning with a letter or _, at most 64 characters",
)


class ArrayToMap(msgspec.Struct, frozen=True):
    """What to map over: a list, or one expression whose value is a list. Text around it would make it a text."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return Json("the element", expressions=True).read(collector, value)
        fix = 'write a list, or one whole expression: "${{ … }}"'
        if not isinstance(value, str) or not has_expression(value):
            return mismatch(collector, "an array", value, fix)
        try:
            parts = parse_template(value.strip()).parts
        except ExpressionError:
            return value  # reported with its column when all expressions are checked
        if len(parts) != 1 or not isinstance(parts[0], Expression):
            return collector.problem("the text around ${{ … }} makes this a text, not an array", fix)
        return value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "pattern": _WHOLE}, {"type": "array"}]}


class Tolerance(msgspec.Struct, frozen=True):
    """How many elements may fail: a number, or a share."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, str) and re.fullmatch(_SHARE, value, re.ASCII):
            return value
        number = Number(0, 1_000_000)
        if isinstance(value, str) and not has_expression(value):
            return mismatch(collector, "a number of elements, or a share", value, "write 3, or 5%")
        return number.read(collector, value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Number(0, 1_000_000).schema(), {"type": "string", "pattern": f"^{_SHARE}$"}]}


class DurationOrExpression(msgspec.Struct, frozen=True):
    """A duration, or an expression whose value is a duration."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        return value if isinstance(value, str) and has_expression(value) else Duration().read(collector, value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [*Duration().schema()["oneOf"], {"type": "string", "pattern": r"\$\{\{"}]}


class TimeOrExpression(msgspec.Struct, frozen=True):
    """A time in ISO format (UTC unless it has an offset), or an expression whose value is a time."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, str) and has_expression(value):
            return value
        fix = "write it like 2026-01-31T08:00:00Z or 2026-01-31T08:00:00+02:00"
        if not isinstance(value, str) or not re.fullmatch(_TIME, value, re.ASCII):
            return mismatch(collector, "a time", value, fix)
        try:
            datetime.fromisoformat(value)
        except ValueError as error:
            return collector.problem(f"{quoted(value)} is not a time: {error}", fix)
        return value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "pattern": f"^{_TIME}$"}, {"type": "string", "pattern": r"\$\{\{"}]}


WAIT_RECORD: Final = Record(
    (
        Field("signal", SIGNAL_NAME, "The signal to wait for: `weft signal RUN NAME`."),
        Field("timeout", Duration(least_ms=1), "How long to wait for the signal."),
        Field("default", Json("the default", expressions=False), "Its output if the signal does not arrive in time;"
              " without a default the task fails.", null=True),
        Field("for", DurationOrExpression(), "How long to wait."),
        Field("until", TimeOrExpression(), "When to continue: an ISO time, UTC unless it has an offset."),
    ),
    "wait",
)  # fmt: skip
_WAIT_KEYS: Final = ("signal", "for", "until")


class WaitType(msgspec.Struct, frozen=True):
    """Exactly one thing to wait for; only a signal can time out."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, str):
            fix = f"write wait: {{signal: {value}}}" if SIGNAL_NAME.compiled.fullmatch(value) else None
            return mismatch(
                collector, "a mapping (wait)", value, fix or "write wait: {signal: …}, {for: …} or {until: …}"
            )
        before = len(collector.problems)
        out = WAIT_RECORD.read(collector, value)
        if out is INVALID:
            return INVALID
        present = [key for key in _WAIT_KEYS if key in value]
        if len(present) > 1:
            collector.problem(
                f"a wait can have only one of {' and '.join(present)}", "split it into two tasks", at="key"
            )
        elif not present and len(collector.problems) == before:
            collector.problem("the wait has nothing to wait for", "add signal: …, for: … or until: …", at="key")
        elif present and present != ["signal"]:
            for key in ("timeout", "default"):
                if key in value:
                    collector.path.append(key)
                    collector.problem(f"`{key}` applies only to `signal`", "remove it", at="key")
                    collector.path.pop()
        elif "default" in value and "timeout" not in value and present:
            collector.problem("without a timeout the default is never used", "add timeout: …, or remove default")
        return out if len(collector.problems) == before else INVALID

    def schema(self) -> dict[str, Any]:
        return {**WAIT_RECORD.schema(), "oneOf": [{"required": [key]} for key in _WAIT_KEYS]}


WAIT: Final = WaitType()


class NeedsType(msgspec.Struct, frozen=True):
    """Task names. Whether the tasks exist is checked once all are known, so that a million edges stay cheap."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, str):
            return [value]
        if isinstance(value, (list, tuple)) and all(type(name) is str for name in value):
            return list(dict.fromkeys(value))
        if not isinstance(value, (list, tuple)):
            return mismatch(collector, "a list of task names", value)
        for at, name in enumerate(value):
            if type(name) is not str:
                collector.path.append(at)
                mismatch(collector, "a task name", name)
                collector.path.pop()
        return INVALID

    def schema(self) -> dict[str, Any]:
        name = TASK_NAME.schema()
        return {"oneOf": [name, {"type": "array", "items": name}]}


CACHE_RECORD: Final = Record(
    (
        Field("key", Text("a key", templates=True, integers=True), "What the result depends on;"
              " by default everything that defines the attempt."),
        Field("ttl", Duration(least_ms=1), "How long a result is kept; by default until it is removed."),
    ),
    "cache",
)  # fmt: skip


class CacheType(msgspec.Struct, frozen=True):
    """A boolean or a mapping. A text is refused: it could be a key or a duration."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        if isinstance(value, dict):
            return CACHE_RECORD.read(collector, value)
        return mismatch(collector, "true, or a mapping (cache)", value, "write cache: {key: …} or cache: {ttl: …}")

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Boolean().schema(), CACHE_RECORD.schema()]}


FUNCTION: Final = Pattern(
    expected="a function",
    regex=r"([A-Za-z_]\w*(\.[A-Za-z_]\w*)*|[^:\x00-\x1f\x7f]*[^:/\x00-\x1f\x7f]\.py):[A-Za-z_]\w*",
    fix="write module:function or file.py:function",
)
_INTERPRETERS: Final = ("venv", "interpreter")
PYTHON_RECORD: Final = Record(
    (
        Field("call", FUNCTION, "The function: module:function or file.py:function."),
        Field("venv", Text("a directory", templates=True),
              "The virtual environment whose Python calls it, relative to the definition."),
        Field("interpreter", Text("a path", templates=True), "The Python that calls it, relative to the definition."),
    ),
    "python",
)  # fmt: skip


class FunctionCall(msgspec.Struct, frozen=True):
    """A function, or a mapping with an interpreter of its own. The canonical form of one without is the text."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if not isinstance(value, dict):
            return FUNCTION.read(collector, value)
        out = PYTHON_RECORD.read(collector, value)
        if "call" not in value and not collector.misspelled(value, PYTHON_RECORD.by_name, ("call",)):
            return collector.problem("`python` has no call", "add call: module:function", at="key")
        if out is INVALID or "call" not in out:
            return INVALID
        if all(key in out for key in _INTERPRETERS):
            path = (*collector.path, "interpreter")
            collector.problem_at(path, "`python` has both venv and interpreter", "keep one of them", "key")
            return INVALID
        return out if any(key in out for key in _INTERPRETERS) else out["call"]

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [FUNCTION.schema(), {**PYTHON_RECORD.schema(), "required": ["call"]}]}


def function_of(python: str | dict[str, str]) -> str:
    """The function that the key `python` of a canonical task names."""
    return python if isinstance(python, str) else python["call"]


def interpreter_of(python: str | dict[str, str]) -> str | None:
    """The interpreter that calls it; None: the node's own."""
    if isinstance(python, str):
        return None
    return python["interpreter"] if "interpreter" in python else f"{python['venv'].rstrip('/')}/bin/python"


def wrong_path(path: str) -> str | None:
    """Why this names no place below the directory in which a task starts."""
    if not path or "\0" in path:
        return "is no path"
    if path.startswith("/") or ".." in path.split("/"):
        return "must lie below the directory in which the task starts"
    return None


class ArtifactPath(msgspec.Struct, frozen=True):
    """A path, or a pattern such as dist/*.whl, relative to the directory in which the task starts."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        out = Text("the path of a file", templates=True).read(collector, value)
        if out is INVALID or has_expression(out) or (wrong := wrong_path(out)) is None:
            return out
        return collector.problem(f"{quoted(out)} {wrong}", "give a path such as dist/*.whl")

    def schema(self) -> dict[str, Any]:
        return Text("the path of a file").schema()
