"""Reads the source of a function from its file, which is found as Python's import finds it, without importing it.

Cached results depend on it. Only the function's own source counts, with its decorators, not that of functions it
calls.
"""

import ast
import os
import sys
from importlib.machinery import PathFinder

_CACHED_MAX = 10_000


class FunctionSources:
    """Reads a file again only when it has changed."""

    def __init__(self) -> None:
        self._cache: dict[tuple[str, str], tuple[tuple[int, int], str | None]] = {}

    def of(self, text: str, root: str, *, installed: bool = True) -> str | None:
        """The source of `module:function` or `file.py:function`, relative to a directory. If the file has no such
        `def` (the function is imported from another), the source of the whole file; None if no file can be read.

        `installed`: packages of this interpreter are searched as well."""
        location, _, name = text.rpartition(":")
        path = os.path.join(root, location) if location.endswith(".py") else _file_of(location, root, installed)
        if path is None:
            return None
        try:
            info = os.stat(path)
            stamp = (info.st_mtime_ns, info.st_size)
            cached = self._cache.get((path, name))
            if cached is not None and cached[0] == stamp:
                return cached[1]
            with open(path, encoding="utf-8") as file:
                source = _function_text(file.read(), name)
        except (OSError, UnicodeDecodeError):
            return None
        if len(self._cache) >= _CACHED_MAX:
            self._cache.clear()
        self._cache[path, name] = (stamp, source)
        return source


def _function_text(module: str, name: str) -> str:
    try:
        tree = ast.parse(module)
    except (SyntaxError, ValueError):
        return module
    for node in reversed(tree.body):  # the last definition of a name wins
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return "\n".join(module.splitlines()[first - 1 : node.end_lineno])
    return module


def _file_of(module: str, root: str, installed: bool) -> str | None:
    path: list[str] | None = [root, *(sys.path if installed else ())]
    spec = None
    for part in module.split("."):
        if path is None:
            return None
        spec = PathFinder.find_spec(part if spec is None else f"{spec.name}.{part}", path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations) if spec.submodule_search_locations is not None else None
    origin = None if spec is None else spec.origin
    return origin if origin is not None and origin.endswith(".py") else None
