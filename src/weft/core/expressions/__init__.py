"""The expression language: JavaScript's expressions on JSON values, `${{ }}` in text, and values in shell scripts.

    parse("tasks.check.exitCode === 0").truth(names)          true, false, or an ExpressionError
    parse_template("day ${{ inputs.day }}").resolve(names)    text, or the value itself if it is one whole ${{ }}
    compile_shell("echo ${{ item }}", "sh")                   safe text, and the variables it needs

Everything is bounded by counts, never by time, so the same expression always ends the same way. The language is
described in docs/reference/expressions.md.
"""

from weft.core.expressions.checking import Scope, check
from weft.core.expressions.errors import ExpressionError, caret, place
from weft.core.expressions.expression import Expression, parse
from weft.core.expressions.references import Reference
from weft.core.expressions.shell.text import ShellText, compile_shell, environment_text
from weft.core.expressions.templates import (
    Template,
    parse_condition,
    parse_template,
    references_in,
    resolve_value,
    templates_in,
)
from weft.core.expressions.values import Elsewhere

__all__ = [
    "Elsewhere",
    "Expression",
    "ExpressionError",
    "Reference",
    "Scope",
    "ShellText",
    "Template",
    "caret",
    "check",
    "compile_shell",
    "environment_text",
    "parse",
    "parse_condition",
    "parse_template",
    "place",
    "references_in",
    "resolve_value",
    "templates_in",
]
