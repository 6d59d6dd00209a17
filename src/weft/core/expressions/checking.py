"""Names looked up before anything runs: is there such a task, such an input, an item here?"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from weft.core.expressions.errors import ExpressionError, did_you_mean, listed
from weft.core.expressions.expression import Expression
from weft.core.expressions.nodes import Array, Binary, Node, children
from weft.core.expressions.references import Reference

#: What `tasks.x` and `parent.x` have.
TASK_FIELDS: Final = ("error", "exitCode", "output", "result", "state", "stderr", "stdout")
_HYPHENED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)+")
_ABSENT_HERE: Final[Mapping[str, str]] = {
    "item": "it is there only in a task with map",
    "index": "it is there only in a task with map or replicas",
    "trigger": "it is there only in the inputs of a trigger",
    "secrets": "secrets reach a task as variables of its environment, never in expressions",
    "env": "write $NAME in the shell; expressions do not see the environment",
}


class Scope(msgspec.Struct, frozen=True):
    """What an expression may name at the place where it stands. None means: not known, so not checked."""

    tasks: Mapping[str, object] | None = None  # by name
    inputs: Mapping[str, object] | None = None  # by name
    item: bool = False
    index: bool = False
    trigger: bool = False
    task_fields: tuple[str, ...] = TASK_FIELDS

    @property
    def roots(self) -> tuple[str, ...]:
        here = (("item", self.item), ("index", self.index), ("trigger", self.trigger))
        extra = tuple(name for name, there in here if there)
        return ("context", "inputs", "parent", "run", "tasks", "workflow", *extra)


def check(expression: Expression, scope: Scope) -> list[ExpressionError]:
    """Everything that can be known to be wrong, in the order of the source."""
    found: list[ExpressionError] = []
    explained_until = 0  # 'tasks.a-b' reads as tasks.a minus b: one error for it, none for b
    for reference in expression.places:
        if reference.column < explained_until:
            continue
        hyphened = _hyphened(expression, reference, scope)
        if hyphened is not None:
            error, explained_until = hyphened
        else:
            error = _wrong(reference, scope)
        if error is not None:
            found.append(error)
    found.extend(_array_comparisons(expression.node))
    found.sort(key=lambda error: error.column or 0)
    return found


def _known_under(root: str, scope: Scope) -> Mapping[str, object] | None:
    if root in ("tasks", "parent"):
        return scope.tasks
    return scope.inputs if root == "inputs" else None


def _hyphened(
    expression: Expression, reference: Reference, scope: Scope
) -> tuple[ExpressionError | None, int] | None:
    """A name with a hyphen after a dot, taken from the source; the error and where that name ends."""
    known = _known_under(reference.path[0], scope)
    if known is None or len(reference.path) < 2:
        return None
    column = reference.key_columns[0]
    start = column - 1 - expression.origin
    match = _HYPHENED.match(expression.source, start)
    if match is None or expression.source[start - 1 : start] != ".":
        return None
    whole = match.group()
    name = whole
    while name not in known and "-" in name:
        name = name.rpartition("-")[0]
    if "-" not in name:
        if reference.path[1] in known:
            return None
        name = whole
    root = reference.path[0]
    kind = "input" if root == "inputs" else "task"
    close = name if name in known else did_you_mean(name, known)
    fix = f"write {root}[{(close or name)!r}]"
    message = f"{root}.{name} reads as {root}.{reference.path[1]} minus something: a hyphen needs brackets"
    if close is None:
        message = f"there is no {kind} {name!r}, and a hyphen needs brackets"
    return ExpressionError(message, column, fix), column + len(whole)


def _wrong(reference: Reference, scope: Scope) -> ExpressionError | None:
    root = reference.path[0]
    if root not in scope.roots:
        return _unknown_root(root, reference.column, scope)
    if root in ("tasks", "parent"):
        return _wrong_task(reference, scope)
    if root == "inputs" and len(reference.path) > 1 and scope.inputs is not None:
        return _unknown(reference, 1, "input", scope.inputs)
    if root == "workflow" and len(reference.path) > 1:
        return _unknown(reference, 1, "member of workflow", {"context": None})
    return None


def _wrong_task(reference: Reference, scope: Scope) -> ExpressionError | None:
    root = reference.path[0]
    if len(reference.path) == 1:
        return ExpressionError(
            "the name of the task must be written out, so that it can be waited for",
            reference.column,
            f"write {root}.name or {root}['name']",
        )
    if scope.tasks is not None:
        unknown = _unknown(reference, 1, "task", scope.tasks)
        if unknown is not None:
            return unknown
    if len(reference.path) > 2:
        return _unknown(reference, 2, "member of a task", dict.fromkeys(scope.task_fields))
    return None


def _unknown(reference: Reference, at: int, kind: str, known: Mapping[str, object]) -> ExpressionError | None:
    name = reference.path[at]
    if name in known:
        return None
    close = did_you_mean(name, known)
    fix = f"did you mean {close!r}?" if close else f"there are {listed(known)}"
    return ExpressionError(f"there is no {kind} {name!r}", reference.key_columns[at - 1], fix)


def _unknown_root(root: str, column: int, scope: Scope) -> ExpressionError:
    if root in _ABSENT_HERE:
        return ExpressionError(f"{root!r} is not known here", column, _ABSENT_HERE[root])
    for place, known in (("tasks", scope.tasks), ("inputs", scope.inputs)):
        if known is not None and root in known:
            return ExpressionError(f"{root!r} is not known here", column, f"did you mean {place}.{root}?")
    close = did_you_mean(root, scope.roots)
    fix = f"did you mean {close}?" if close else f"the names here are {', '.join(scope.roots)}"
    return ExpressionError(f"{root!r} is not known here", column, fix)


def _array_comparisons(root: Node) -> list[ExpressionError]:
    """`x === ['a']` is false whatever x is, as in JavaScript: surely not what was meant."""
    found: list[ExpressionError] = []
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        pending.extend(children(node))
        if isinstance(node, Binary) and node.op in ("===", "!==") and Array in (type(node.left), type(node.right)):
            found.append(
                ExpressionError(
                    f"{node.op} never finds an array equal to a new one",
                    node.column,
                    "compare .length, single elements, or .join(',')",
                )
            )
    return found
