"""The source tree as the architecture's tests see it: parsed files, their imports, the events that rules leave."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "weft"
#: What somebody wrote; not what tools leave beside it.
TREE = ("src", "tests", "bench", "deploy", "docs", "examples", "requirements", ".ci")
TEXTS = (".py", ".md", ".sql", ".toml", ".yaml", ".json", ".txt", ".lock", ".sh", "")


class Module(NamedTuple):
    path: Path
    tree: ast.Module

    @property
    def name(self) -> str:
        return str(self.path.relative_to(SRC))

    @property
    def part(self) -> str:
        """The package below weft, or the module itself."""
        return self.path.relative_to(SRC).with_suffix("").parts[0]


@cache
def modules(below: str = "") -> tuple[Module, ...]:
    """But for generated ones (`make proto`)."""
    paths = [path for path in sorted((SRC / below).rglob("*.py")) if "_pb2" not in path.stem]
    return tuple(Module(path, ast.parse(path.read_text())) for path in paths)


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """Every import, wherever it stands: those within functions count too."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name}:{node.lineno}: relative import"
            name = node.module or ""
            if name == "weft":
                yield from ((node.lineno, f"weft.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, name


def texts() -> Iterator[tuple[Path, str]]:
    """All that people write: sources, tests, docs, settings."""
    files = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]  # a worktree has a file of it
    for top in TREE:
        files += [path for path in (ROOT / top).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in sorted(files):
        if path.suffix in TEXTS:
            try:
                yield path.relative_to(ROOT), path.read_text()
            except UnicodeDecodeError:
                continue


def emitted_kinds() -> dict[str, list[str]]:
    """Kinds of events that the rules leave -> where. A kind handed on through a parameter is found at the calls."""
    found: dict[str, list[str]] = {}
    for module in modules("core"):
        for function in ast.walk(module.tree):
            if not isinstance(function, ast.FunctionDef) or function.name == "event":
                continue
            for call in ast.walk(function):
                for argument in _kind_of_event(call):
                    assert isinstance(call, ast.Call)
                    for kind in _constants(module, function, argument):
                        found.setdefault(kind, []).append(f"{module.name}:{call.lineno}")
    return found


def cluster_kinds() -> dict[str, list[str]]:
    """Kinds of events that belong to no run -> where: `draft.cluster_event(KIND, …)`."""
    found: dict[str, list[str]] = {}
    for module in modules("core"):
        for call in ast.walk(module.tree):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "cluster_event":
                (kind,) = _constants(module, None, call.args[0])
                found.setdefault(kind, []).append(f"{module.name}:{call.lineno}")
    return found


def _kind_of_event(call: ast.AST) -> list[ast.expr]:
    """`draft.event(run, KIND, …)`, the row itself, `EventRow(run, pos, idx, KIND, …)`, or a batch of them."""
    if not isinstance(call, ast.Call):
        return []
    if isinstance(call.func, ast.Attribute) and call.func.attr == "event":
        return [call.args[1]]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "_batch_with":
        return [call.args[1]]
    return [call.args[3]] if isinstance(call.func, ast.Name) and call.func.id == "EventRow" else []


def _constants(module: Module, function: ast.FunctionDef | None, argument: ast.expr) -> list[str]:
    if isinstance(argument, ast.Constant):
        return [str(argument.value)]
    unreadable = f"{module.name}:{argument.lineno}: the kind of an event must be readable here"
    assert isinstance(argument, ast.Name), unreadable
    assert function is not None, unreadable
    place = [arg.arg for arg in function.args.args].index(argument.id)
    return [
        str(call.args[place].value)  # type: ignore[attr-defined]
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == function.name
    ]
