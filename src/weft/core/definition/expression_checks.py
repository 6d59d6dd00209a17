"""Every expression of a definition checked while it is loaded: its syntax, the names in it, and whether a value may
stand where it stands. What is found is told at the column where it is.

The same text is looked at once, however many of 100,000 tasks have it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from weft.core.definition.inferred_needs import OPENING, Mentions, condition_of, mentioned, templates_of, way_of_run
from weft.core.definition.problems import PROBLEMS_MAX, Path, Reader, Spot, has_expression, quoted
from weft.core.definition.source_paths import Written
from weft.core.expressions import (
    Expression,
    ExpressionError,
    Scope,
    check,
    compile_shell,
    parse_condition,
    parse_template,
    templates_in,
)

#: What `run` has.
RUN_FIELDS: Final = ("id", "name", "generation")

#: How a text is read. `foreign` is the text of a shell whose quoting nobody here knows; `shared` what all tasks get.
Way = Literal["condition", "map", "text", "sh", "bash", "foreign", "shared"]

#: What is worked out before there are elements, and so knows no `item`.
_BEFORE_ELEMENTS: Final[Mapping[str, str]] = {
    "condition": "a condition is asked once for all elements",
    "map": "the array is worked out before it has elements",
}


class Looked(NamedTuple):
    """What one text has in it: what is wrong, and the tasks it names, each with the column where it does."""

    errors: tuple[ExpressionError, ...]
    tasks: tuple[tuple[str, int], ...]


class ExpressionChecker:
    """`inputs` is None if they could not be read: then no name of one is blamed."""

    def __init__(
        self,
        reader: Reader,
        written: Written,
        tasks: Mapping[str, object],
        inputs: Mapping[str, object] | None,
        defaults: Mapping[str, Any],
    ) -> None:
        self._reader = reader
        self._written = written
        self._tasks = tasks
        self._inputs = inputs
        self._defaults = defaults
        self.mentions: Mentions = {}  # what the texts name, for the compiler
        self._looked: dict[tuple[Way, str, bool], Looked] = {}

    def task(self, name: str, task: Mapping[str, Any]) -> list[str]:
        """Tells what is wrong with a task's expressions; the other tasks that they name."""
        named: dict[str, None] = {}
        for place, text, way in self._texts(task):
            if len(self._reader.problems) >= PROBLEMS_MAX:
                break
            looked = self._look(way, text, _has_elements(task))
            for error in looked.errors:
                self._tell(self._written.text(name, place, text), text, error)
            own = next((column for other, column in looked.tasks if other == name), None)
            if own is not None:
                error = ExpressionError(
                    f"the task {quoted(name)} asks for its own result", own, "a task can read those before it only"
                )
                self._tell(self._written.text(name, place, text), text, error)
            named.update((other, None) for other, _ in looked.tasks if other in self._tasks and other != name)
        return list(named)

    def shared(self, path: Path, value: Any) -> None:
        """What all tasks get, so that no task can be named in it: the environment, `defaults`."""
        self._value(path, value, "shared")

    def output(self, path: Path, value: Any) -> None:
        self._value(path, value, "text")

    def where(self, name: str, task: Mapping[str, Any], other: str) -> tuple[Path, Spot | None]:
        """Where a task names another one."""
        for place, text, way in self._texts(task):
            for found, column in self._look(way, text, _has_elements(task)).tasks:
                if found == other:
                    return self._written.text(name, place, text), Spot(text, column)
        return self._written.task(name)[0], None

    def _texts(self, task: Mapping[str, Any]) -> Iterator[tuple[Path, str, Way]]:
        condition = condition_of(task)
        if condition:
            yield ("if" if "if" in task else "condition",), condition, "condition"
        for place, text in templates_of(task):
            if place[0] == "map":
                yield place, text, "map"
            else:
                yield place, text, way_of_run(task, self._defaults) if place == ("run",) else "text"

    def _value(self, path: Path, value: Any, way: Way) -> None:
        for place, text in templates_in(value):
            for error in self._look(way, text, False).errors:
                self._tell((*path, *place), text, error)

    def _tell(self, path: Path, text: str, error: ExpressionError) -> None:
        self._reader.problem_at(path, error.message, error.fix, spot=Spot(text, error.column or 1))

    def _look(self, way: Way, text: str, mapped: bool) -> Looked:
        key = (way, text, mapped)
        looked = self._looked.get(key)
        if looked is None:
            looked = self._looked[key] = self._look_closely(way, text, mapped)
        return looked

    def _look_closely(self, way: Way, text: str, mapped: bool) -> Looked:
        try:
            expressions = _expressions(way, text)
        except ExpressionError as error:
            return Looked((error,), ())
        errors = [error for expression in expressions for error in self._wrong(expression, way, mapped)]
        tasks: dict[str, int] = {}
        for expression in expressions:
            for reference in expression.references:
                if reference.path[0] in ("tasks", "parent") and len(reference.path) > 1:
                    tasks.setdefault(reference.path[1], reference.key_columns[0])
        errors.sort(key=lambda error: error.column or 0)
        if way != "shared" and not errors:
            self.mentions[(way, text)] = mentioned(r for expression in expressions for r in expression.references)
        return Looked(tuple(errors), () if way == "shared" else tuple(tasks.items()))

    def _wrong(self, expression: Expression, way: Way, mapped: bool) -> list[ExpressionError]:
        here = mapped and way not in _BEFORE_ELEMENTS
        scope = Scope(
            tasks=None if way == "shared" else self._tasks, inputs=self._inputs or None, item=here, index=here
        )
        out: list[ExpressionError] = []
        for error in check(expression, scope):
            if mapped and not here and error.message.startswith(("'item'", "'index'")):
                error = ExpressionError(error.message, error.column, _BEFORE_ELEMENTS[way])
            out.append(error)
        for reference in expression.references:
            root, column = reference.path[0], reference.column
            if way == "shared" and root in ("tasks", "parent"):
                fix = "set it in the tasks that need it"
                out.append(ExpressionError("what all tasks share can't name one of them", column, fix))
            elif len(reference.path) < 2:
                continue
            elif root == "run" and reference.path[1] not in RUN_FIELDS:
                what = f"'run' has no {quoted(reference.path[1])}"
                out.append(ExpressionError(what, reference.key_columns[0], f"it has {', '.join(RUN_FIELDS)}"))
            elif root == "inputs" and self._inputs == {}:
                name = reference.path[1]
                what = f"there is no input {quoted(name)}: the workflow declares none"
                out.append(
                    ExpressionError(what, reference.key_columns[0], f"declare it: inputs: {{{name[:64]}: string}}")
                )
        return out


def _has_elements(task: Mapping[str, Any]) -> bool:
    return "map" in task or "replicas" in task


def _expressions(way: Way, text: str) -> tuple[Expression, ...]:
    if way == "condition":
        return (_condition(text),)
    if way == "sh" or way == "bash":
        return tuple(expression for _, expression in compile_shell(text, way).values)
    if way == "foreign" and has_expression(text):
        raise ExpressionError(
            "this shell's way of quoting is not known, so no value can be put into its text",
            _first_opening(text) + 1,
            'set it in env, e.g. env: {VALUE: "${{ … }}"}, and read $VALUE there',
        )
    return parse_template(text).expressions


def _condition(text: str) -> Expression:
    try:
        return parse_condition(text)
    except ExpressionError:
        if not has_expression(text) or text.lstrip().startswith(OPENING):
            raise
    raise ExpressionError(
        "text before the ${{ would make this condition a string",
        len(text) - len(text.lstrip()) + 1,
        "put the whole condition inside ${{ … }}, or leave ${{ and }} out",
    )


def _first_opening(text: str) -> int:
    """The first ${{ that is not $${{."""
    at = text.find(OPENING)
    while text[at - 1 : at] == "$":
        at = text.find(OPENING, at + len(OPENING))
    return at
