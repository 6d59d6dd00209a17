"""A parsed expression, and the two ways to ask it: for its value, or for its truth."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

from weft.core.expressions.errors import ExpressionError
from weft.core.expressions.evaluate import require_json, value_of
from weft.core.expressions.nodes import Node
from weft.core.expressions.parser import tree_of
from weft.core.expressions.references import Reference, all_references, references_of
from weft.core.expressions.values import Work


class Expression:
    """Immutable, and shared: the same source at the same place is parsed once."""

    def __init__(self, source: str, node: Node, origin: int = 0) -> None:
        self.source = source
        self.node = node
        self.origin = origin  # its offset in the text that its columns count in

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"

    @cached_property
    def references(self) -> tuple[Reference, ...]:
        """What it reads, in a total order."""
        return references_of(self.places)

    @cached_property
    def places(self) -> list[Reference]:
        """Every place where it reads something, in the order of the source."""
        return all_references(self.node)

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        """Its value, which is JSON; an ExpressionError says why there is none."""
        work = Work(names)
        try:
            return require_json(value_of(self.node, work), self.node, work)
        except ExpressionError as error:
            if error.column is None:
                error.column = work.at
            raise

    def truth(self, names: Mapping[str, Any]) -> bool:
        """As a condition: true, false, or an error. Only text has no truth; see docs/reference/expressions.md."""
        value = self.evaluate(names)
        if type(value) is str:
            raise ExpressionError(
                "a string is no condition",
                self.node.column,
                "compare it, for example with === or .includes('…')",
            )
        if type(value) is list or type(value) is dict:
            return True
        return bool(value)


@lru_cache(maxsize=2048)
def parse(source: str, origin: int = 0) -> Expression:
    """Parses one expression. `origin` is its offset when it stands inside a larger text."""
    return Expression(source, tree_of(source, origin), origin)
