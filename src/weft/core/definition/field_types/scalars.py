"""Field types of single values: text, numbers, durations, sizes.

`read` returns the value in its canonical form, or `INVALID` after it has reported the problem to the collector. It
never raises.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from weft.core.definition.field_types.text_formats import (
    NotReadable,
    format_duration,
    format_size,
    parse_duration_ms,
    parse_size_bytes,
)
from weft.core.definition.problems import (
    INTEGER_MAX,
    NO_EXPRESSION,
    ProblemCollector,
    describe,
    has_expression,
    mismatch,
    quoted,
)
from weft.core.patterns import lazy


def is_expression(value: Any) -> bool:
    """Numbers and enums cannot be expressions; to say so helps more than "expected a number"."""
    return isinstance(value, str) and has_expression(value)


class Text(msgspec.Struct, frozen=True):
    expected: str = "text"
    templates: bool = False  # it may contain ${{ … }}
    empty: bool = False
    length_max: int | None = None
    integers: bool = False  # `argv: [sleep, 1]` and `env: {PORT: 8080}` mean the digits
    booleans: bool = False  # `run: true` means the command

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if not isinstance(value, str):
            if self.integers and isinstance(value, int) and not isinstance(value, bool):
                if abs(value) <= INTEGER_MAX:
                    return str(value)
            elif self.booleans and isinstance(value, bool):
                return "true" if value else "false"
            return mismatch(collector, self.expected, value, self._quote(value))
        if not value and not self.empty:
            return mismatch(collector, self.expected, value)
        if "\0" in value:
            return collector.problem("the text contains a NUL character, which no process can receive", "remove it")
        if self.length_max is not None and len(value) > self.length_max:
            return collector.problem(f"the text is {len(value):,} characters long; {self.length_max:,} is the limit")
        if not self.templates and has_expression(value):
            return collector.problem(*NO_EXPRESSION)
        return value

    @staticmethod
    def _quote(value: Any) -> str | None:
        if isinstance(value, bool):
            return f'put it in quotes: "{"true" if value else "false"}"'
        # 1.10 has become 1.1 by now, so the fix cannot quote what the author wrote
        return "put it in quotes" if isinstance(value, (int, float)) else None

    def schema(self) -> dict[str, Any]:
        types = ["string"] + ["integer"] * self.integers + ["boolean"] * self.booleans
        out: dict[str, Any] = {"type": types if len(types) > 1 else "string"}
        if not self.empty:
            out["minLength"] = 1
        if self.length_max is not None:
            out["maxLength"] = self.length_max
        return out


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text that a regular expression matches as a whole."""

    expected: str
    regex: str
    fix: str | None = None
    refused: tuple[str, ...] = ()
    compiled: re.Pattern[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", lazy(self.regex, re.ASCII))

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if not isinstance(value, str):
            return mismatch(collector, self.expected, value)
        if has_expression(value):
            return collector.problem(*NO_EXPRESSION)
        if self.compiled.fullmatch(value) is None:
            return mismatch(collector, self.expected, value, self.fix)
        if value in self.refused:
            return collector.problem(f"the name {quoted(value)} is reserved", "choose another name")
        return value

    def schema(self) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "string", "pattern": f"^{self.regex}$"}
        if self.refused:
            out["not"] = {"enum": list(self.refused)}
        return out


class Boolean(msgspec.Struct, frozen=True):
    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        if is_expression(value):
            return collector.problem(*NO_EXPRESSION)
        fix = None
        if isinstance(value, str) and value.lower() in ("yes", "on", "no", "off", "true", "false"):
            fix = f"write {'true' if value.lower() in ('yes', 'on', 'true') else 'false'}"
        return mismatch(collector, "true or false", value, fix)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Number(msgspec.Struct, frozen=True):
    low: float
    high: float
    whole: bool = True

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if is_expression(value):
            return collector.problem(*NO_EXPRESSION)
        good = isinstance(value, int) or (not self.whole and isinstance(value, float))
        if not good or isinstance(value, bool) or not self.low <= value <= self.high:
            return mismatch(collector, self._expected(), value, self._unquote(value))
        return value if self.whole or not float(value).is_integer() else int(value)

    def _expected(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low:,g} to {self.high:,.0f}"

    @staticmethod
    def _unquote(value: Any) -> str | None:
        digits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20
        return "remove the quotes" if digits else None

    def schema(self) -> dict[str, Any]:
        return {"type": "integer" if self.whole else "number", "minimum": self.low, "maximum": self.high}


class Enum(msgspec.Struct, frozen=True):
    options: tuple[str, ...]
    later: tuple[str, ...] = ()

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, str) and value in self.options:
            return value
        if is_expression(value):
            return collector.problem(*NO_EXPRESSION)
        if isinstance(value, str) and value in self.later:
            return collector.problem(f"{quoted(value)} is not supported yet by this version of Weft")
        fix = collector.did_you_mean(value, self.options) if isinstance(value, str) else None
        return mismatch(collector, "one of " + ", ".join(self.options), value, fix)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.options)}


class Duration(msgspec.Struct, frozen=True):
    """`least_ms`: a timeout of 0 would end every attempt immediately."""

    least_ms: int = 0

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if is_expression(value):
            return collector.problem(*NO_EXPRESSION)
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return mismatch(collector, "a duration", value, "write it like 10m, 1h30m, 500ms, or a number of seconds")
        try:
            ms = parse_duration_ms(value)
        except NotReadable as error:
            reason = "a duration" if str(error) == "not a duration" else ""
            fix = error.fix or "write it like 10m, 1h30m, 500ms, or a number of seconds"
            if reason:
                return mismatch(collector, reason, value, fix)
            return collector.problem(f"{error}, found {describe(value)}", fix)
        if ms < self.least_ms:
            least = "greater than zero" if self.least_ms <= 1 else f"at least {format_duration(self.least_ms)}"
            return collector.problem(
                f"the duration must be {least}, found {describe(value)}", "write a longer one, or remove the key"
            )
        return format_duration(ms)

    def schema(self) -> dict[str, Any]:
        text = r"^\s*([0-9]+(\.[0-9]+)?(ms|s|m|h|d) ?)+\s*$"
        return {"oneOf": [{"type": "string", "pattern": text}, {"type": "number", "minimum": 0}]}


class Milliseconds(msgspec.Struct, frozen=True):
    """`timeoutMs` and `backoffMs` of the long form: a number, stored as a duration of the short form."""

    least_ms: int = 0

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if is_expression(value):
            return collector.problem(*NO_EXPRESSION)
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not float(value).is_integer():
            return mismatch(collector, "a whole number of milliseconds", value)
        try:
            parse_duration_ms(value / 1000)
        except NotReadable as error:
            return collector.problem(f"{error}, found {describe(value)}")
        return Duration(self.least_ms).read(collector, value / 1000)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least_ms}


class Size(msgspec.Struct, frozen=True):
    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if is_expression(value):
            return collector.problem(*NO_EXPRESSION)
        fix = "write it like 1GiB, 512MB, or a number of bytes"
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return mismatch(collector, "a size", value, fix)
        try:
            return format_size(parse_size_bytes(value))
        except NotReadable as error:
            if str(error) == "not a size":
                return mismatch(collector, "a size", value, error.fix or fix)
            return collector.problem(f"{error}, found {describe(value)}", fix)

    def schema(self) -> dict[str, Any]:
        text = r"^\s*[0-9]+(\.[0-9]+)? ?(TiB|GiB|MiB|KiB|TB|GB|MB|kB|B)?\s*$"
        return {"oneOf": [{"type": "string", "pattern": text}, {"type": "integer", "minimum": 0}]}
