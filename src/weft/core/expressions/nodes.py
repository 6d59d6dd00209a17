"""The syntax tree of an expression.

`column` counts from 1 and points at what an error about the node should underline. `height` is kept while the
tree is built, so that the bound on depth needs no second walk.
"""

from typing import Any

import msgspec


class Literal(msgspec.Struct, frozen=True, eq=False):
    value: Any  # a JSON scalar, or UNDEFINED
    column: int
    height: int = 1


class Name(msgspec.Struct, frozen=True, eq=False):
    name: str
    column: int
    height: int = 1


class Array(msgspec.Struct, frozen=True, eq=False):
    items: tuple["Node", ...]
    column: int
    height: int


class Unary(msgspec.Struct, frozen=True, eq=False):
    op: str
    operand: "Node"
    column: int
    height: int


class Binary(msgspec.Struct, frozen=True, eq=False):
    """Both sides are always evaluated."""

    op: str
    left: "Node"
    right: "Node"
    column: int
    height: int


class Logical(msgspec.Struct, frozen=True, eq=False):
    """`&&`, `||`, `??`: the right side only when the left does not settle it."""

    op: str
    left: "Node"
    right: "Node"
    column: int
    height: int


class Choice(msgspec.Struct, frozen=True, eq=False):
    test: "Node"
    then: "Node"
    otherwise: "Node"
    column: int
    height: int


class Member(msgspec.Struct, frozen=True, eq=False):
    """`object.key`, or `object['key']` with the key written out."""

    object: "Node"
    key: str
    optional: bool
    column: int  # of the key
    height: int


class Index(msgspec.Struct, frozen=True, eq=False):
    """`object[key]` with a key that has to be worked out."""

    object: "Node"
    key: "Node"
    optional: bool
    column: int
    height: int


class Call(msgspec.Struct, frozen=True, eq=False):
    object: "Node"
    method: str
    arguments: tuple["Node", ...]
    optional: bool
    column: int  # of the method's name
    height: int


class Chain(msgspec.Struct, frozen=True, eq=False):
    """Where a short-circuit by `?.` ends: the whole of `a?.b.c` is undefined when `a` is null."""

    node: "Node"
    column: int
    height: int


Node = Literal | Name | Array | Unary | Binary | Logical | Choice | Member | Index | Call | Chain


def children(node: Node) -> tuple[Node, ...]:
    """The parts of a node, in the order in which they stand in the source."""
    match node:
        case Array():
            return node.items
        case Unary():
            return (node.operand,)
        case Binary() | Logical():
            return (node.left, node.right)
        case Choice():
            return (node.test, node.then, node.otherwise)
        case Member():
            return (node.object,)
        case Index():
            return (node.object, node.key)
        case Call():
            return (node.object, *node.arguments)
        case Chain():
            return (node.node,)
    return ()
