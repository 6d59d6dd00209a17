"""A shell script with `${{ }}` in it, made safe: values travel in the environment, the text only names them."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

from weft.core.expressions.errors import ExpressionError
from weft.core.expressions.expression import Expression
from weft.core.expressions.references import Reference
from weft.core.expressions.shell.scan import Scanner
from weft.core.expressions.templates import OPENING, merged_references, value_text

#: A single environment string of 128 KiB is refused by Linux; this leaves room for its name.
VALUE_BYTES_MAX: Final = 96 * 1024

Dialect = Literal["sh", "bash"]


class ShellText:
    """What the shell gets, and which variables must hold what."""

    def __init__(self, text: str, values: tuple[tuple[str, Expression], ...]) -> None:
        self.text = text
        self.values = values

    @cached_property
    def references(self) -> tuple[Reference, ...]:
        return merged_references(tuple(expression for _, expression in self.values))

    def resolve(self, names: Mapping[str, Any]) -> dict[str, str]:
        """The variables: strings as they are, everything else as JSON."""
        return {
            variable: environment_text(expression.evaluate(names), expression) for variable, expression in self.values
        }


def environment_text(value: Any, expression: Expression) -> str:
    """A value as the text of an environment variable, or an error that says why it cannot be one."""
    text = value_text(value, expression)
    column = expression.node.column
    if "\0" in text:
        raise ExpressionError(
            "this value holds a NUL character, which no environment can carry",
            column,
            "pass it through a file",
        )
    size = len(text) if text.isascii() else len(text.encode())
    if size > VALUE_BYTES_MAX:
        raise ExpressionError(
            f"this value has {size:,} bytes; at most {VALUE_BYTES_MAX:,} fit into the environment",
            column,
            "put it under `with`, and read it from the JSON file $WEFT_INPUT",
        )
    return text


def compile_shell(text: str, dialect: Dialect = "sh") -> ShellText:
    """Turns each `${{ }}` into a variable reference quoted for the place where it stands."""
    if OPENING not in text:
        return ShellText(text, ())
    return _compile(text, dialect)


@lru_cache(maxsize=512)
def _compile(text: str, dialect: Dialect) -> ShellText:
    scanner = Scanner(text, dialect)
    scanner.script()
    names = scanner.variables.values()
    return ShellText("".join(scanner.out), tuple(zip(names, scanner.expressions, strict=True)))
