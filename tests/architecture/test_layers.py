"""Imports go downward only, and the core is pure."""

import ast
import builtins

from tests.architecture.source import Module, imports, modules

#: From the top down. What stands in one line does not know each other.
LAYERS: list[tuple[str, ...]] = [
    ("__main__",),
    ("demo", "cli", "api", "grpc_api", "mcp", "tui", "sdk"),
    ("local_node",),
    ("client",),
    ("config", "operations"),
    ("node",),
    ("authoring",),
    ("plugins",),
    ("store", "executors", "triggers"),
    ("core",),
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}

#: Sideways all the same, each for a reason.
SIDEWAYS = {
    ("store", "executors"): "boot_clock.py: leases in a file and attempts on this machine are measured by one clock",
    ("cli", "demo"): "`weft demo` is a command",
    ("cli", "api"): "`weft serve` is a command",
    ("cli", "grpc_api"): "`weft serve --grpc` is a command",
    ("cli", "mcp"): "`weft mcp` is a command",
    ("cli", "tui"): "`weft top` is a command",
    ("tui", "cli"): "the same words, widths and durations",
    ("mcp", "api"): "the same roles, submissions, cursors and words for what goes wrong",
    ("grpc_api", "api"): "the same gate, threads, submissions and streams",
    ("demo", "cli"): "it speaks through the same terminal",
}

#: Modules of the standard library that have no clock, no I/O, no randomness, no threads and no environment.
PURE = frozenset({
    "bisect", "collections", "dataclasses", "datetime", "difflib", "enum", "functools", "hashlib", "heapq",
    "itertools", "json", "math", "operator", "re", "string", "typing", "unicodedata",
})  # fmt: skip
PURE_PARTIES = frozenset({"msgspec"})

#: Built-in functions that reach outside, or whose answer differs from process to process.
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "compile", "hash", "breakpoint", "__import__"})


def test_every_part_has_a_place() -> None:
    unknown = {module.part for module in modules()} - set(LEVEL) - {"__init__"}
    assert not unknown, f"say in LAYERS where these belong: {sorted(unknown)}"


def test_imports_go_downward_only() -> None:
    wrong = []
    for module in modules():
        for line, name in imports(module):
            part = name.split(".")[1] if name.startswith("weft.") else None
            if part is None or part == module.part or part not in LEVEL or module.part not in LEVEL:
                continue
            if LEVEL[module.part] >= LEVEL[part] and (module.part, part) not in SIDEWAYS:
                wrong.append(f"{module.name}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_weft_itself_imports_nothing() -> None:
    """`import weft` stays cheap: heavy parts are imported where they are used."""
    (module,) = [module for module in modules() if module.name == "__init__.py"]
    eager = [node for node in module.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not eager


def test_the_core_imports_only_what_is_pure() -> None:
    wrong = []
    for module in modules("core"):
        for line, name in imports(module):
            top = name.split(".")[0]
            if top == "weft":
                if not name.startswith("weft.core"):
                    wrong.append(f"{module.name}:{line} imports {name}")
            elif top not in PURE and top not in PURE_PARTIES:
                wrong.append(f"{module.name}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_the_core_calls_nothing_that_reaches_outside() -> None:
    assert all(hasattr(builtins, name) for name in IMPURE_CALLS)
    wrong = [
        f"{module.name}:{call.lineno} calls {call.func.id}"
        for module in modules("core")
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in IMPURE_CALLS
        if not _defined_here(module, call.func.id)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_core_asks_no_clock() -> None:
    """`datetime` may read and write texts; what time it is comes in as `now`."""
    clocks = ("datetime.now", "datetime.today", "datetime.utcnow", "date.today")
    wrong = [
        f"{module.name}:{call.lineno} calls {ast.unparse(call.func)}"
        for module in modules("core")
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(clocks)
    ]
    assert not wrong, "\n".join(wrong)


def _defined_here(module: Module, name: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in module.tree.body)


#: Iterations over sets that are harmless, with the reason: "file: expression".
SET_LOOPS: dict[str, str] = {}


def test_the_core_iterates_no_set() -> None:
    """A set's order differs from process to process: whatever follows from it could not be replayed."""
    found = [loop for module in modules("core") for loop in set_loops(module)]
    assert sorted(set(found) - set(SET_LOOPS)) == []
    assert sorted(set(SET_LOOPS) - set(found)) == [], "no longer there: take it off the list"


def set_loops(module: Module) -> list[str]:
    named = _names_of_sets(module.tree)
    found = []
    for node in ast.walk(module.tree):
        for iterated in _iterated(node):
            if _is_set(iterated, named):
                found.append(f"{module.name}: {ast.unparse(iterated)}")
    return found


def _iterated(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.For | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.Starred):
        return [node.value]
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in ("list", "tuple", "enumerate", "iter", "zip", "map"):
            return list(node.args)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("join", "extend", "pop"):
            return [node.func.value] if node.func.attr == "pop" else list(node.args)
    return []


def _names_of_sets(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for _ in range(3):  # a name may be made from a name that comes later in the file
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and _is_set(node.value, names):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                if "set[" in ast.unparse(node.annotation):
                    names.add(node.target.id)
            elif isinstance(node, ast.arg) and node.annotation is not None and "set[" in ast.unparse(node.annotation):
                names.add(node.arg)
    return names


def _is_set(node: ast.expr, named: set[str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Name):
        return node.id in named
    if isinstance(node, ast.BinOp):
        return _is_set(node.left, named) or _is_set(node.right, named)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")


def test_the_search_for_set_loops_finds_them() -> None:
    from pathlib import Path

    from tests.architecture.source import SRC

    lines = [
        "def f(a: set[int]):",
        "    b = {1} | a",
        "    for x in b: pass",
        "    return [y for y in a], list(set()), sorted(b)",
    ]
    text = "\n".join(lines)
    assert len(set_loops(Module(SRC / Path("core/made_up.py"), ast.parse(text)))) == 3
