"""What the guides tell people to type is understood: commands are parsed, definitions are loaded."""

import re
import shlex

import pytest

from tests.architecture.source import ROOT
from weft.authoring import load_text
from weft.cli.parser import make_parser

PAGES = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *(f"docs/guides/{p.name}" for p in (ROOT / "docs/guides").glob("*.md")),
]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (page, body)
        for page in sorted(PAGES)
        for kind, body in _BLOCK.findall((ROOT / page).read_text())
        if kind == language
    ]


COMMANDS = [
    (page, line[2:]) for page, body in blocks("console") for line in body.splitlines() if line.startswith("$ weft ")
]


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{page}: {line}" for page, line in COMMANDS])
def test_commands_are_understood(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    if "--" in words:
        words = words[: words.index("--")]
    arguments, unknown = make_parser().parse_known_args(words)
    assert arguments.command
    assert not unknown


DEFINITIONS = [(page, body) for page, body in blocks("yaml") if "tasks:" in body or body.startswith("- ")]


@pytest.mark.parametrize(("page", "body"), DEFINITIONS, ids=[f"{p}-{i}" for i, (p, _) in enumerate(DEFINITIONS)])
def test_definitions_are_loaded(page: str, body: str) -> None:
    assert load_text(body, "guide").workflow.tasks


def test_there_is_something_to_check() -> None:
    assert len(COMMANDS) > 20
    assert len(DEFINITIONS) > 4
