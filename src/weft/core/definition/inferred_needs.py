"""Which tasks the expressions of a definition name: from this `needs` are inferred, and results are loaded.

What is asked here is asked of texts that have been checked; a text that does not parse names nothing.

Needs that nobody wrote down: a task named in an expression is waited for.

A task reaches all its ancestors, so a name that lies behind what the task says it needs adds nothing: `report`, which
needs a handler that runs in any case, may read the task which that handler handles without being skipped with it.
Ancestors are counted over everything written or named; that makes the answer independent of any order.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, Literal, NamedTuple

from weft.core.definition.problems import Path
from weft.core.expressions import (
    ExpressionError,
    Reference,
    compile_shell,
    parse_condition,
    parse_template,
    templates_in,
)
from weft.core.graph import Edges, levels_of, successors_of

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


#: Targets followed through the graph in one pass, one bit each. With more, the bits of 100,000 tasks take memory;
#: with fewer, a definition where all tasks name far ancestors takes more passes.
_BITS: Final = 2048


class Names(NamedTuple):
    """The tasks that expressions name, each once."""

    condition: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()  # of those, the ones whose end the condition asks about
    templates: tuple[str, ...] = ()  # of run, argv, env, cwd, with and cache, or of wait
    map: tuple[str, ...] = ()
    context: bool = False  # a template that the node resolves reads the context
    map_context: bool = False  # so does `map`


_NO_NAMES: Final = Names()


class Mentioned(NamedTuple):
    """What one text names."""

    tasks: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()  # of those, the ones whose end it asks about
    context: bool = False


_NOTHING: Final = Mentioned()

#: What texts name, by how they are read (condition, map, text, the shell) and the text. Filled by the check of a
#: definition and used by the compiler right after it: parsing each text twice would take most of a load.
Mentions = dict[tuple[str, str], Mentioned]


def mentioned(references: Iterable[Reference]) -> Mentioned:
    tasks: dict[str, None] = {}
    asked: dict[str, None] = {}
    context = False
    for reference in references:
        path = reference.path
        if path[0] in CONTEXT_ROOTS:
            context = True
        elif len(path) > 1 and path[0] in ("tasks", "parent"):
            tasks[path[1]] = None
            if len(path) > 2 and path[2] in STATE_MEMBERS:
                asked[path[1]] = None
    return Mentioned(tuple(tasks), tuple(asked), context)


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


def task_names(task: Mapping[str, Any], defaults: Mapping[str, Any], known: Mentions) -> Names:
    """What a canonical task names. It is called for each of 100,000 tasks, most of which name nothing."""
    condition = condition_of(task)
    found = _look(known, "condition", condition) if condition else _NOTHING
    templates: dict[str, None] = {}
    mapped: dict[str, None] = {}
    context = map_context = False
    for path, text in templates_of(task):
        if path[0] == "map":
            here = _look(known, "map", text)
            mapped.update(dict.fromkeys(here.tasks))
            map_context = map_context or here.context
            continue
        here = _look(known, way_of_run(task, defaults) if path == ("run",) else "text", text)
        templates.update(dict.fromkeys(here.tasks))
        context = context or (path[0] not in OF_RULES and here.context)
    if found is _NOTHING and not templates and not mapped and not context and not map_context:
        return _NO_NAMES
    return Names(found.tasks, found.asked, tuple(templates), tuple(mapped), context, map_context)


def way_of_run(task: Mapping[str, Any], defaults: Mapping[str, Any]) -> Literal["sh", "bash", "foreign"]:
    """How the text of `run` is read. `foreign`: by a shell whose quoting nobody here knows."""
    shell = shell_of(task, defaults)
    return shell if shell in DIALECTS else "foreign"


def _look(known: Mentions, way: str, text: str) -> Mentioned:
    found = known.get((way, text))
    if found is None:
        found = known[(way, text)] = _mentioned_in(way, text)
    return found


def _mentioned_in(way: str, text: str) -> Mentioned:
    """In a shell's text only what the shell gets counts: ${{ … }} in a comment is part of the comment."""
    try:
        if way == "condition":
            return mentioned(parse_condition(text).references)
        if way in DIALECTS:
            return mentioned(compile_shell(text, "bash" if way == "bash" else "sh").references)
        return mentioned(parse_template(text).references)
    except ExpressionError:
        return _NOTHING


def value_names(value: Any) -> tuple[str, ...]:
    """The tasks named by the templates anywhere in a value: a workflow's `output`."""
    out: dict[str, None] = {}
    for _, text in templates_in(value):
        out.update(dict.fromkeys(_mentioned_in("text", text).tasks))
    return tuple(out)


def value_reads_context(value: Any) -> bool:
    """Whether a template anywhere in a value, outside of a shell's text, asks for the run's context."""
    return any(_mentioned_in("text", text).context for _, text in templates_in(value))


def names_element(text: str) -> bool:
    """Whether a template asks which element of a mapped task it is for. One that does not parse is told elsewhere."""
    try:
        return any(r.path[0] in ("item", "index") for r in parse_template(text).references)
    except ExpressionError:
        return True


def has_template(value: Any) -> bool:
    return next(templates_in(value), None) is not None


def complete_needs(said: Edges, named: Edges) -> list[tuple[int, ...]]:
    """Positions: what each task says it needs, then what it names and does not reach already, ascending."""
    extra = [_others(needs, names) if names else () for needs, names in zip(said, named, strict=True)]
    asked = [(pos, target) for pos, names in enumerate(extra) if said[pos] for target in names]
    if asked:
        reached = _reached(said, extra, asked)
        extra = [tuple(t for t in names if (pos, t) not in reached) for pos, names in enumerate(extra)]
    return [(*needs, *names) if names else tuple(needs) for needs, names in zip(said, extra, strict=True)]


def all_edges(said: Edges, named: Edges) -> list[Sequence[int]]:
    """Everything written or named: what cycles are looked for in."""
    return [(*needs, *_others(needs, names)) if names else needs for needs, names in zip(said, named, strict=True)]


def _others(needs: Sequence[int], names: Sequence[int]) -> tuple[int, ...]:
    known = dict.fromkeys(needs)
    return tuple(sorted(dict.fromkeys(pos for pos in names if pos not in known)))


def _reached(said: Edges, extra: Edges, asked: list[tuple[int, int]]) -> dict[tuple[int, int], None]:
    """Those (task, target) of which the target lies behind something that the task says it needs."""
    edges = [(*needs, *names) for needs, names in zip(said, extra, strict=True)]
    levels = levels_of(edges, successors_of(edges))
    order = sorted(range(len(edges)), key=levels.__getitem__)
    rank = [0] * len(order)
    for at, pos in enumerate(order):
        rank[pos] = at
    asked = sorted(asked, key=lambda pair: rank[pair[1]])
    out: dict[tuple[int, int], None] = {}
    start = 0
    while start < len(asked):
        bit: dict[int, int] = {}
        end = start
        while end < len(asked) and (asked[end][1] in bit or len(bit) < _BITS):
            bit.setdefault(asked[end][1], 1 << len(bit))
            end += 1
        behind = _behind(edges, order[rank[asked[start][1]] : max(rank[pos] for pos, _ in asked[start:end])], bit)
        reach: dict[int, int] = {}  # by task: one that names thousands and needs thousands is looked at once
        for pos, target in asked[start:end]:
            if pos not in reach:
                reach[pos] = reduce(or_, (behind.get(need, 0) for need in said[pos]))
            if reach[pos] & bit[target]:
                out[(pos, target)] = None
        start = end
    return out


def _behind(edges: Edges, order: list[int], bit: dict[int, int]) -> dict[int, int]:
    """For each position, the bits of the targets that it is or that lie behind it. `order` has needs first."""
    out: dict[int, int] = {}
    for pos in order:
        mask = bit.get(pos, 0)
        for need in edges[pos]:
            mask |= out.get(need, 0)
        if mask:
            out[pos] = mask
    return out
