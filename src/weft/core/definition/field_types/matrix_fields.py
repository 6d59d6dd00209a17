"""The type of the key `matrix` of a task: axes with their values, and combinations to add and to leave out."""

from typing import Any, Final

import msgspec

from weft.core.definition.field_types.collections import Json
from weft.core.definition.field_types.scalars import Pattern
from weft.core.definition.field_types.task_fields import ArrayToMap
from weft.core.definition.problems import INVALID, ProblemCollector, mismatch, quoted
from weft.core.expressions import ExpressionError, templates_in
from weft.core.expressions.elements import MATRIX_LISTS, combinations, same

AXIS_NAME: Final = Pattern(
    expected="the name of an axis",
    regex="[A-Za-z_][A-Za-z0-9_-]{0,63}",
    fix="use letters, digits, _ and -, beginning with a letter or _, at most 64 characters",
    refused=("__proto__",),
)


class MatrixType(msgspec.Struct, frozen=True):
    """Axes are lists, or expressions whose value is a list. What can be known before a run is checked: an entry of
    `exclude` that matches nothing is a slip."""

    def read(self, collector: ProblemCollector, value: Any) -> Any:
        if not isinstance(value, dict):
            fix = "write matrix: {os: [linux, mac], python: ['3.12', '3.13']}"
            return mismatch(collector, "a mapping of axes to lists of values", value, fix)
        before = len(collector.problems)
        out: dict[str, Any] = {}
        for key, item in value.items():
            collector.path.append(key)
            good = self._entries(collector, item) if key in MATRIX_LISTS else self._axis(collector, key, item)
            collector.path.pop()
            if good is not INVALID:
                out[key] = good
        if len(collector.problems) == before and not any(name != "exclude" for name in out):
            collector.problem("the matrix has no axes", "write matrix: {os: [linux, mac]}")
        if len(collector.problems) == before:
            self._check_excluded(collector, out)
        if len(collector.problems) == before:
            self._check_combinations(collector, out)
        return out if len(collector.problems) == before else INVALID

    def _axis(self, collector: ProblemCollector, name: Any, value: Any) -> Any:
        before = len(collector.problems)
        if AXIS_NAME.read(collector, name) is INVALID:
            collector.problems[before:] = [msgspec.structs.replace(p, at="key") for p in collector.problems[before:]]
        if isinstance(value, (list, tuple)) and not value:
            return collector.problem("the axis has no values, so there would be no combination", "add one")
        return ArrayToMap().read(collector, value)

    def _entries(self, collector: ProblemCollector, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return mismatch(collector, "a list of mappings", value, "write [{os: linux, python: '3.12'}]")
        out = []
        for at, item in enumerate(value):
            collector.path.append(at)
            if not isinstance(item, dict) or not item:
                mismatch(collector, "a mapping of axes to values", item)
            else:
                out.append(Json("the value", expressions=True).read(collector, item))
            collector.path.pop()
        return INVALID if INVALID in out else out

    def _check_excluded(self, collector: ProblemCollector, matrix: dict[str, Any]) -> None:
        axes = [name for name in matrix if name not in MATRIX_LISTS]
        for at, entry in enumerate(matrix.get("exclude", ())):
            for name, wanted in entry.items():
                path = (*collector.path, "exclude", at, name)
                if name not in axes:
                    fix = collector.did_you_mean(name, axes) or f"its axes are {', '.join(axes)}"
                    collector.problem_at(path, f"the matrix has no axis {quoted(name)}", fix, "key")
                elif not _has_template([matrix[name], wanted]) and not any(same(v, wanted) for v in matrix[name]):
                    message = f"the axis {quoted(name)} has no such value, so this leaves out nothing"
                    collector.problem_at(path, message, "write it as in the axis: '3.10' and 3.10 are two values")

    def _check_combinations(self, collector: ProblemCollector, matrix: dict[str, Any]) -> None:
        if _has_template(matrix):
            return
        try:
            if not combinations(matrix):
                collector.problem("the matrix has no combination left", "remove an entry of exclude")
        except ExpressionError as error:
            collector.problem(error.message, "use fewer axes or values")

    def schema(self) -> dict[str, Any]:
        entries = {"type": "array", "items": {"type": "object", "minProperties": 1}}
        return {
            "type": "object",
            "properties": dict.fromkeys(MATRIX_LISTS, entries),
            "additionalProperties": ArrayToMap().schema(),
            "minProperties": 1,
        }


def _has_template(value: Any) -> bool:
    return next(templates_in(value), None) is not None
