"""Checks every expression of a definition: its syntax, the names in it, and whether a value is allowed where it is.
A problem is reported at its column in the text.

Each distinct text is analyzed once, however many of 100,000 tasks contain it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from weft.core.definition.inferred_needs import (
    ARRAYS,
    OPENING,
    OUTCOME_FIELDS,
    OUTCOME_PATHS,
    ReferencesByText,
    condition_of,
    run_text_mode,
    templates_of,
    text_references,
)
from weft.core.definition.problems import PROBLEMS_MAX, Path, ProblemCollector, TextOffset, has_expression, quoted
from weft.core.definition.source_paths import SourcePaths
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

#: The members of `run`.
RUN_FIELDS: Final = ("id", "name", "generation", *OUTCOME_FIELDS)

#: How a text is parsed. `foreign`: the text of a shell whose quoting is not known; `shared`: a value for all tasks.
TextMode = Literal["condition", "map", "text", "sh", "bash", "foreign", "shared"]

#: Texts that are evaluated before there are elements, so that `item` is not known; the reason, for messages.
_BEFORE_ELEMENTS: Final[Mapping[str, str]] = {
    "condition": "a condition is evaluated once for all elements",
    "map": "the array is evaluated before it has elements",
}


class TextAnalysis(NamedTuple):
    """The problems of one text, and the tasks that it names, each with its column."""

    errors: tuple[ExpressionError, ...]
    tasks: tuple[tuple[str, int], ...]
    outcome: tuple[str, int] | None = None  # the first of run.state, run.reason and run.failed that it reads


class ExpressionChecker:
    """`inputs` is None if they cannot be read: then names of inputs are not checked."""

    def __init__(
        self,
        collector: ProblemCollector,
        source: SourcePaths,
        tasks: Mapping[str, object],
        inputs: Mapping[str, object] | None,
        defaults: Mapping[str, Any],
    ) -> None:
        self._collector = collector
        self._source = source
        self._tasks = tasks
        self._inputs = inputs
        self._defaults = defaults
        self.references: ReferencesByText = {}  # of all texts, for the compiler
        self._analyses: dict[tuple[TextMode, str, bool], TextAnalysis] = {}
        self.outcome_readers: dict[str, tuple[Path, str, str, int]] = {}  # tasks: place, text, name and its column

    def task(self, name: str, task: Mapping[str, Any]) -> list[str]:
        """Reports the problems of a task's expressions; returns the other tasks that they name."""
        named: dict[str, None] = {}
        for place, text, mode in self._texts(task):
            if len(self._collector.problems) >= PROBLEMS_MAX:
                break
            analysis = self._analyze(mode, text, _has_elements(task))
            for error in analysis.errors:
                self._report(self._source.text(name, place, text), text, error)
            own = next((column for other, column in analysis.tasks if other == name), None)
            if own is not None:
                error = ExpressionError(
                    f"the task {quoted(name)} reads its own result", own, "a task can read only the tasks before it"
                )
                self._report(self._source.text(name, place, text), text, error)
            if analysis.outcome is not None:
                self.outcome_readers.setdefault(name, (place, text, *analysis.outcome))
            named.update((other, None) for other, _ in analysis.tasks if other in self._tasks and other != name)
        return list(named)

    def shared(self, path: Path, value: Any) -> None:
        """Values for all tasks (the environment, `defaults`), which can name no task."""
        self._value(path, value, "shared")

    def output(self, path: Path, value: Any) -> None:
        self._value(path, value, "text")

    def where(self, name: str, task: Mapping[str, Any], other: str) -> tuple[Path, TextOffset | None]:
        """Where a task names another one."""
        for place, text, mode in self._texts(task):
            for named, column in self._analyze(mode, text, _has_elements(task)).tasks:
                if named == other:
                    return self._source.text(name, place, text), TextOffset(text, column)
        return self._source.task(name)[0], None

    def _texts(self, task: Mapping[str, Any]) -> Iterator[tuple[Path, str, TextMode]]:
        condition = condition_of(task)
        if condition:
            yield ("if" if "if" in task else "condition",), condition, "condition"
        for place, text in templates_of(task):
            if place[0] in ARRAYS:
                yield place, text, "map"
            else:
                yield place, text, run_text_mode(task, self._defaults) if place == ("run",) else "text"

    def _value(self, path: Path, value: Any, mode: TextMode) -> None:
        for place, text in templates_in(value):
            analysis = self._analyze(mode, text, False)
            for error in analysis.errors:
                self._report((*path, *place), text, error)
            if analysis.outcome is not None:
                self._report((*path, *place), text, _not_concluded(*analysis.outcome))

    def check_outcomes(self, final: Mapping[str, bool]) -> None:
        """How a run has ended is known to its handlers only."""
        for task, (place, text, name, column) in self.outcome_readers.items():
            if not final[task]:
                self._report(self._source.text(task, place, text), text, _not_concluded(name, column))

    def _report(self, path: Path, text: str, error: ExpressionError) -> None:
        self._collector.problem_at(path, error.message, error.fix, offset=TextOffset(text, error.column or 1))

    def _analyze(self, mode: TextMode, text: str, mapped: bool) -> TextAnalysis:
        key = (mode, text, mapped)
        analysis = self._analyses.get(key)
        if analysis is None:
            analysis = self._analyses[key] = self._analyze_text(mode, text, mapped)
        return analysis

    def _analyze_text(self, mode: TextMode, text: str, mapped: bool) -> TextAnalysis:
        try:
            expressions = _expressions(mode, text)
        except ExpressionError as error:
            return TextAnalysis((error,), ())
        errors = [error for expression in expressions for error in self._name_errors(expression, mode, mapped)]
        tasks: dict[str, int] = {}
        for expression in expressions:
            for reference in expression.references:
                if reference.path[0] in ("tasks", "parent") and len(reference.path) > 1:
                    tasks.setdefault(reference.path[1], reference.key_columns[0])
        errors.sort(key=lambda error: error.column or 0)
        if mode != "shared" and not errors:
            self.references[(mode, text)] = text_references(
                r for expression in expressions for r in expression.references
            )
        return TextAnalysis(tuple(errors), () if mode == "shared" else tuple(tasks.items()), _outcome_in(expressions))

    def _name_errors(self, expression: Expression, mode: TextMode, mapped: bool) -> list[ExpressionError]:
        has_item = mapped and mode not in _BEFORE_ELEMENTS
        scope = Scope(
            tasks=None if mode == "shared" else self._tasks,
            inputs=self._inputs or None,
            item=has_item,
            index=has_item,
        )
        out: list[ExpressionError] = []
        for error in check(expression, scope):
            if mapped and not has_item and error.message.startswith(("'item'", "'index'")):
                error = ExpressionError(error.message, error.column, _BEFORE_ELEMENTS[mode])
            out.append(error)
        for reference in expression.references:
            root, column = reference.path[0], reference.column
            if mode == "shared" and root in ("tasks", "parent"):
                fix = "set it in the tasks that need it"
                out.append(ExpressionError("a value for all tasks cannot name one of them", column, fix))
            elif len(reference.path) < 2:
                continue
            elif root == "run" and reference.path[1] not in RUN_FIELDS:
                message = f"'run' has no {quoted(reference.path[1])}"
                out.append(ExpressionError(message, reference.key_columns[0], f"it has {', '.join(RUN_FIELDS)}"))
            elif root == "inputs" and self._inputs == {}:
                name = reference.path[1]
                message = f"there is no input {quoted(name)}: the workflow declares no inputs"
                out.append(
                    ExpressionError(message, reference.key_columns[0], f"declare it: inputs: {{{name[:64]}: string}}")
                )
        return out


def _outcome_in(expressions: tuple[Expression, ...]) -> tuple[str, int] | None:
    """(name, column) of the first member of `run` that only handlers have."""
    for expression in expressions:
        for reference in expression.references:
            if reference.path[0] == "run" and reference.path[1:2] in OUTCOME_PATHS:
                return reference.path[1], reference.key_columns[0]
    return None


def _not_concluded(name: str, column: int) -> ExpressionError:
    fix = "read it in a handler of the run: a task with when: on_failure or always, and without needs"
    return ExpressionError(f"run.{name} is known only when all other tasks have ended", column, fix)


def _has_elements(task: Mapping[str, Any]) -> bool:
    return "map" in task or "matrix" in task or "replicas" in task


def _expressions(mode: TextMode, text: str) -> tuple[Expression, ...]:
    if mode == "condition":
        return (_condition(text),)
    if mode == "sh" or mode == "bash":
        return tuple(expression for _, expression in compile_shell(text, mode).values)
    if mode == "foreign" and has_expression(text):
        raise ExpressionError(
            "the quoting rules of this shell are not known, so no value can be inserted into its text",
            _first_opening(text) + 1,
            'set it in env, e.g. env: {VALUE: "${{ … }}"}, and read $VALUE in the command',
        )
    return parse_template(text).expressions


def _condition(text: str) -> Expression:
    try:
        return parse_condition(text)
    except ExpressionError:
        if not has_expression(text) or text.lstrip().startswith(OPENING):
            raise
    raise ExpressionError(
        "the text before ${{ would make this condition a string",
        len(text) - len(text.lstrip()) + 1,
        "put the whole condition inside ${{ … }}, or leave ${{ and }} out",
    )


def _first_opening(text: str) -> int:
    """The first ${{ that is not $${{."""
    at = text.find(OPENING)
    while text[at - 1 : at] == "$":
        at = text.find(OPENING, at + len(OPENING))
    return at
