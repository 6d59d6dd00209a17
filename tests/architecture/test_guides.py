"""What the guides tell people to type is understood: commands are parsed, definitions are loaded."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, modules
from weft import config as settings
from weft.authoring.load import load_file, load_text
from weft.cli.parser import make_parser

PAGES = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md") if p.parent.name not in ("adr", "reference")),
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
    words = words[: words.index(">")] if ">" in words else words
    if "--" in words:
        words = words[: words.index("--")]
    arguments, unknown = make_parser().parse_known_args(words)
    assert arguments.command
    assert not unknown


DEFINITIONS = [(page, body) for page, body in blocks("yaml") if "tasks:" in body or body.startswith("- ")]


@pytest.mark.parametrize(("page", "body"), DEFINITIONS, ids=[f"{p}-{i}" for i, (p, _) in enumerate(DEFINITIONS)])
def test_definitions_are_loaded(page: str, body: str) -> None:
    assert load_text(body, "guide").workflow.tasks


TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
_FILE = re.compile(r"# ([\w-]+\.(?:yaml|py|toml))\b")


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_files_of_a_tutorial_fit_together(page: Path, tmp_path: Path) -> None:
    """Blocks that begin with a file's name are that file: functions take what definitions give them."""
    named: dict[str, str] = {}
    for kind, body in _BLOCK.findall(page.read_text()):
        found = _FILE.match(body)
        if kind in ("yaml", "python", "toml") and found is not None:
            assert found[1] not in named, f"{found[1]} is there twice"
            named[found[1]] = body
        if kind == "python":
            compile(body, f"{page.name}: {body.splitlines()[0]}", "exec")
    for name, body in named.items():
        (tmp_path / name).write_text(body)
    settings.load({}, tmp_path, {})  # reads weft.toml, if there is one
    definitions = [name for name in named if name.endswith(".yaml")]
    assert definitions
    assert all(load_file(tmp_path / name).workflow.tasks for name in definitions)


def test_there_is_something_to_check() -> None:
    assert len(TUTORIALS) >= 3
    assert len(COMMANDS) > 20
    assert len(DEFINITIONS) > 4


def test_the_glossary_has_every_word_of_the_trade() -> None:
    """Those that CONTRIBUTING.md names, each once and in order within its part, and with a link to more."""
    text = (ROOT / "docs/glossary.md").read_text()
    entry_of = re.compile(r"^- \*\*(.+?)\*\* (.*?)(?=^- |\Z)", re.DOTALL | re.MULTILINE)
    parts = [entry_of.findall(part) for part in text.split("\n## ")[1:]]
    words = [word for part in parts for entry, _ in part for word in entry.split(", ")]
    named = re.search(r"words from the glossary:(.*?)\.", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert named is not None
    assert [word for word in re.split(r",\s+", named[1].strip()) if word not in words] == []
    assert len(words) == len(set(words)) > 60
    assert all(part == sorted(part) for part in parts)
    assert [entry for part in parts for entry, meaning in part if "](" not in meaning] == []


def texts_of_the_code() -> list[str]:
    """Every piece of text in the source: of an f-string, what stands between the values."""
    return [
        node.value
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_the_messages_that_are_explained_are_those_of_the_code() -> None:
    """`…` stands for a value, at which the text of an f-string is interrupted."""
    page = (ROOT / "docs/troubleshooting.md").read_text()
    quoted = [row[1] for row in re.finditer(r"^\| `([^`]+)` \|", page, re.MULTILINE)]
    assert len(quoted) > 60
    texts = texts_of_the_code()
    missing = [
        f"{message}: {piece!r}"
        for message in quoted
        for piece in re.split(r"\s*…\s*", message)
        if not any(piece in text for text in texts)
    ]
    assert not missing, "\n".join(missing)
    assert [message for message in quoted if max(map(len, message.split("…"))) < 10] == [], "that could be anything"


def test_the_index_lists_every_page() -> None:
    docs = ROOT / "docs"
    linked = re.findall(r"\]\(([^)#]+)\)", (docs / "README.md").read_text())
    pages = [str(path.relative_to(docs)) for path in docs.rglob("*.md") if path.name != "README.md"]
    assert sorted(page for page in pages if page not in linked) == []
