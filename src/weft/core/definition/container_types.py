"""The shapes that hold other shapes: lists, mappings, records with known keys, and any JSON value.

Like those of `scalars`, they read a value to its canonical form and know their JSON Schema.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from weft.core.definition.problems import (
    BAD,
    INTEGER_MAX,
    NO_EXPRESSION,
    Path,
    Reader,
    has_expression,
    mismatch,
    quoted,
)

DEPTH_MAX: Final = 64


class Shape(Protocol):
    def read(self, reader: Reader, value: Any) -> Any: ...

    def schema(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class ListOf:
    """`single`: one item may stand without its list. `once`: repeated items are dropped."""

    item: Shape
    expected: str
    single: bool = False
    once: bool = False
    least: int = 0
    fix: str | None = None

    def read(self, reader: Reader, value: Any) -> Any:
        if self.single and isinstance(value, str):
            one = self.item.read(reader, value)
            return BAD if one is BAD else [one]
        if not isinstance(value, (list, tuple)) or len(value) < self.least:
            return mismatch(reader, self.expected, value, self.fix)
        out = []
        read, path = self.item.read, reader.path
        path.append(0)
        for at, item in enumerate(value):
            path[-1] = at
            one = read(reader, item)
            if one is not BAD:
                out.append(one)
        path.pop()
        return list(dict.fromkeys(out)) if self.once else out

    def schema(self) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "array", "items": self.item.schema()}
        if self.least:
            out["minItems"] = self.least
        return {"oneOf": [self.item.schema(), out]} if self.single else out


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping whose keys are the author's own."""

    key: Shape
    value: Shape
    expected: str
    least: int = 0

    def read(self, reader: Reader, value: Any) -> Any:
        if not isinstance(value, dict) or len(value) < self.least:
            return mismatch(reader, self.expected, value)
        out = {}
        for key, item in value.items():
            reader.path.append(key)
            before = len(reader.problems)
            good_key = self.key.read(reader, key)
            _blame_keys(reader, before)
            good = self.value.read(reader, item)
            reader.path.pop()
            if good is not BAD and good_key is not BAD:
                out[good_key] = good
        return out

    def schema(self) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "object", "propertyNames": self.key.schema()}
        out["additionalProperties"] = self.value.schema()
        if self.least:
            out["minProperties"] = self.least
        return out


def _blame_keys(reader: Reader, since: int) -> None:
    """What a key's own shape complained about is told of the key, not of the value beside it."""
    for at in range(since, len(reader.problems)):
        reader.problems[at] = msgspec.structs.replace(reader.problems[at], at="key")


@dataclass(frozen=True, slots=True)
class Json:
    """Any JSON value, kept as it is. Checked here because a Python caller can hand over anything.

    `expressions`: whether texts may hold ${{ … }}, which keys never may; None leaves both alone, as data.
    """

    expected: str = "a value"
    expressions: bool | None = None

    def read(self, reader: Reader, value: Any) -> Any:
        before = len(reader.problems)
        stack: list[tuple[Any, Path]] = [(value, tuple(reader.path))]
        room = len(reader.path) + DEPTH_MAX
        tuples = False
        while stack:
            item, path = stack.pop()
            reason = _not_json(item) if len(path) <= room else f"nested more than {DEPTH_MAX} deep"
            if reason:
                reader.problem_at(path, f"{self.expected} can't be kept: {reason}")
            elif isinstance(item, dict):
                if self.expressions is not None:
                    _refuse_in_keys(reader, item, path)
                stack += [(v, (*path, k)) for k, v in reversed(item.items())]
            elif isinstance(item, (list, tuple)):
                tuples = tuples or isinstance(item, tuple)
                stack += [(v, (*path, at)) for at, v in reversed(list(enumerate(item)))]
            elif self.expressions is False and isinstance(item, str) and has_expression(item):
                reader.problem_at(path, *NO_EXPRESSION)
        if len(reader.problems) > before:
            return BAD
        return _with_lists(value) if tuples else value

    def schema(self) -> dict[str, Any]:
        return {}


def _refuse_in_keys(reader: Reader, value: dict[Any, Any], path: Path) -> None:
    for key in value:
        if isinstance(key, str) and has_expression(key):
            reader.problem_at((*path, key), *NO_EXPRESSION, "key")


def _with_lists(value: Any) -> Any:
    """Tuples as lists, as they will be once stored. Its depth has been checked."""
    if isinstance(value, dict):
        return {key: _with_lists(item) for key, item in value.items()}
    return [_with_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def _not_json(item: Any) -> str | None:
    if isinstance(item, float) and not math.isfinite(item):
        return "only finite numbers have a JSON form"
    if isinstance(item, int) and not isinstance(item, bool) and abs(item) > INTEGER_MAX:
        return "the number does not fit into 64 bits"
    if isinstance(item, dict):
        wrong = next((key for key in item if not isinstance(key, str)), None)
        return None if wrong is None else f"the key {ascii(wrong)[:40]} is no text"
    if item is None or isinstance(item, (bool, int, float, str, list, tuple)):
        return None
    return f"a Python {type(item).__name__} has no JSON form"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Several shapes for one thing; `pick` chooses by the look of the value which one reads it."""

    shapes: tuple[Shape, ...]
    pick: Callable[[Any], int]

    def read(self, reader: Reader, value: Any) -> Any:
        return self.shapes[self.pick(value)].read(reader, value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [shape.schema() for shape in self.shapes]}


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a record. `target` is its key in the canonical document, if that differs."""

    name: str
    shape: Shape
    doc: str
    target: str = ""
    later: bool = False  # known, and said to be so, but brought by a later version
    null: bool = False  # null is a value here: "none, whatever the defaults say"
    hidden: bool = False  # of canonical documents; not offered in messages


@dataclass(frozen=True)
class Record:
    """A mapping with known keys. The canonical form has them in the table's order, whatever the author's."""

    fields: tuple[Field, ...]
    what: str  # for messages: "a task", "the workflow"
    least: int = 0
    by_name: dict[str, Field] = field(init=False)
    rank: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {f.name: f for f in self.fields})
        targets = [f.target or f.name for f in self.fields]
        object.__setattr__(self, "rank", {name: at for at, name in enumerate(dict.fromkeys(targets))})

    def read(self, reader: Reader, value: Any) -> Any:
        if isinstance(value, str) and has_expression(value):
            return reader.problem(*NO_EXPRESSION)
        if not isinstance(value, dict) or len(value) < self.least:
            return mismatch(reader, f"a mapping ({self.what})", value)
        out: dict[str, Any] = {}
        path = reader.path
        path.append("")
        for key, item in value.items():
            path[-1] = key
            known = self.by_name.get(key)
            if known is None:
                self._unknown(reader, key)
            elif known.later:
                reader.problem(f"{quoted(key)} is not supported yet by this version of Weft", at="key")
            elif item is None and known.null:
                out[known.target or key] = None
            else:
                good = known.shape.read(reader, item)
                if (known.target or key) in out:
                    reader.problem(f"{quoted(key)} says what another key has said", "keep one of them", "key")
                elif good is not BAD:
                    out[known.target or key] = good
        path.pop()
        if len(out) > 1:
            out = {name: out[name] for name in sorted(out, key=self.rank.__getitem__)}
        return out

    def _unknown(self, reader: Reader, key: Any) -> None:
        known = [f.name for f in self.fields if not f.hidden]
        if not isinstance(key, str):
            reader.problem(f"the key {ascii(key)[:40]} is no text", at="key")
            return
        fix = reader.did_you_mean(key, known)
        if key == "secrets":  # on a workflow, where all tasks would have them
            fix = "list them in the tasks that need them, or under defaults"
        elif fix is None and len(known) <= 12:
            fix = "known here: " + ", ".join(known)
        reader.problem(f"unknown key {quoted(key)} in {self.what}", fix, at="key")

    def schema(self) -> dict[str, Any]:
        properties = {}
        for f in self.fields:
            if f.later:
                continue
            shape = f.shape.schema()
            if f.null:
                shape = {"anyOf": [shape, {"type": "null"}]}
            properties[f.name] = {**shape, "description": f.doc}
        out: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        if self.least:
            out["minProperties"] = self.least
        return out
