"""Which tasks the expressions of a definition name: from this `needs` are inferred, and results are loaded.

What is asked here is asked of texts that have been checked; a text that does not parse names nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from weft.core.expressions import (
    ExpressionError,
    Reference,
    compile_shell,
    parse_condition,
    parse_template,
    templates_in,
)
from weft.core.problems import Path

#: What opens an expression in text.
OPENING: Final = "${{"
#: Where ${{ … }} may stand in a task, beside its condition.
TEMPLATED: Final = frozenset(("run", "argv", "env", "cwd", "with", "map", "wait", "cache"))
#: Of those, what the rules resolve; the rest is resolved by the node that runs the attempt.
OF_RULES: Final = frozenset(("map", "wait"))
#: Whoever names one of these reads the run's context.
CONTEXT_ROOTS: Final = ("context", "workflow")
#: Asking for these means that the need is accepted whatever its end was.
STATE_MEMBERS: Final = frozenset(("state", "exitCode", "error", "result"))
#: The shells whose text can hold values safely; any other gets them through `env` only.
DIALECTS: Final = ("sh", "bash")


class Names(NamedTuple):
    """The tasks that expressions name, each once."""

    condition: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()  # of those, the ones whose end the condition asks about
    templates: tuple[str, ...] = ()  # of run, argv, env, cwd, with and cache, or of wait
    map: tuple[str, ...] = ()
    context: bool = False  # a template that the node resolves reads the context
    map_context: bool = False  # so does `map`


_NO_NAMES: Final = Names()


def condition_of(task: Mapping[str, Any]) -> str | None:
    return task.get("if") or task.get("condition")


def shell_of(task: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
    return task.get("shell") or defaults.get("shell") or "sh"


def templates_of(task: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The texts of a canonical task with ${{ in them, and where in the task they are."""
    for key, value in task.items():
        if key not in TEMPLATED:
            continue
        if type(value) is str:
            if OPENING in value:
                yield (key,), value
        else:
            for path, text in templates_in(value):
                yield (key, *path), text


def task_names(task: Mapping[str, Any], defaults: Mapping[str, Any]) -> Names:
    """What a canonical task names. It is called for each of 100,000 tasks, most of which name nothing."""
    condition = condition_of(task)
    found: tuple[Reference, ...] = ()
    if condition:
        found = _parsed(condition)
    templates: dict[str, None] = {}
    mapped: dict[str, None] = {}
    context = map_context = False
    for path, text in templates_of(task):
        references = _in_template(text, shell_of(task, defaults) if path == ("run",) else None)
        (mapped if path[0] == "map" else templates).update(dict.fromkeys(_named(references)))
        context = context or (path[0] not in OF_RULES and _reads_context(references))
        map_context = map_context or (path[0] == "map" and _reads_context(references))
    if not found and not templates and not mapped and not context and not map_context:
        return _NO_NAMES
    asked = [r for r in found if len(r.path) > 2 and r.path[2] in STATE_MEMBERS]
    return Names(tuple(_named(found)), tuple(_named(asked)), tuple(templates), tuple(mapped), context, map_context)


def value_names(value: Any) -> tuple[str, ...]:
    """The tasks named by the templates anywhere in a value: a workflow's `output`."""
    out: dict[str, None] = {}
    for _, text in templates_in(value):
        out.update(dict.fromkeys(_named(_in_template(text, None))))
    return tuple(out)


def value_reads_context(value: Any) -> bool:
    """Whether a template anywhere in a value, outside of a shell's text, asks for the run's context."""
    return any(_reads_context(_in_template(text, None)) for _, text in templates_in(value))


def names_element(text: str) -> bool:
    """Whether a template asks which element of a mapped task it is for. One that does not parse is told elsewhere."""
    try:
        return any(r.path[0] in ("item", "index") for r in parse_template(text).references)
    except ExpressionError:
        return True


def has_template(value: Any) -> bool:
    return next(templates_in(value), None) is not None


def _reads_context(references: tuple[Reference, ...]) -> bool:
    return any(reference.path[0] in CONTEXT_ROOTS for reference in references)


def _parsed(condition: str) -> tuple[Reference, ...]:
    try:
        return parse_condition(condition).references
    except ExpressionError:
        return ()


def _in_template(text: str, shell: Any) -> tuple[Reference, ...]:
    """In a shell's text only what the shell gets counts: ${{ … }} in a comment is part of the comment."""
    try:
        if shell in DIALECTS:
            return compile_shell(text, shell).references
        return parse_template(text).references
    except ExpressionError:
        return ()


def _named(references: Any) -> list[str]:
    named = [r.path[1] for r in references if len(r.path) > 1 and r.path[0] in ("tasks", "parent")]
    return list(dict.fromkeys(named))
