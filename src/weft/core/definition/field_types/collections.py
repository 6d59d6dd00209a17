"""Field types that contain other types: lists, mappings, records with known keys, and any JSON value.

Like those of `scalar_types`, each converts a value to its canonical form and has a JSON Schema.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from weft.core.definition.field_types.foreign_keys import foreign_fix, means_one_of
from weft.core.definition.problems import (
    INTEGER_MAX,
    INVALID,
    NO_EXPRESSION,
    Path,
    ProblemCollector,
    has_expression,
    mismatch,
    quoted,
)

DEPTH_MAX: Final = 64


class FieldType(Protocol):
    """What a key may hold. The checker and `weft schema` use the same objects, so they cannot disagree."""

    def read(self, collector: ProblemCollector, value: Any) -> Any: ...

    def schema(self) -> dict[str, Any]: ...


class ListOf(msgspec.Struct, frozen=True):
    """`single`: one text is accepted as a list of one. `once`: repeated items are dropped."""

    item: FieldType
    expected: str
    single: bool = False
    once: bool = False
    least: int = 0
    fix: str | None = None

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if self.single and isinstance(value, str):
            one = self.item.read(collector, value)
            return INVALID if one is INVALID else [one]
        if not isinstance(value, (list, tuple)) or len(value) < self.least:
            return mismatch(collector, self.expected, value, self.fix)
        out = []
        read, path = self.item.read, collector.path
        path.append(0)
        for at, item in enumerate(value):
            path[-1] = at
            one = read(collector, item)
            if one is not INVALID:
                out.append(one)
        path.pop()
        return list(dict.fromkeys(out)) if self.once else out

    def schema(self) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "array", "items": self.item.schema()}
        if self.least:
            out["minItems"] = self.least
        return {"oneOf": [self.item.schema(), out]} if self.single else out


class MapOf(msgspec.Struct, frozen=True):
    """A mapping whose keys the author chooses."""

    key: FieldType
    value: FieldType
    expected: str
    least: int = 0

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if not isinstance(value, dict) or len(value) < self.least:
            return mismatch(collector, self.expected, value)
        out = {}
        for key, item in value.items():
            collector.path.append(key)
            before = len(collector.problems)
            good_key = self.key.read(collector, key)
            _move_to_keys(collector, before)
            good = self.value.read(collector, item)
            collector.path.pop()
            if good is not INVALID and good_key is not INVALID:
                out[good_key] = good
        return out

    def schema(self) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "object", "propertyNames": self.key.schema()}
        out["additionalProperties"] = self.value.schema()
        if self.least:
            out["minProperties"] = self.least
        return out


def _move_to_keys(collector: ProblemCollector, since: int) -> None:
    """Problems that the type of the key found are reported at the key, not at its value."""
    for at in range(since, len(collector.problems)):
        collector.problems[at] = msgspec.structs.replace(collector.problems[at], at="key")


class Json(msgspec.Struct, frozen=True):
    """Any JSON value, unchanged. It is checked because a Python caller can pass anything.

    `expressions`: whether texts may contain ${{ … }}, which keys never may; None: both are data, and not checked.
    """

    expected: str = "a value"
    expressions: bool | None = None

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        before = len(collector.problems)
        stack: list[tuple[Any, Path]] = [(value, tuple(collector.path))]
        room = len(collector.path) + DEPTH_MAX
        tuples = False
        while stack:
            item, path = stack.pop()
            reason = _not_json(item) if len(path) <= room else f"it is nested more than {DEPTH_MAX} levels deep"
            if reason:
                collector.problem_at(path, f"{self.expected} cannot be stored: {reason}")
            elif isinstance(item, dict):
                if self.expressions is not None:
                    _refuse_expressions_in_keys(collector, item, path)
                stack += [(v, (*path, k)) for k, v in reversed(item.items())]
            elif isinstance(item, (list, tuple)):
                tuples = tuples or isinstance(item, tuple)
                stack += [(v, (*path, at)) for at, v in reversed(list(enumerate(item)))]
            elif self.expressions is False and isinstance(item, str) and has_expression(item):
                collector.problem_at(path, *NO_EXPRESSION)
        if len(collector.problems) > before:
            return INVALID
        return _with_lists(value) if tuples else value

    def schema(self) -> dict[str, Any]:
        return {}


def _refuse_expressions_in_keys(collector: ProblemCollector, value: dict[Any, Any], path: Path) -> None:
    for key in value:
        if isinstance(key, str) and has_expression(key):
            collector.problem_at((*path, key), *NO_EXPRESSION, "key")


def _with_lists(value: Any) -> Any:
    """The value with tuples as lists, which is how it will be stored. Its depth has been checked."""
    if isinstance(value, dict):
        return {key: _with_lists(item) for key, item in value.items()}
    return [_with_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def _not_json(item: Any) -> str | None:
    if isinstance(item, float) and not math.isfinite(item):
        return "a number must be finite to have a JSON form"
    if isinstance(item, int) and not isinstance(item, bool) and abs(item) > INTEGER_MAX:
        return "the number does not fit into 64 bits"
    if isinstance(item, dict):
        wrong = next((key for key in item if not isinstance(key, str)), None)
        return None if wrong is None else f"the key {ascii(wrong)[:40]} is not text"
    if item is None or isinstance(item, (bool, int, float, str, list, tuple)):
        return None
    return f"a Python {type(item).__name__} has no JSON form"


class OneOf(msgspec.Struct, frozen=True):
    """Several types; `pick` returns the index of the one that reads the value."""

    types: tuple[FieldType, ...]
    pick: Callable[[Any], int]

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        return self.types[self.pick(value)].read(collector, value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [type_.schema() for type_ in self.types]}


class Field(msgspec.Struct, frozen=True):
    """One key of a record. `target` is its key in the canonical document, if that differs."""

    name: str
    type: FieldType
    doc: str
    target: str = ""
    later: bool = False  # reserved for a later version: the message says so
    null: bool = False  # null is a value: "none, whatever the defaults say"
    hidden: bool = False  # only in canonical documents: messages do not suggest it


@dataclass(frozen=True)
class Record:
    """A mapping with known keys. The canonical form has them in the order of the table, not in the author's."""

    fields: tuple[Field, ...]
    what: str  # for messages: "a task", "the workflow"
    least: int = 0
    by_name: dict[str, Field] = field(init=False)
    rank: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {f.name: f for f in self.fields})
        targets = [f.target or f.name for f in self.fields]
        object.__setattr__(self, "rank", {name: at for at, name in enumerate(dict.fromkeys(targets))})

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if isinstance(value, str) and has_expression(value):
            return collector.problem(*NO_EXPRESSION)
        if not isinstance(value, dict) or len(value) < self.least:
            return mismatch(collector, f"a mapping ({self.what})", value)
        out: dict[str, Any] = {}
        path = collector.path
        path.append("")
        for key, item in value.items():
            path[-1] = key
            known = self.by_name.get(key)
            if known is None:
                self._report_unknown(collector, key, item)
            elif known.later:
                collector.problem(f"{quoted(key)} is not supported yet by this version of Weft", at="key")
            elif item is None and known.null:
                out[known.target or key] = None
            else:
                good = known.type.read(collector, item)
                if (known.target or key) in out:
                    collector.problem(f"{quoted(key)} sets the same as another key", "keep one of them", "key")
                elif good is not INVALID:
                    out[known.target or key] = good
        path.pop()
        if len(out) > 1:
            out = {name: out[name] for name in sorted(out, key=self.rank.__getitem__)}
        return out

    def _report_unknown(self, collector: ProblemCollector, key: Any, value: Any) -> None:
        known = [f.name for f in self.fields if not f.hidden]
        if not isinstance(key, str):
            collector.problem(f"the key {ascii(key)[:40]} is not text", at="key")
            return
        fix = foreign_fix(self.what, self.by_name, key, value) or collector.did_you_mean(key, known)
        if fix is None and len(known) <= 12:
            fix = "known keys: " + ", ".join(known)
        collector.problem(f"unknown key {quoted(key)} in {self.what}", fix, at="key")

    def reported(self, collector: ProblemCollector, value: dict[Any, Any], expected: Collection[str]) -> bool:
        """Whether an unknown key of the mapping stands for one of the expected ones, as another tool's or
        misspelled: that problem has been reported already."""
        foreign = (key for key in value if isinstance(key, str) and key not in self.by_name)
        return any(means_one_of(self.what, self.by_name, key, expected) for key in foreign) or collector.misspelled(
            value, self.by_name, expected
        )

    def schema(self) -> dict[str, Any]:
        properties = {}
        for f in self.fields:
            if f.later:
                continue
            schema = f.type.schema()
            if f.null:
                schema = {"anyOf": [schema, {"type": "null"}]}
            properties[f.name] = {**schema, "description": f.doc}
        out: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        if self.least:
            out["minProperties"] = self.least
        return out
