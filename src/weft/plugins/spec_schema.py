"""The JSON Schema of a plugin's `spec`, read once into values that check a definition with Weft's own messages.

Supported is what describes data: types, properties, items, enum, bounds, patterns, anyOf, references within the
schema. Any other keyword is refused when the plugin is loaded: a rule that nobody checks would be a false promise.
`oneOf` is read as `anyOf`.
"""

import math
import re
from typing import Any, Final

import msgspec

from weft.core.definition.problems import ProblemCollector, ValueProblem, describe, has_expression, mismatch, quoted
from weft.core.expressions import ExpressionError, parse_template

_WORDS: Final = {
    "string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
    "object": "a mapping", "array": "a list", "null": "null",
}  # fmt: skip
#: Keywords that say nothing about what is valid.
_NOTES: Final = (
    "$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "example",
    "deprecated", "readOnly", "writeOnly", "format", "contentMediaType", "contentEncoding",
)  # fmt: skip
_RULES: Final = (
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern", "anyOf",
    "oneOf", "$ref",
)  # fmt: skip
_KNOWN: Final = frozenset((*_NOTES, *_RULES))
_DEPTH_MAX: Final = 64


class BadSchema(Exception):
    """The schema is no schema, or says what Weft cannot check."""


class SpecSchema(msgspec.Struct, frozen=True):
    """One schema. `read` reports what is wrong with a value; like those of field types, it never raises."""

    defs: "dict[str, SpecSchema]"
    ref: str | None = None
    types: tuple[str, ...] = ()  # empty: any
    options: tuple[Any, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf  # exclusive
    below: float = math.inf
    least: int = 0  # characters, or items
    most: float = math.inf
    pattern: re.Pattern[str] | None = None
    items: "SpecSchema | None" = None
    properties: "dict[str, SpecSchema]" = {}
    required: tuple[str, ...] = ()
    extra: "SpecSchema | bool" = True  # what other keys may hold; False: there may be none
    any_of: "tuple[SpecSchema, ...]" = ()

    def read(self, collector: ProblemCollector, value: Any, depth: int = 0) -> None:
        if depth > _DEPTH_MAX:
            collector.problem(f"it is nested more than {_DEPTH_MAX} levels deep")
        elif self.ref is not None:
            self.defs[self.ref].read(collector, value, depth + 1)
        elif isinstance(value, str) and has_expression(value):
            self._read_template(collector, value)
        elif self.types and not any(_is(value, type_) for type_ in self.types):
            mismatch(collector, self.expected, value, _fix(self.types, value))
        elif self.options and not any(_same(value, option) for option in self.options):
            known = [option for option in self.options if isinstance(option, str)]
            fix = collector.did_you_mean(value, known) if isinstance(value, str) else None
            mismatch(collector, self.expected, value, fix)
        else:
            self._read_bounds(collector, value)
            if self.any_of:
                self._read_any(collector, value, depth)
            if isinstance(value, dict):
                self._read_object(collector, value, depth)
            elif isinstance(value, (list, tuple)) and self.items is not None:
                for at, item in enumerate(value):
                    collector.path.append(at)
                    self.items.read(collector, item, depth + 1)
                    collector.path.pop()

    @property
    def expected(self) -> str:
        if self.ref is not None:
            return self.defs[self.ref].expected
        if self.options:
            return "one of " + ", ".join(str(_written(option)) for option in self.options)
        if self.any_of and not self.types:
            return " or ".join(dict.fromkeys(one.expected for one in self.any_of))
        return " or ".join(_WORDS[type_] for type_ in self.types) + self._range() if self.types else "a value"

    def _range(self) -> str:
        low = f"{self.low:,.15g}" if self.low != -math.inf else None
        high = f"{self.high:,.15g}" if self.high != math.inf else None
        if low is not None and high is not None:
            return f" from {low} to {high}"
        if low is not None:
            return f" of at least {low}"
        if high is not None:
            return f" of at most {high}"
        if self.above != -math.inf:
            return f" above {self.above:,.15g}"
        return f" below {self.below:,.15g}" if self.below != math.inf else ""

    def _read_template(self, collector: ProblemCollector, value: str) -> None:
        """One whole ${{ … }} may become anything; among other characters it becomes text."""
        if self.takes("string") or _is_whole(value):
            return
        fix = "write ${{ … }} alone, with nothing around it: then it keeps the type of its value"
        mismatch(collector, self.expected, value, fix)

    def takes(self, type_: str) -> bool:
        """Whether a value of this type may be valid."""
        if self.ref is not None:
            return self.defs[self.ref].takes(type_)
        if self.types and type_ not in self.types:
            return False
        return not self.any_of or any(one.takes(type_) for one in self.any_of)

    def _read_bounds(self, collector: ProblemCollector, value: Any) -> None:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if not (self.low <= value <= self.high and self.above < value < self.below):
                mismatch(collector, self.expected, value)
        elif isinstance(value, (str, list, tuple)) and not self.least <= len(value) <= self.most:
            what = "characters" if isinstance(value, str) else "items"
            collector.problem(f"expected {self._count()} {what}, found {len(value):,}")
        elif isinstance(value, str) and self.pattern is not None and self.pattern.search(value) is None:
            mismatch(collector, f"text that matches {self.pattern.pattern}", value)

    def _count(self) -> str:
        if self.most == math.inf:
            return f"at least {self.least:,}"
        return f"{self.least:,} to {self.most:,.0f}" if self.least else f"at most {self.most:,.0f}"

    def _read_any(self, collector: ProblemCollector, value: Any, depth: int) -> None:
        """The problems of the one alternative that has its type; where several have, one of them must have none."""
        fitting = [one for one in self.any_of if any(one.takes(type_) for type_ in _types_of(value))]
        if not fitting:
            mismatch(collector, self.expected, value)
            return
        found: list[ValueProblem] = []
        for one in fitting:
            tried = ProblemCollector()
            tried.path = list(collector.path)
            one.read(tried, value, depth + 1)
            if not tried.problems:
                return
            found = found or tried.problems
        for problem in found:
            collector.problem_at(problem.path, problem.message, problem.fix, problem.at)

    def _read_object(self, collector: ProblemCollector, value: dict[Any, Any], depth: int) -> None:
        for key, item in value.items():
            collector.path.append(key)
            known = self.properties.get(key)
            if known is not None:
                known.read(collector, item, depth + 1)
            elif isinstance(self.extra, SpecSchema):
                self.extra.read(collector, item, depth + 1)
            elif not self.extra:
                fix = collector.did_you_mean(key, self.properties) if isinstance(key, str) else None
                if fix is None and self.properties and len(self.properties) <= 12:
                    fix = "known keys: " + ", ".join(self.properties)
                collector.problem(f"unknown key {quoted(str(key))}", fix, at="key")
            collector.path.pop()
        for key in self.required:
            if key not in value and not collector.misspelled(value, self.properties, (key,)):
                collector.problem(f"{quoted(key)} is missing", f"add {key}: …", at="key")


def read_schema(declared: Any) -> SpecSchema:
    """`declared`: a JSON Schema, or a msgspec Struct, which has no keys but its fields. Raises BadSchema."""
    if isinstance(declared, type):
        try:
            return _read(msgspec.json.schema(declared), closed=True)
        except (TypeError, ValueError) as error:
            raise BadSchema(f"{declared.__name__} has no JSON Schema: {error}") from None
    if not isinstance(declared, dict):
        raise BadSchema(f"expected a JSON Schema or a msgspec Struct, found {describe(declared)}")
    return _read(declared, closed=False)


def _read(schema: dict[str, Any], *, closed: bool) -> SpecSchema:
    defs: dict[str, SpecSchema] = {}
    for table in ("$defs", "definitions"):
        named = schema.get(table, {})
        if not isinstance(named, dict):
            raise BadSchema(f"{table} is no mapping")
        for name, one in named.items():
            defs[f"#/{table}/{name}"] = _Reader(defs, closed).schema(one, f"{table}.{name}")
    root = _Reader(defs, closed).schema(schema, "schema")
    _follow_references(root, defs)
    return root


class _Reader:
    """From JSON to SpecSchema; `where` is the place in the schema, for messages."""

    def __init__(self, defs: dict[str, SpecSchema], closed: bool) -> None:
        self._defs = defs
        self._closed = closed

    def schema(self, value: Any, where: str) -> SpecSchema:
        if value is True:
            return SpecSchema(self._defs)
        if not isinstance(value, dict):
            raise BadSchema(f"{where}: expected a schema, found {describe(value)}")
        unknown = [key for key in value if key not in _KNOWN]
        if unknown:
            raise BadSchema(f"{where}: Weft does not check {unknown[0]!r}; check that in the executor instead")
        try:
            return self._made(value, where)
        except (TypeError, ValueError, re.error) as error:
            raise BadSchema(f"{where}: {error}") from None

    def _made(self, value: dict[str, Any], where: str) -> SpecSchema:
        types = value.get("type", ())
        types = (types,) if isinstance(types, str) else tuple(types)
        wrong = [type_ for type_ in types if type_ not in _WORDS]
        if wrong:
            raise BadSchema(f"{where}: there is no type {wrong[0]!r}")
        pattern = value.get("pattern")
        items = value.get("items")
        return SpecSchema(
            self._defs,
            ref=value.get("$ref"),
            types=types,
            options=(value["const"],) if "const" in value else tuple(value.get("enum", ())),
            low=float(value.get("minimum", -math.inf)),
            high=float(value.get("maximum", math.inf)),
            above=float(value.get("exclusiveMinimum", -math.inf)),
            below=float(value.get("exclusiveMaximum", math.inf)),
            least=int(value.get("minItems", value.get("minLength", 0))),
            most=float(value.get("maxItems", value.get("maxLength", math.inf))),
            pattern=None if pattern is None else re.compile(pattern),
            items=None if items is None else self.schema(items, f"{where}.items"),
            properties={
                name: self.schema(one, f"{where}.{name}") for name, one in value.get("properties", {}).items()
            },
            required=tuple(value.get("required", ())),
            extra=self._extra(value, where),
            any_of=tuple(
                self.schema(one, f"{where}.{key}[{at}]")
                for key in ("anyOf", "oneOf")
                for at, one in enumerate(value.get(key, ()))
            ),
        )

    def _extra(self, value: dict[str, Any], where: str) -> SpecSchema | bool:
        extra = value.get("additionalProperties", not (self._closed and "properties" in value))
        return extra if isinstance(extra, bool) else self.schema(extra, f"{where}.additionalProperties")


def _follow_references(root: SpecSchema, defs: dict[str, SpecSchema]) -> None:
    """Each leads to a schema that is no mere reference in a circle."""
    pending = [root, *defs.values()]
    while pending:
        one = pending.pop()
        seen = []
        inner: SpecSchema | None = one
        while inner is not None and inner.ref is not None:
            if inner.ref not in defs:
                raise BadSchema(f"there is no {inner.ref}; references lead to #/$defs/… of the same schema")
            if inner.ref in seen:
                raise BadSchema(f"{inner.ref} refers to itself")
            seen.append(inner.ref)
            inner = defs[inner.ref]
        pending += [*one.properties.values(), *one.any_of]
        pending += [part for part in (one.items, one.extra) if isinstance(part, SpecSchema)]


def _is(value: Any, type_: str) -> bool:
    return type_ in _types_of(value)


def _types_of(value: Any) -> tuple[str, ...]:
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("boolean",)
    if isinstance(value, int):
        return ("integer", "number")
    if isinstance(value, float):
        return ("number", "integer") if value.is_integer() else ("number",)
    if isinstance(value, str):
        return ("string",)
    return ("array",) if isinstance(value, (list, tuple)) else ("object",) if isinstance(value, dict) else ()


def _same(one: Any, other: Any) -> bool:
    """1 is not true in JSON."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _written(option: Any) -> Any:
    return option if isinstance(option, str) else msgspec.json.encode(option).decode()


def _fix(types: tuple[str, ...], value: Any) -> str | None:
    if isinstance(value, (bool, int, float)) and "string" in types:
        return "put it in quotes"
    if isinstance(value, str) and value.isascii() and value.isdecimal() and {"integer", "number"} & {*types}:
        return "remove the quotes"
    return None


def _is_whole(text: str) -> bool:
    try:
        template = parse_template(text)
    except ExpressionError:  # the check of expressions has reported it
        return True
    return len(template.parts) == 1 and not isinstance(template.parts[0], str)
