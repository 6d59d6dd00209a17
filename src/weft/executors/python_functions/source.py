"""The source of a function, found as Python would find it and read without importing anything.

A cached result depends on it. Only the function's own text counts, decorators included: what it calls does not.
"""

import ast
import os
import sys
from importlib.machinery import PathFinder

_REMEMBERED_MAX = 10_000


class Sources:
    """Reads a file again only when it has changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[tuple[int, int], str | None]] = {}

    def of(self, text: str, root: str) -> str | None:
        """Of `module:function` or `file.py:function` seen from a directory. If its file has no such `def` (the
        function comes from elsewhere), the text of the whole file; None if there is no file to read."""
        place, _, name = text.rpartition(":")
        path = os.path.join(root, place) if place.endswith(".py") else _file_of(place, root)
        if path is None:
            return None
        try:
            info = os.stat(path)
            stamp = (info.st_mtime_ns, info.st_size)
            known = self._known.get((path, name))
            if known is not None and known[0] == stamp:
                return known[1]
            with open(path, encoding="utf-8") as file:
                source = _function_text(file.read(), name)
        except (OSError, UnicodeDecodeError):
            return None
        if len(self._known) >= _REMEMBERED_MAX:
            self._known.clear()
        self._known[path, name] = (stamp, source)
        return source


def _function_text(module: str, name: str) -> str:
    try:
        tree = ast.parse(module)
    except (SyntaxError, ValueError):
        return module
    for node in reversed(tree.body):  # the last definition of a name is the one that counts
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return "\n".join(module.splitlines()[first - 1 : node.end_lineno])
    return module


def _file_of(module: str, root: str) -> str | None:
    path: list[str] | None = [root, *sys.path]
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
