"""The shapes of single values: each reads a value, says what is wrong with it, and knows its JSON Schema.
The checker and `weft schema` use the same objects, so neither can say what the other does not.

`read` gives the value in its canonical form, or `BAD` after it has told the reader why. It never raises.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any

from weft.core.definition.problems import INTEGER_MAX, NO_EXPRESSION, Reader, found, has_expression, mismatch, quoted
from weft.core.definition.text_formats import (
    NotReadable,
    format_duration,
    format_size,
    parse_duration_ms,
    parse_size_bytes,
)


def is_expression(value: Any) -> bool:
    """A number or a choice can't be left to an expression; saying so helps more than "expected a number"."""
    return isinstance(value, str) and has_expression(value)


@dataclass(frozen=True, slots=True)
class Text:
    expected: str = "text"
    templates: bool = False  # it may hold ${{ … }}
    empty: bool = False
    length_max: int | None = None
    integers: bool = False  # `argv: [sleep, 1]` and `env: {PORT: 8080}` mean the digits
    booleans: bool = False  # `run: true` means the command

    def read(self, reader: Reader, value: Any) -> Any:
        if not isinstance(value, str):
            if self.integers and isinstance(value, int) and not isinstance(value, bool):
                if abs(value) <= INTEGER_MAX:
                    return str(value)
            elif self.booleans and isinstance(value, bool):
                return "true" if value else "false"
            return mismatch(reader, self.expected, value, self._quote(value))
        if not value and not self.empty:
            return mismatch(reader, self.expected, value)
        if "\0" in value:
            return reader.problem("the text holds a NUL character, which nothing can carry on", "remove it")
        if self.length_max is not None and len(value) > self.length_max:
            return reader.problem(f"the text is {len(value):,} characters long; {self.length_max:,} is the limit")
        if not self.templates and has_expression(value):
            return reader.problem(*NO_EXPRESSION)
        return value

    @staticmethod
    def _quote(value: Any) -> str | None:
        if isinstance(value, bool):
            return f'put it in quotes: "{"true" if value else "false"}"'
        # 1.10 has become 1.1 by now, so the text of a float can't be given back
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
    """A text that matches a regular expression as a whole."""

    expected: str
    regex: str
    fix: str | None = None
    refused: tuple[str, ...] = ()
    compiled: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", re.compile(self.regex, re.ASCII))

    def read(self, reader: Reader, value: Any) -> Any:
        if not isinstance(value, str):
            return mismatch(reader, self.expected, value)
        if has_expression(value):
            return reader.problem(*NO_EXPRESSION)
        if self.compiled.fullmatch(value) is None:
            return mismatch(reader, self.expected, value, self.fix)
        if value in self.refused:
            return reader.problem(f"the name {quoted(value)} is reserved", "choose another name")
        return value

    def schema(self) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "string", "pattern": f"^{self.regex}$"}
        if self.refused:
            out["not"] = {"enum": list(self.refused)}
        return out


@dataclass(frozen=True, slots=True)
class Boolean:
    def read(self, reader: Reader, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        if is_expression(value):
            return reader.problem(*NO_EXPRESSION)
        fix = None
        if isinstance(value, str) and value.lower() in ("yes", "on", "no", "off", "true", "false"):
            fix = f"write {'true' if value.lower() in ('yes', 'on', 'true') else 'false'}"
        return mismatch(reader, "true or false", value, fix)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Number:
    low: float
    high: float
    whole: bool = True

    def read(self, reader: Reader, value: Any) -> Any:
        if is_expression(value):
            return reader.problem(*NO_EXPRESSION)
        good = isinstance(value, int) or (not self.whole and isinstance(value, float))
        if not good or isinstance(value, bool) or not self.low <= value <= self.high:
            return mismatch(reader, self._expected(), value, self._unquote(value))
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


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[str, ...]
    later: tuple[str, ...] = ()

    def read(self, reader: Reader, value: Any) -> Any:
        if isinstance(value, str) and value in self.options:
            return value
        if is_expression(value):
            return reader.problem(*NO_EXPRESSION)
        if isinstance(value, str) and value in self.later:
            return reader.problem(f"{quoted(value)} is not supported yet by this version of Weft")
        fix = reader.did_you_mean(value, self.options) if isinstance(value, str) else None
        return mismatch(reader, "one of " + ", ".join(self.options), value, fix)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.options)}


@dataclass(frozen=True, slots=True)
class Duration:
    """`least_ms`: a timeout of nothing would end every attempt at once."""

    least_ms: int = 0

    def read(self, reader: Reader, value: Any) -> Any:
        if is_expression(value):
            return reader.problem(*NO_EXPRESSION)
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return mismatch(reader, "a duration", value, "write it like 10m, 1h30m, 500ms, or a number of seconds")
        try:
            ms = parse_duration_ms(value)
        except NotReadable as error:
            reason = "a duration" if str(error) == "not a duration" else ""
            fix = error.fix or "write it like 10m, 1h30m, 500ms, or a number of seconds"
            if reason:
                return mismatch(reader, reason, value, fix)
            return reader.problem(f"{error}, found {found(value)}", fix)
        if ms < self.least_ms:
            return reader.problem(f"the duration must be longer than zero, found {found(value)}", "remove the key")
        return format_duration(ms)

    def schema(self) -> dict[str, Any]:
        text = r"^\s*([0-9]+(\.[0-9]+)?(ms|s|m|h|d) ?)+\s*$"
        return {"oneOf": [{"type": "string", "pattern": text}, {"type": "number", "minimum": 0}]}


@dataclass(frozen=True, slots=True)
class Milliseconds:
    """The long form's timeoutMs and backoffMs: a number, kept as the short form's duration."""

    least_ms: int = 0

    def read(self, reader: Reader, value: Any) -> Any:
        if is_expression(value):
            return reader.problem(*NO_EXPRESSION)
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not float(value).is_integer():
            return mismatch(reader, "a whole number of milliseconds", value)
        try:
            parse_duration_ms(value / 1000)
        except NotReadable as error:
            return reader.problem(f"{error}, found {found(value)}")
        return Duration(self.least_ms).read(reader, value / 1000)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least_ms}


@dataclass(frozen=True, slots=True)
class Size:
    def read(self, reader: Reader, value: Any) -> Any:
        if is_expression(value):
            return reader.problem(*NO_EXPRESSION)
        fix = "write it like 1GiB, 512MB, or a number of bytes"
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return mismatch(reader, "a size", value, fix)
        try:
            return format_size(parse_size_bytes(value))
        except NotReadable as error:
            if str(error) == "not a size":
                return mismatch(reader, "a size", value, error.fix or fix)
            return reader.problem(f"{error}, found {found(value)}", fix)

    def schema(self) -> dict[str, Any]:
        text = r"^\s*[0-9]+(\.[0-9]+)? ?(TiB|GiB|MiB|KiB|TB|GB|MB|kB|B)?\s*$"
        return {"oneOf": [{"type": "string", "pattern": text}, {"type": "integer", "minimum": 0}]}
