"""Rules of taste that a machine can hold: sizes, names, words, and nothing of the machine it was written on."""

import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, SRC, modules, texts

LINES_MAX = 600
#: Names that say nothing, so everything ends up in them.
EMPTY_NAMES = ("utils", "util", "common", "helpers", "helper", "manager", "base", "misc")

#: Words that the glossary does not have, and where they are right all the same. `--step` is an option's name.
WORDS = re.compile(
    r"(?<![.\w])(?<!--)(jobs?|instances?|executions?|steps?|flow run|dag runs?|pods?)\b", re.IGNORECASE
)
ALLOWED_WORDS = {
    "src/weft/core/expressions": "an expression's bound is counted in steps of evaluation",
    "src/weft/core/definition/field_types/foreign_keys.py": "the words of other tools",
    "src/weft/core/definition/field_types/remote_fields.py": "what Kubernetes runs has these names",
    "src/weft/core/definition/field_types/service_fields.py": "the words of Cloud Run",
    "src/weft/core/definition/fields.py": "the words of Cloud Run",
    "docs/reference/definitions.md": "`pod` and `k8s_job` are keys and types of definitions",
    "src/weft/store/sqlite/clock.py": "a clock makes a step",
    "src/weft/cli/parser.py": "first steps",
    "src/weft/executors/kubernetes": "the words of Kubernetes",
    "src/weft/executors/cloud_run": "the words of Cloud Run",
    "docs/guides/cloud-run.md": "the words of Cloud Run",
    "examples/cloud-run.yaml": "the words of Cloud Run",
    "docs/guides/kubernetes.md": "the words of Kubernetes",
    "docs/README.md": "a Job of Kubernetes",
    "examples/kubernetes.yaml": "a Job of Kubernetes",
    "docs/reference/expressions.md": "an expression's bound is counted in steps of evaluation",
}


def test_no_file_is_too_long() -> None:
    long = {module.name: len(module.path.read_text().splitlines()) for module in modules()}
    assert {name: lines for name, lines in long.items() if lines > LINES_MAX} == {}


def test_modules_are_named_for_what_they_are() -> None:
    assert [m.name for m in modules() if m.path.stem in EMPTY_NAMES or m.path.parent.name in EMPTY_NAMES] == []


def test_every_module_says_what_it_is_for() -> None:
    import ast

    silent = [m.name for m in modules() if m.path.read_text().strip() and not ast.get_docstring(m.tree)]
    assert [name for name in silent if not name.endswith("__init__.py")] == []


def test_packages_are_at_most_three_deep() -> None:
    assert [m.name for m in modules() if len(m.path.relative_to(SRC).parts) > 4] == []


@pytest.mark.parametrize("top", ["src", "docs", "examples", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_words_of_the_glossary_only(top: str) -> None:
    found = []
    for path, text in texts():
        if path.parts[0] != top or "adr" in path.parts:
            continue
        if any(str(path).startswith(place) for place in ALLOWED_WORDS):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            match = WORDS.search(line)
            if match:
                found.append(f"{path}:{number} says {match[0]!r}: {line.strip()[:80]}")
    assert not found, "\n".join(found)


def test_exceptions_are_still_needed() -> None:
    for place in ALLOWED_WORDS:
        files = [ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*.py"))
        assert any(WORDS.search(path.read_text()) for path in files), f"{place} no longer needs its exception"


#: Put together here, so that this file does not hold what it looks for.
HOSTS = ["pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".com", "npmjs" + ".org", "crates" + ".io"]
HOSTS += ["anaconda" + ".org", "index" + "-url"]
MACHINE = [re.compile("(?<![\\w.])/" + top + r"/\w") for top in ("work", "root", "home", "Users", "opt")]


def test_no_registry_is_named() -> None:
    found = [f"{path} names {host}" for path, text in texts() for host in HOSTS if host in text]
    assert not found, "\n".join(found)


def test_no_path_of_somebodys_machine() -> None:
    found = []
    for path, text in texts():
        for number, line in enumerate(text.splitlines(), 1):
            if any(pattern.search(line) for pattern in MACHINE):
                found.append(f"{path}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)


def test_requirements_are_pinned() -> None:
    for path in sorted((ROOT / "requirements").glob("*.lock")):
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                assert re.match(r"^(-r \w+\.lock|[\w.\[\]-]+==[\w.+!-]+(\s*;.*)?(\s*\\)?|\s+--hash=.*)$", line), (
                    f"{path.name}: {line}"
                )


#: On SQLite nodes write one after the other anyway, and nothing is a round trip.
ONE_DIALECT = dict.fromkeys(
    ("tasks_queued_spread", "exchange_outlook", "exchange_begin_known", "tasks_if_known"), "postgres"
) | {"output_tasks": "sqlite"}


def test_both_dialects_have_the_same_named_statements() -> None:
    from weft.store.queries import queries

    dialects = sorted(path.parent.name for path in SRC.glob("store/*/sql") if path.is_dir())
    assert "sqlite" in dialects
    names = {d: sorted(name for name in queries(d) if ONE_DIALECT.get(name) != d) for d in dialects}
    assert all(found == names["sqlite"] for found in names.values()), names


def test_links_in_the_docs_lead_somewhere() -> None:
    found = []
    for path, text in texts():
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
            if "://" not in target and not (ROOT / path.parent / Path(target)).exists():
                found.append(f"{path} links to {target}")
    assert not found, "\n".join(found)
