"""Which tasks the expressions of a definition name, and the needs inferred from that.

The texts have been checked before; a text that does not parse names nothing.

A task waits for every task that its expressions name. It waits for all of its ancestors anyway, so a name among the
ancestors of its declared needs adds nothing: `report`, which needs a handler that runs in any case, may read the task
which that handler handles without being skipped with it. Ancestors are those over declared and named edges together,
which makes the result independent of any order.
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

#: The start of an expression in a text.
OPENING: Final = "${{"
#: The keys of a task, beside its condition, that may contain ${{ … }}.
TEMPLATED: Final = frozenset(
    ("run", "argv", "env", "env_file", "cwd", "with", "map", "matrix", "label", "wait", "cache", "container",
     "kubernetes", "http", "cloud_run", "agent", "spec", "python",
     "artifacts")
)  # fmt: skip
#: Of those, the keys that the rules resolve; the node that runs the attempt resolves the others.
RESOLVED_BY_RULES: Final = frozenset(("map", "matrix", "label", "wait"))
#: Of those, what is worked out before there are elements.
ARRAYS: Final = ("map", "matrix")
#: Tasks with one of these, and without needs, are handlers of the whole run.
HANDLERS: Final = ("on_failure", "always")
#: Names that read the run's context.
CONTEXT_ROOTS: Final = ("context", "workflow")
#: A condition that reads one of these accepts the need in whatever state it ended.
#: What `run` has in handlers of the run only.
OUTCOME_FIELDS: Final = ("state", "reason", "failed")
OUTCOME_PATHS: Final = tuple((field,) for field in OUTCOME_FIELDS)
STATE_MEMBERS: Final = frozenset(("state", "exitCode", "error", "result"))
#: The shells into whose text values can be inserted safely; others get values only through `env`.
DIALECTS: Final = ("sh", "bash")


#: Targets followed through the graph in one pass, one bit each. With more, the bits of 100,000 tasks take memory;
#: with fewer, a definition where all tasks name far ancestors takes more passes.
_BITS: Final = 2048


class TaskReferences(NamedTuple):
    """The tasks that the expressions of a task name, each once."""

    condition: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()  # of those, the tasks whose end the condition reads
    templates: tuple[str, ...] = ()  # of `wait`, or of all the others of TEMPLATED
    map: tuple[str, ...] = ()  # of `map` or `matrix`, and of `label`
    context: bool = False  # a template that the node resolves reads the context
    map_context: bool = False  # so does `map`
    outcome: bool = False  # one of its texts reads how the run has ended
    templated: bool = False  # the node must resolve templates. $${{ counts too: it becomes ${{


NO_REFERENCES: Final = TaskReferences()


class TextReferences(NamedTuple):
    """The tasks that one text names."""

    tasks: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()  # of those, the tasks whose end it reads
    context: bool = False
    outcome: bool = False


_NOTHING: Final = TextReferences()

#: The references of texts, by mode (condition, map, text, the shell) and text. The checker fills it, and the compiler
#: uses it right after: to parse each text twice would take most of the time of a load.
ReferencesByText = dict[tuple[str, str], TextReferences]


def text_references(references: Iterable[Reference]) -> TextReferences:
    tasks: dict[str, None] = {}
    ends: dict[str, None] = {}
    context = outcome = False
    for reference in references:
        path = reference.path
        if path[0] in CONTEXT_ROOTS:
            context = True
        elif path[0] == "run":
            outcome = outcome or path[1:2] in OUTCOME_PATHS
        elif len(path) > 1 and path[0] in ("tasks", "parent"):
            tasks[path[1]] = None
            if len(path) > 2 and path[2] in STATE_MEMBERS:
                ends[path[1]] = None
    return TextReferences(tuple(tasks), tuple(ends), context, outcome)


def condition_of(task: Mapping[str, Any]) -> str | None:
    return task.get("if") or task.get("condition")


def shell_of(task: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
    return task.get("shell") or defaults.get("shell") or "sh"


def templates_of(task: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The texts of a canonical task that contain ${{, each with its path in the task."""
    for key, value in task.items():
        if key not in TEMPLATED:
            continue
        if type(value) is str:
            if OPENING in value:
                yield (key,), value
        else:
            for path, text in templates_in(value):
                yield (key, *path), text


def task_references(task: Mapping[str, Any], defaults: Mapping[str, Any], known: ReferencesByText) -> TaskReferences:
    """The references of a canonical task. Called for each of 100,000 tasks, most of which name nothing."""
    condition = condition_of(task)
    of_condition = _references_in(known, "condition", condition) if condition else _NOTHING
    templates: dict[str, None] = {}
    mapped: dict[str, None] = {}
    context = map_context = templated = False
    outcome = of_condition.outcome
    for path, text in templates_of(task):
        if path[0] in ARRAYS or path[0] == "label":
            references = _references_in(known, "text" if path[0] == "label" else "map", text)
            mapped.update(dict.fromkeys(references.tasks))
            # What is not known when an element starts is stored when its map opens.
            map_context = map_context or (path[0] in ARRAYS and (references.context or references.outcome))
            outcome = outcome or references.outcome
            continue
        references = _references_in(known, run_text_mode(task, defaults) if path == ("run",) else "text", text)
        templates.update(dict.fromkeys(references.tasks))
        if path[0] not in RESOLVED_BY_RULES:
            templated = True
            context = context or references.context
        outcome = outcome or references.outcome
    if of_condition is _NOTHING and not (templates or mapped or map_context or outcome or templated):
        return NO_REFERENCES
    return TaskReferences(
        of_condition.tasks,
        of_condition.ends,
        tuple(templates),
        tuple(mapped),
        context,
        map_context,
        outcome,
        templated,
    )


def run_text_mode(task: Mapping[str, Any], defaults: Mapping[str, Any]) -> Literal["sh", "bash", "foreign"]:
    """How the text of `run` is parsed. `foreign`: for a shell whose quoting is not known."""
    shell = shell_of(task, defaults)
    return shell if shell in DIALECTS else "foreign"


def _references_in(known: ReferencesByText, mode: str, text: str) -> TextReferences:
    references = known.get((mode, text))
    if references is None:
        references = known[(mode, text)] = _parse_references(mode, text)
    return references


def _parse_references(mode: str, text: str) -> TextReferences:
    """In the text of a shell only what the shell evaluates counts: ${{ … }} in a comment is part of the comment."""
    try:
        if mode == "condition":
            return text_references(parse_condition(text).references)
        if mode in DIALECTS:
            return text_references(compile_shell(text, "bash" if mode == "bash" else "sh").references)
        return text_references(parse_template(text).references)
    except ExpressionError:
        return _NOTHING


def tasks_in_value(value: Any) -> tuple[str, ...]:
    """The tasks that templates anywhere in a value name: in the `output` of a workflow."""
    out: dict[str, None] = {}
    for _, text in templates_in(value):
        out.update(dict.fromkeys(_parse_references("text", text).tasks))
    return tuple(out)


def value_reads_context(value: Any) -> bool:
    """Whether a template anywhere in a value, outside the text of a shell, reads the run's context."""
    return any(_parse_references("text", text).context for _, text in templates_in(value))


def uses_element(text: str) -> bool:
    """Whether a template reads `item` or `index`. True if it does not parse, which is reported elsewhere."""
    try:
        return any(r.path[0] in ("item", "index") for r in parse_template(text).references)
    except ExpressionError:
        return True


def has_template(value: Any) -> bool:
    return next(templates_in(value), None) is not None


def complete_needs(declared: Edges, referenced: Edges) -> list[tuple[int, ...]]:
    """Positions: the declared needs of each task, then the tasks it names and does not reach already, ascending."""
    extra = [_others(needs, names) if names else () for needs, names in zip(declared, referenced, strict=True)]
    pairs = [(pos, target) for pos, names in enumerate(extra) if declared[pos] for target in names]
    if pairs:
        reached = _reached(declared, extra, pairs)
        extra = [tuple(t for t in names if (pos, t) not in reached) for pos, names in enumerate(extra)]
    return [(*needs, *names) if names else tuple(needs) for needs, names in zip(declared, extra, strict=True)]


def final_tasks(tasks: Sequence[Mapping[str, Any]], declared: Edges, named: Edges) -> list[bool]:
    """By position: handlers of the whole run (without needs of their own), and what follows them."""
    out = [task.get("when") in HANDLERS and not needs for task, needs in zip(tasks, declared, strict=True)]
    if not any(out):
        return out
    edges = all_edges(declared, named)
    successors = successors_of(edges)
    levels = levels_of(edges, successors)
    for pos in sorted(range(len(out)), key=levels.__getitem__):
        if out[pos]:
            for after in successors[pos]:
                out[after] = True
    return out


def without_main_tasks(tasks: Sequence[Mapping[str, Any]], declared: Edges, named: Edges) -> Edges:
    """The tasks that expressions name, without those that a handler of the run comes after anyway: it waits for all
    tasks that are no handlers, and so does what needs such a handler. Naming one adds no need."""
    final = final_tasks(tasks, declared, named)
    if not any(final):
        return named
    return [
        [other for other in others if final[other]]
        if others and (any(final[need] for need in needs) or (not needs and task.get("when") in HANDLERS))
        else others
        for task, needs, others in zip(tasks, declared, named, strict=True)
    ]


def all_edges(declared: Edges, referenced: Edges) -> list[Sequence[int]]:
    """All declared and inferred edges, without reduction: the graph in which cycles are searched."""
    return [
        (*needs, *_others(needs, names)) if names else needs
        for needs, names in zip(declared, referenced, strict=True)
    ]


def _others(needs: Sequence[int], names: Sequence[int]) -> tuple[int, ...]:
    known = dict.fromkeys(needs)
    return tuple(sorted(dict.fromkeys(pos for pos in names if pos not in known)))


def _reached(declared: Edges, extra: Edges, pairs: list[tuple[int, int]]) -> dict[tuple[int, int], None]:
    """The pairs (task, target) whose target is an ancestor of a declared need of the task."""
    edges = [(*needs, *names) for needs, names in zip(declared, extra, strict=True)]
    levels = levels_of(edges, successors_of(edges))
    order = sorted(range(len(edges)), key=levels.__getitem__)
    rank = [0] * len(order)
    for at, pos in enumerate(order):
        rank[pos] = at
    pairs = sorted(pairs, key=lambda pair: rank[pair[1]])
    out: dict[tuple[int, int], None] = {}
    start = 0
    while start < len(pairs):
        bit: dict[int, int] = {}
        end = start
        while end < len(pairs) and (pairs[end][1] in bit or len(bit) < _BITS):
            bit.setdefault(pairs[end][1], 1 << len(bit))
            end += 1
        last = max(rank[pos] for pos, _ in pairs[start:end])
        ancestors = _ancestor_bits(edges, order[rank[pairs[start][1]] : last], bit)
        reach: dict[int, int] = {}  # by task: one that names thousands and needs thousands is computed once
        for pos, target in pairs[start:end]:
            if pos not in reach:
                reach[pos] = reduce(or_, (ancestors.get(need, 0) for need in declared[pos]))
            if reach[pos] & bit[target]:
                out[(pos, target)] = None
        start = end
    return out


def _ancestor_bits(edges: Edges, order: list[int], bit: dict[int, int]) -> dict[int, int]:
    """For each position, the bits of the targets among itself and its ancestors. `order` has needs first."""
    out: dict[int, int] = {}
    for pos in order:
        mask = bit.get(pos, 0)
        for need in edges[pos]:
            mask |= out.get(need, 0)
        if mask:
            out[pos] = mask
    return out
