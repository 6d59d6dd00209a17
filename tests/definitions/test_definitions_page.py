"""docs/reference/definitions.md against the table of fields: every key is there, with its shape and meaning, and its
examples load. After a change of the table run with WEFT_REWRITE=1 and read the difference.
"""

import os
import re
from pathlib import Path

import pytest

from weft.authoring.load import load_text
from weft.core.definition.inferred_needs import TEMPLATED
from weft.core.definition.problems import NO_EXPRESSION
from weft.mcp.definition_language import TABLES, table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "definitions.md"


def rewritten(page: str) -> str:
    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}\n{table(TABLES[match[2]])}\n<!-- end -->"

    return re.sub(r"(<!-- keys of: ([\w ]+) -->)\n.*?<!-- end -->", fill, page, flags=re.S)


def test_the_tables_are_those_of_the_program() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("WEFT_REWRITE"):
        PAGE.write_text(rewritten(page), encoding="utf-8")
    assert rewritten(page) == page
    assert re.findall(r"<!-- keys of: ([\w ]+) -->", page) == list(TABLES)


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S))
def test_the_examples_load(text: str) -> None:
    load_text(text)


def test_the_places_of_expressions_are_those_of_the_program() -> None:
    page = PAGE.read_text(encoding="utf-8")
    places = sorted(re.findall(r"`(\w+)`", page.partition("Expressions work in ")[2].partition(".")[0]))
    assert places == sorted({*TEMPLATED, "if", "output"})
    assert (
        sorted(re.findall(r"\w+", NO_EXPRESSION[1].removeprefix("expressions work in ").replace(" and", ",")))
        == places
    )
