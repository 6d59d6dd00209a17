"""What a newcomer sees: few entries in a folder, one class per name, small classes, functions that fit a screen.

Exceptions have a reason, or a number that may only fall.
"""

import ast
from collections import defaultdict

from tests.architecture.source import SRC, modules

ENTRIES_MAX = 16
METHODS_MAX = 20
LINES_MAX = 50

#: Folders with more entries than that: the parts of the product, and catalogues of like things.
ENTRIES: dict[str, int] = {
    ".": 21,  # the parts of the product
    "cli/commands": 29,  # one file a command; `mcp install` has one beside `mcp`
    "core": 17,
    "core/rules": 38,  # one file a kind of decision
    "operations/resources": 19,  # one file a resource
    "executors": 21,  # one package an executor, and what they share
}
#: Classes with more public methods than that.
METHODS: dict[str, int] = {
    "client/verbs.py Connection": 80,  # one method a verb, each a line or two
    "client/local.py StoreConnection": 22,
    "node/local.py LocalLink": 28,
    "node/workers/remote_link.py RemoteLink": 24,
    "store/protocol.py Store": 32,
    "store/sqlite/driver.py SqliteStore": 33,
    "store/postgres/driver.py PostgresStore": 30,
    "core/decision/draft.py Draft": 21,
    "core/expressions/shell/scan.py Scanner": 25,
}


def test_a_folder_shows_its_parts() -> None:
    found = {}
    for folder in [SRC, *(path for path in SRC.rglob("*") if path.is_dir())]:
        entries = [path for path in folder.iterdir() if path.name not in ("__pycache__", "__init__.py")]
        if folder.name != "__pycache__" and len(entries) > ENTRIES_MAX:
            found[str(folder.relative_to(SRC))] = len(entries)
    assert found == ENTRIES, "fewer is fine: lower the number"


def test_no_public_class_name_twice() -> None:
    places = defaultdict(list)
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_classes_have_few_public_methods() -> None:
    found = {}
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                methods = [
                    one
                    for one in node.body
                    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and not one.name.startswith("_")
                ]
                if len(methods) > METHODS_MAX:
                    found[f"{module.name} {node.name}"] = len(methods)
    assert found == METHODS, "fewer is fine: lower the number"


def test_functions_fit_a_screen() -> None:
    found = {}
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > LINES_MAX:
                    found[f"{module.name} {node.name}"] = lines
    assert found == {}
