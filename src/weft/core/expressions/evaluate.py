"""The value of a syntax tree.

One function per kind of node, found in a table by exact type. There is nothing to loop over in this language, so
a tree of 256 nodes is the bound on operations, and steps are the bound on what a single one may cost.
"""

from collections.abc import Callable
from math import isinf
from typing import Any, Final

from weft.core.expressions import utf16
from weft.core.expressions.errors import ExpressionError, did_you_mean, listed
from weft.core.expressions.methods import METHODS
from weft.core.expressions.nodes import (
    Array,
    Binary,
    Call,
    Chain,
    Choice,
    Index,
    Literal,
    Logical,
    Member,
    Name,
    Node,
    Unary,
)
from weft.core.expressions.parser import DEPTH_MAX
from weft.core.expressions.values import (
    UNDEFINED,
    Elsewhere,
    Undefined,
    Work,
    added,
    calculated,
    compared,
    loosely_equal,
    number,
    strictly_equal,
    to_number,
    to_text,
    truthy,
    type_name,
)

#: Travels up a chain that `?.` has cut short, as far as its Chain node.
_CUT: Final = object()


def value_of(node: Node, work: Work) -> Any:
    """The value as JavaScript has it between operators: undefined, NaN and the infinities included."""
    work.steps -= 1
    return _BY_NODE[type(node)](node, work)


def _literal(node: Literal, work: Work) -> Any:
    return node.value


def _name(node: Name, work: Work) -> Any:
    try:
        return work.names[node.name]
    except KeyError:
        pass
    close = did_you_mean(node.name, work.names)
    fix = f"did you mean {close}?" if close else f"the names here are {listed(work.names)}"
    raise ExpressionError(f"{node.name!r} is not known here", node.column, fix)


def _array(node: Array, work: Work) -> list[Any]:
    items = [value_of(item, work) for item in node.items]
    for item in items:
        kind = type(item)
        if kind is float:
            work.loose = work.loose or item == 0 or item != item or isinf(item)
        elif kind is str:
            work.loose = work.loose or not utf16.is_whole(item)
        elif kind is Undefined:
            work.loose = True
    return items


def _unary(node: Unary, work: Work) -> Any:
    operand = value_of(node.operand, work)
    if node.op == "!":
        return not truthy(operand)
    work.at = node.column
    value = to_number(operand, work)
    return number(-value if node.op == "-" else value)


def _binary(node: Binary, work: Work) -> Any:
    left = value_of(node.left, work)
    right = value_of(node.right, work)
    work.at = node.column
    op = node.op
    if op == "===":
        return strictly_equal(left, right)
    if op == "!==":
        return not strictly_equal(left, right)
    if op == "+":
        return added(left, right, work)
    if op == "==":
        return loosely_equal(left, right, work)
    if op == "!=":
        return not loosely_equal(left, right, work)
    if op[0] in "<>":
        return compared(op, left, right, work)
    return calculated(op, left, right, work)


def _logical(node: Logical, work: Work) -> Any:
    left = value_of(node.left, work)
    if node.op == "&&":
        settled = not truthy(left)
    elif node.op == "||":
        settled = truthy(left)
    else:
        settled = left is not None and left is not UNDEFINED
    return left if settled else value_of(node.right, work)


def _choice(node: Choice, work: Work) -> Any:
    return value_of(node.then if truthy(value_of(node.test, work)) else node.otherwise, work)


def _chain(node: Chain, work: Work) -> Any:
    value = value_of(node.node, work)
    return UNDEFINED if value is _CUT else value


def _member(node: Member, work: Work) -> Any:
    target = value_of(node.object, work)
    if type(target) is dict:
        value = target.get(node.key, UNDEFINED)
        if value is UNDEFINED:
            work.missing = (node, target)
        elif type(value) is Elsewhere:
            raise value.refusal(node.column)
        return value
    if target is _CUT or (node.optional and (target is None or target is UNDEFINED)):
        return _CUT
    return _read(node, target, node.key, work)


def _index(node: Index, work: Work) -> Any:
    target = value_of(node.object, work)
    if target is _CUT or (node.optional and (target is None or target is UNDEFINED)):
        return _CUT
    key = value_of(node.key, work)
    if type(target) is list and type(key) is int:
        return target[key] if 0 <= key < len(target) else _absent(node, target, work)
    work.at = node.column
    return _read(node, target, to_text(key, work), work)


def _read(node: Member | Index, target: Any, key: str, work: Work) -> Any:
    kind = type(target)
    if kind is dict:
        value = target.get(key, UNDEFINED)
        if type(value) is Elsewhere:
            raise value.refusal(node.column)
        return _absent(node, target, work) if value is UNDEFINED else value
    if target is None or target is UNDEFINED:
        raise _nothing_to_read(node, target, repr(key), work)
    if kind is not list and kind is not str:
        work.at = node.column
        type_name(target)
        return _absent(node, target, work)
    if key == "length":
        if kind is list:
            return len(target)
        work.at = node.column
        work.spend_on(target)
        return utf16.length(target)
    if key in METHODS[kind]:
        raise ExpressionError(f"{key} is a method", node.column, f"call it: {key}(…)")
    # only the canonical form of a number is a position: '1', not '01' or '+1'
    if not (key.isascii() and key.isdigit() and len(key) < 16 and (key == "0" or key[0] != "0")):
        return _absent(node, target, work)
    position = int(key)
    if kind is list:
        return target[position] if position < len(target) else _absent(node, target, work)
    work.at = node.column
    work.spend_on(target)
    where = utf16.units(target)
    return utf16.from_units(where[position]) if position < len(where) else _absent(node, target, work)


def _absent(node: Member | Index, target: Any, work: Work) -> Any:
    work.missing = (node, target)
    return UNDEFINED


def _call(node: Call, work: Work) -> Any:
    target = value_of(node.object, work)
    if target is _CUT or (node.optional and (target is None or target is UNDEFINED)):
        return _CUT
    method = METHODS.get(type(target), _NO_METHODS).get(node.method)
    if method is None:
        if target is None or target is UNDEFINED:
            raise _nothing_to_read(node, target, f"{node.method}()", work)
        work.at = node.column
        raise ExpressionError(
            f"{node.method}() is not a method of {type_name(target)}", node.column, _method_fix(node.method)
        )
    arguments = [value_of(argument, work) for argument in node.arguments]
    work.at = node.column
    return method(target, arguments, work)


_NO_METHODS: Final[dict[str, Any]] = {}


def _method_fix(name: str) -> str:
    owners = [label for kind, label in ((str, "strings"), (list, "arrays")) if name in METHODS[kind]]
    return "only " + " and ".join(owners) + " have it"


def _nothing_to_read(node: Member | Index | Call, target: Any, what: str, work: Work) -> ExpressionError:
    explained = target is UNDEFINED and work.missing is not None and work.missing[0] is node.object
    why = missing_reason(work) if explained else None
    reason = f": {why[0]}" if why else ""
    fix = (why and why[1]) or "write ?. if it may be missing"
    return ExpressionError(
        f"cannot read {what} of {target if target is UNDEFINED else 'null'}{reason}", node.column, fix
    )


def path_text(node: Node) -> str:
    """How a member path reads in a message."""
    parts: list[str] = []
    while True:
        if isinstance(node, Member):
            parts.append(f".{node.key}" if node.key.isidentifier() else f"[{node.key!r}]")
            node = node.object
        elif isinstance(node, Index):
            parts.append("[…]")
            node = node.object
        elif isinstance(node, Chain):
            node = node.node
        else:
            break
    head = node.name if isinstance(node, Name) else "this value"
    return head + "".join(reversed(parts))


def missing_reason(work: Work) -> tuple[str, str | None] | None:
    """Why the last member read was undefined, with the keys that are there, and a fix."""
    if work.missing is None:
        return None
    node, target = work.missing
    owner = path_text(node.object)
    key = node.key if isinstance(node, Member) else None
    named = repr(key) if isinstance(key, str) else "such a key"
    if type(target) is dict:
        close = did_you_mean(key, target) if isinstance(key, str) else None
        return (
            f"{owner} has no {named}; it has {listed(target)}",
            f"did you mean {close!r}?" if close else None,
        )
    if type(target) is list:
        return f"{owner} has no {named}; it is an array of {len(target)}", None
    return f"{owner} has no {named}; it is {type_name(target)}", None


def require_json(value: Any, node: Node, work: Work) -> Any:
    """The value, if it may leave the expression."""
    kind = type(value)
    if kind is bool or kind is int or value is None:
        return value
    if kind is dict:
        if type(value.get("output")) is Elsewhere:  # a whole task
            raise value["output"].refusal(node.column)
        return value
    if kind is str:
        if not utf16.is_whole(value):
            raise ExpressionError("the result holds half of a surrogate pair, which is not text", node.column)
        return value
    if kind is float:
        if value != value or isinf(value):
            raise ExpressionError(f"the result is {to_text(value, work)}, which is not a JSON value", node.column)
        return 0 if value == 0 else number(value)
    if kind is Undefined:
        why = missing_reason(work)
        raise ExpressionError(
            "the result is undefined" + (f": {why[0]}" if why else ""),
            work.missing[0].column if work.missing else node.column,
            (why and why[1]) or "write ?? to give a default",
        )
    if kind is list:
        return _clean(value, node, work, 1) if work.loose else value
    type_name(value)
    return value


def _clean(items: list[Any], node: Node, work: Work, depth: int) -> list[Any]:
    """The array with -0 as 0, refused if it holds what JSON cannot. Rare: only when such a value was put in."""
    if depth > DEPTH_MAX:
        return items  # this deep are only arrays that came in, and those are JSON
    work.spend(len(items))
    found: list[Any] = []
    for item in items:
        if item is UNDEFINED:
            raise ExpressionError("an element of the result is undefined", node.column, "write ?? to give a default")
        if type(item) is list:
            item = _clean(item, node, work, depth + 1)
        found.append(require_json(item, node, work) if type(item) is not list else item)
    return found


_BY_NODE: Final[dict[type, Callable[[Any, Work], Any]]] = {
    Literal: _literal,
    Name: _name,
    Array: _array,
    Unary: _unary,
    Binary: _binary,
    Logical: _logical,
    Choice: _choice,
    Chain: _chain,
    Member: _member,
    Index: _index,
    Call: _call,
}
