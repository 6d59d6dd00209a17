"""The reference page says what the code does."""

import json
import re
from pathlib import Path

import pytest

from weft.core.expressions import ExpressionError, Scope, compile_shell, parse
from weft.core.expressions.checking import TASK_FIELDS
from weft.core.expressions.lexer import OPERATORS
from weft.core.expressions.methods import ARITY
from weft.core.expressions.parser import DEPTH_MAX, NODES_MAX, SOURCE_MAX
from weft.core.expressions.shell.words import DECLARING, NAME_TAKING
from weft.core.expressions.values import STEPS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "expressions.md").read_text()
NAMES = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
EXAMPLES = re.findall(
    r"^\| `(.+?)` \| (?:`(.+?)`|error) \|$", PAGE.split("the following holds:")[1].split("##")[0], re.M
)
PLACES = re.findall(r"^\| [a-z ]+ \| `(.+?)` \| `(.+?)` \|$", PAGE.split("## In a shell script")[1], re.M)


@pytest.mark.parametrize(("source", "value"), EXAMPLES)
def test_the_examples_hold(source: str, value: str) -> None:
    if value:
        assert parse(source).evaluate(NAMES) == json.loads(value)
    else:
        with pytest.raises(ExpressionError):
            parse(source).evaluate(NAMES)


@pytest.mark.parametrize(("written", "text"), PLACES)
def test_the_shell_table_holds(written: str, text: str) -> None:
    assert compile_shell(written, "sh").text == text


def test_the_page_is_complete() -> None:
    assert len(EXAMPLES) == 17
    assert len(PLACES) == 3
    roots = Scope(item=True, index=True, trigger=True).roots
    for word in (*OPERATORS.split(), *ARITY, *roots, *sorted(DECLARING), *sorted(NAME_TAKING - {"readarray"})):
        assert f"`{word}`" in PAGE or f"`{word}." in PAGE, word
    for field in TASK_FIELDS:
        assert f".{field}`" in PAGE, field
    for bound in (f"{SOURCE_MAX:,} bytes", f"{NODES_MAX} parts", f"nesting of {DEPTH_MAX}", f"{STEPS:,} steps"):
        assert bound in PAGE, bound
