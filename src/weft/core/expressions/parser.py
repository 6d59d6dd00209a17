"""Tokens to a syntax tree, by precedence climbing.

The bounds on size and depth are kept here, so that nothing after the parser has to fear its recursion.
"""

from typing import Final

from weft.core.expressions.errors import ExpressionError, did_you_mean
from weft.core.expressions.lexer import OPERATORS, Token, tokens_of
from weft.core.expressions.methods import ARITY
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
from weft.core.expressions.values import UNDEFINED, number_text

SOURCE_MAX: Final = 4096
NODES_MAX: Final = 256
DEPTH_MAX: Final = 48

_PRECEDENCE: Final[dict[object, int]] = {
    "||": 1, "??": 1,
    "&&": 2,
    "===": 3, "!==": 3, "==": 3, "!=": 3,
    "<": 4, "<=": 4, ">": 4, ">=": 4,
    "+": 5, "-": 5,
    "*": 6, "/": 6, "%": 6,
}  # fmt: skip

_CONSTANTS: Final[dict[object, object]] = {"true": True, "false": False, "null": None, "undefined": UNDEFINED}

#: Words that other languages, or JavaScript's larger self, would put here.
_WORDS: Final[dict[object, str]] = {
    "and": "write && for and",
    "or": "write || for or",
    "not": "write ! for not",
    "is": "write === to compare",
    "in": "use array.includes(value)",
    "instanceof": "values are JSON only",
    "typeof": "compare with === null or === undefined",
    "new": "values are JSON only",
    "void": "write undefined",
    "delete": "expressions change nothing",
    "function": "use the methods " + ", ".join(ARITY),
    "this": "use inputs, tasks, context, item, index or run",
    "if": "write condition ? a : b",
    "True": "write true",
    "False": "write false",
    "None": "write null",
}
_RESERVED: Final = frozenset(
    {
        "await",
        "async",
        "break",
        "case",
        "catch",
        "class",
        "const",
        "continue",
        "debugger",
        "default",
        "do",
        "else",
        "enum",
        "export",
        "extends",
        "finally",
        "for",
        "import",
        "let",
        "return",
        "super",
        "switch",
        "throw",
        "try",
        "var",
        "while",
        "with",
        "yield",
        "static",
        "arguments",
        "eval",
    }
)


def tree_of(source: str, origin: int = 0) -> Node:
    """The tree of one expression; `origin` is its offset in the text that columns count in."""
    if len(source) > SOURCE_MAX or len(source.encode("utf-8", "surrogatepass")) > SOURCE_MAX:
        raise ExpressionError(
            f"this expression is longer than {SOURCE_MAX} bytes", origin + 1, "do this work in a task"
        )
    return _Parser(tokens_of(source, origin), origin).whole()


class _Parser:
    __slots__ = ("at", "grouped", "nesting", "nodes", "origin", "tokens")

    def __init__(self, tokens: list[Token], origin: int) -> None:
        self.tokens = tokens
        self.origin = origin
        self.at = 0
        self.nodes = 0
        self.nesting = 0
        self.grouped: set[int] = set()  # ids of logical nodes that stand in parentheses of their own

    def whole(self) -> Node:
        if self.tokens[0][0] == "end":
            raise self.error("there is no expression here", self.tokens[0], "write one, such as inputs.day")
        node = self.expression()
        if self.tokens[self.at][0] != "end":
            raise self.unexpected(self.tokens[self.at])
        return node

    # -- what keeps the bounds ------------------------------------------------------------------------

    def column(self, token: Token) -> int:
        return self.origin + token[2] + 1

    def error(self, message: str, token: Token, fix: str) -> ExpressionError:
        return ExpressionError(message, self.column(token), fix)

    def height(self, column: int, *parts: Node) -> int:
        """The height of a node with these parts; counts the node."""
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise ExpressionError(
                f"this expression has more than {NODES_MAX} parts", column, "do this work in a task"
            )
        height = 1
        for part in parts:
            if part.height >= height:
                height = part.height + 1
        if height > DEPTH_MAX:
            raise self.too_deep(column)
        return height

    def too_deep(self, column: int) -> ExpressionError:
        return ExpressionError(f"this expression is nested deeper than {DEPTH_MAX}", column, "do this work in a task")

    def descend(self) -> None:
        self.nesting += 1
        if self.nesting > DEPTH_MAX:
            raise self.too_deep(self.column(self.tokens[self.at]))

    # -- the grammar ----------------------------------------------------------------------------------

    def expression(self) -> Node:
        self.descend()
        test = self.binary(1)
        token = self.tokens[self.at]
        if token[0] == "op" and token[1] == "?":
            self.at += 1
            then = self.expression()
            self.expect(":", "a ? needs a : with the other value")
            otherwise = self.expression()
            column = self.column(token)
            test = Choice(test, then, otherwise, column, self.height(column, test, then, otherwise))
        self.nesting -= 1
        return test

    def binary(self, lowest: int) -> Node:
        left = self.unary()
        while True:
            token = self.tokens[self.at]
            op = token[1]
            precedence = _PRECEDENCE.get(op, 0) if token[0] == "op" else 0
            if precedence < lowest or precedence == 0:
                return left
            self.at += 1
            right = self.binary(precedence + 1)
            column = self.column(token)
            height = self.height(column, left, right)
            if precedence <= 2:
                self.refuse_mixed(str(op), left, right, token)
                left = Logical(str(op), left, right, column, height)
            else:
                left = Binary(str(op), left, right, column, height)

    def refuse_mixed(self, op: str, left: Node, right: Node, token: Token) -> None:
        for side in (left, right):
            if not isinstance(side, Logical) or id(side) in self.grouped:
                continue
            if (op == "??") != (side.op == "??"):
                raise self.error(f"{side.op} and {op} cannot be mixed", token, "put parentheses around one of them")

    def unary(self) -> Node:
        token = self.tokens[self.at]
        if token[0] == "op" and token[1] in ("!", "-", "+"):
            self.at += 1
            self.descend()
            operand = self.unary()
            self.nesting -= 1
            column = self.column(token)
            return Unary(str(token[1]), operand, column, self.height(column, operand))
        return self.postfix()

    def postfix(self) -> Node:
        start = self.tokens[self.at]
        node = self.primary()
        optional_seen = False
        while True:
            token = self.tokens[self.at]
            if token[0] != "op":
                break
            optional = token[1] == "?."
            if token[1] == "[":
                node = self.index(node, False)
            elif optional and self.tokens[self.at + 1][1] == "[" and self.tokens[self.at + 1][0] == "op":
                self.at += 1
                node = self.index(node, True)
            elif optional or token[1] == ".":
                node = self.member(node, optional)
            elif token[1] == "(":
                raise self.error("this cannot be called", token, "the methods are " + ", ".join(ARITY))
            else:
                break
            optional_seen = optional_seen or optional
        if optional_seen:
            column = self.column(start)
            return Chain(node, column, self.height(column, node))
        return node

    def index(self, node: Node, optional: bool) -> Node:
        opening = self.tokens[self.at]
        self.at += 1
        key = self.expression()
        self.expect("]", "close it with ]")
        if isinstance(key, Literal) and type(key.value) in (str, int):
            text = key.value if isinstance(key.value, str) else number_text(key.value)
            # the literal was counted as a part already, the member is one more
            return Member(node, text, optional, key.column, self.height(key.column, node))
        column = self.column(opening)
        return Index(node, key, optional, column, self.height(column, node, key))

    def member(self, node: Node, optional: bool) -> Node:
        self.at += 1
        token = self.tokens[self.at]
        if token[0] != "name":
            if optional and token[1] == "(":
                raise self.error("?.( is not supported", token, "call a method as value?.method(…)")
            raise self.error("a name must follow the dot", token, "use ['…'] for a key that is not a plain name")
        self.at += 1
        column = self.column(token)
        key = str(token[1])
        following = self.tokens[self.at]
        if following[0] == "op" and following[1] == "(":
            return self.call(node, key, optional, token)
        return Member(node, key, optional, column, self.height(column, node))

    def call(self, node: Node, method: str, optional: bool, token: Token) -> Node:
        arity = ARITY.get(method)
        if arity is None:
            close = did_you_mean(method, ARITY)
            fix = f"did you mean {close}?" if close else "the methods are " + ", ".join(ARITY)
            raise self.error(f"there is no method {method!r}", token, fix)
        self.at += 1
        arguments = self.items(")", "close the arguments with )")
        fewest, most = arity
        if not fewest <= len(arguments) <= most:
            wanted = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            raise self.error(
                f"{method} takes {wanted} values, not {len(arguments)}", token, "see the list of methods"
            )
        column = self.column(token)
        return Call(node, method, arguments, optional, column, self.height(column, node, *arguments))

    def items(self, closing: str, fix: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while True:
            token = self.tokens[self.at]
            if token[0] == "op" and token[1] == closing:
                self.at += 1
                return tuple(found)
            if token[0] == "op" and token[1] == ",":
                raise self.error("a value is missing before this comma", token, "write null for an empty place")
            found.append(self.expression())
            token = self.tokens[self.at]
            if token[0] == "op" and token[1] == ",":
                self.at += 1
            elif token[0] != "op" or token[1] != closing:
                raise self.unexpected(token, fix)

    def primary(self) -> Node:
        token = self.tokens[self.at]
        kind, text, _ = token
        column = self.column(token)
        if kind == "string" or kind == "number":
            self.at += 1
            return Literal(text, column, self.height(column))
        if kind == "name":
            self.at += 1
            return self.named(token, column)
        if kind == "op" and text == "(":
            self.at += 1
            node = self.expression()
            self.expect(")", "close it with )")
            if isinstance(node, Logical):
                self.grouped.add(id(node))
            return node
        if kind == "op" and text == "[":
            self.at += 1
            items = self.items("]", "close the array with ]")
            return Array(items, column, self.height(column, *items))
        if kind == "op" and text == "/":
            raise self.error("regular expressions are not supported", token, "use includes, startsWith or endsWith")
        if kind == "end":
            raise self.error("the expression ends too early", token, "write the value that is missing")
        raise self.unexpected(token)

    def named(self, token: Token, column: int) -> Node:
        name = str(token[1])
        if name in _CONSTANTS:
            return Literal(_CONSTANTS[name], column, self.height(column))
        if name in _WORDS or name in _RESERVED:
            raise self.error(f"{name!r} is not supported", token, _WORDS.get(name, "an expression is one value"))
        following = self.tokens[self.at]
        if following[0] == "op" and following[1] == "(":
            raise self.error(
                f"there is no function {name!r}",
                token,
                "the methods are " + ", ".join(f".{m}()" for m in ARITY),
            )
        return Name(name, column, self.height(column))

    # -- complaints -----------------------------------------------------------------------------------

    def expect(self, text: str, fix: str) -> None:
        token = self.tokens[self.at]
        if token[0] != "op" or token[1] != text:
            raise self.unexpected(token, fix)
        self.at += 1

    def unexpected(self, token: Token, fix: str | None = None) -> ExpressionError:
        kind, text, _ = token
        if kind == "end":
            return self.error("the expression ends too early", token, fix or "write the value that is missing")
        if kind == "name" and text in _WORDS:
            return self.error(f"{text!r} is not an operator", token, _WORDS[text])
        shown = "a string" if kind == "string" else repr(text if kind != "number" else number_text(text))  # type: ignore[arg-type]
        return self.error(f"{shown} is not expected here", token, fix or f"the operators are {OPERATORS}")
