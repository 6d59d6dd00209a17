"""Reads the parameters of a Python function from its source, without importing anything.

Importing a module runs it, and loading a definition must have no effects. So the file is found as `import` would find
it, and parsed. Simple re-exports are followed. What cannot be known this way (a decorator that may change the
signature, a name created at run time, a module written in C) is left to the runner that calls the function.
"""

import ast
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Final

import msgspec

IMPORTS_MAX: Final = 8  # re-exports that are followed
BYTES_MAX: Final = 4 * 1024 * 1024
#: Decorators that keep the parameters of a function: (module, name).
_TRANSPARENT: Final = (("weft", "task"), ("functools", "cache"), ("functools", "lru_cache"))
#: A module that calls one of these may have names that its source does not show.
_CREATES_NAMES: Final = ("globals", "vars", "locals", "exec", "setattr", "import_module", "__import__")


class FunctionParameters(msgspec.Struct, frozen=True):
    """Parameters by name, in order; `any`: it has **; `positional_only`: a required one that has no keyword."""

    names: tuple[str, ...]
    needed: tuple[str, ...]
    any: bool
    positional_only: str | None = None


class FunctionNotFound(Exception):
    """The module exists, but not the function. `known` are the functions of the module."""

    def __init__(self, message: str, known: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.known = known


class DefinedFunctions:
    """The modules that one definition names, found from one directory, each parsed once."""

    def __init__(self, root: str, *, this_python: bool = True) -> None:
        """`this_python`: functions are called by the Python that runs this. Another has packages, and perhaps a
        syntax, of its own."""
        self._root = root
        self._this_python = this_python
        self._modules: dict[str, _Module | None] = {}

    def takes(self, module_or_file: str, name: str) -> FunctionParameters | None:
        """The parameters of `module:name`; None if they cannot be known. Raises FunctionNotFound."""
        module = (
            self._from_file(module_or_file) if module_or_file.endswith(".py") else self._from_name(module_or_file)
        )
        return None if module is None else self._look(module, name, module_or_file, IMPORTS_MAX)

    def _look(self, module: "_Module", name: str, module_or_file: str, imports: int) -> FunctionParameters | None:
        bound = module.bound.get(name)
        if bound is None:
            if module.creates_names() or module.mentions(name):
                return None
            raise FunctionNotFound(f"{module_or_file} has no function {name!r}", module.functions)
        if len(bound) > 1:
            return None
        (binding,) = bound
        if isinstance(binding, ast.ClassDef):
            raise FunctionNotFound(f"{module_or_file}:{name} is a class, not a function", module.functions)
        if isinstance(binding, ast.ImportFrom):
            return self._follow(module, binding, name, imports)
        if isinstance(binding, ast.FunctionDef | ast.AsyncFunctionDef) and module.keeps_signature(binding):
            return _takes(binding.args)
        return None

    def _follow(
        self, module: "_Module", statement: ast.ImportFrom, name: str, imports: int
    ) -> FunctionParameters | None:
        source = module.imported(statement)
        found = self._from_name(source) if source and imports else None
        if found is None:
            return None
        original = next(alias.name for alias in statement.names if (alias.asname or alias.name) == name)
        if original not in found.bound:
            return None  # a submodule, or a name created at run time
        return self._look(found, original, source, imports - 1)

    # -- modules ------------------------------------------------------------------------------------------

    def _from_file(self, module_or_file: str) -> "_Module | None":
        path = os.path.abspath(os.path.join(self._root, module_or_file))
        if module_or_file not in self._modules:
            self._modules[module_or_file] = self._parsed(path, "") if os.path.isfile(path) else None
        return self._modules[module_or_file]

    def _from_name(self, name: str) -> "_Module | None":
        if name not in self._modules:
            spec = self._spec(name)
            found = spec is not None and spec.origin is not None and isinstance(spec.loader, SourceFileLoader)
            package = name if spec is not None and spec.submodule_search_locations is not None else ""
            package = package or name.rpartition(".")[0]
            self._modules[name] = self._parsed(str(spec.origin), package) if found and spec is not None else None
        return self._modules[name]

    def _parsed(self, path: str, package: str) -> "_Module | None":
        try:
            return _parsed(path, package)
        except FunctionNotFound:
            if self._this_python:
                raise
            return None

    def _spec(self, name: str) -> ModuleSpec | None:
        """The module that `import` finds in a runner, whose path begins with the directory of the definition."""
        parts = name.split(".")
        if parts[0] in sys.builtin_module_names or not all(part.isidentifier() for part in parts):
            return None
        # In a runner, modules of the standard library are loaded before it searches the directory.
        path = [] if parts[0] in sys.stdlib_module_names else [self._root]
        if self._this_python:
            path += [p for p in sys.path if p]
        spec: ModuleSpec | None = None
        for at in range(len(parts)):
            try:
                spec = PathFinder.find_spec(".".join(parts[: at + 1]), path)
            except (ImportError, OSError, ValueError):
                return None
            if spec is None or at == len(parts) - 1:
                return spec
            path = list(spec.submodule_search_locations or ())
        return spec


class _Module:
    """The names that a parsed module binds at its top level, also inside `if`, `try`, `with` and loops."""

    def __init__(self, tree: ast.Module, package: str) -> None:
        self._tree = tree
        self._package = package
        self.bound: dict[str, list[ast.stmt]] = {}
        self._stars = False
        for statement in _statements(tree.body):
            for name in _binds(statement):
                if name == "*":
                    self._stars = True
                else:
                    self.bound.setdefault(name, []).append(statement)

    @property
    def functions(self) -> tuple[str, ...]:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return tuple(name for name, bindings in self.bound.items() if isinstance(bindings[-1], kinds))

    def creates_names(self) -> bool:
        if self._stars or "__getattr__" in self.bound:
            return True
        called = (node.func for node in ast.walk(self._tree) if isinstance(node, ast.Call))
        return any(getattr(f, "id", getattr(f, "attr", None)) in _CREATES_NAMES for f in called)

    def mentions(self, name: str) -> bool:
        """Whether the name is bound in a way that is not analyzed."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return True
            if isinstance(node, ast.Global) and name in node.names:
                return True
        return False

    def keeps_signature(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        return all(self._origin(decorator) in _TRANSPARENT for decorator in function.decorator_list)

    def _origin(self, decorator: ast.expr) -> tuple[str, str] | None:
        """(module, name) from which a decorator was imported, if the source shows it."""
        if isinstance(decorator, ast.Call):
            decorator = decorator.func
        if isinstance(decorator, ast.Attribute) and isinstance(decorator.value, ast.Name):
            binding = self._only(decorator.value.id)
            if isinstance(binding, ast.Import):
                names = {alias.asname or alias.name: alias.name for alias in binding.names}
                return (names.get(decorator.value.id, ""), decorator.attr)
        elif isinstance(decorator, ast.Name):
            binding = self._only(decorator.id)
            if isinstance(binding, ast.ImportFrom) and not binding.level:
                names = {alias.asname or alias.name: alias.name for alias in binding.names}
                return (binding.module or "", names[decorator.id])
        return None

    def _only(self, name: str) -> ast.stmt | None:
        bindings = self.bound.get(name, [])
        return bindings[0] if len(bindings) == 1 else None

    def imported(self, statement: ast.ImportFrom) -> str:
        """The module that `from … import` names; empty if its dots go beyond the top package."""
        if not statement.level:
            return statement.module or ""
        parts = self._package.split(".") if self._package else []
        if statement.level > len(parts):
            return ""
        return ".".join(
            [*parts[: len(parts) - statement.level + 1], *([statement.module] if statement.module else [])]
        )


def _parsed(path: str, package: str) -> _Module | None:
    """None if the file cannot be read. A syntax error is raised: no runner could load the module either."""
    try:
        with open(path, "rb") as file:
            source = file.read(BYTES_MAX + 1)
        if len(source) > BYTES_MAX:
            return None
        return _Module(ast.parse(source, path), package)
    except SyntaxError as error:
        raise FunctionNotFound(f"{os.path.basename(path)}, line {error.lineno}: {error.msg}") from None
    except (OSError, ValueError, RecursionError, MemoryError):
        return None


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, part, []))
        for inner in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            yield from _statements(inner.body)


def _binds(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.ImportFrom):
        return [alias.asname or alias.name for alias in statement.names]
    if isinstance(statement, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.Delete | ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = getattr(statement, "targets", None) or [statement.target]  # type: ignore[union-attr]
        return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return []


def _takes(arguments: ast.arguments) -> FunctionParameters:
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    nameless = arguments.posonlyargs[:required]
    needed = [arg.arg for arg in positional[len(arguments.posonlyargs) : max(required, len(arguments.posonlyargs))]]
    needed += [
        a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    names = [arg.arg for arg in [*arguments.args, *arguments.kwonlyargs]]
    return FunctionParameters(
        tuple(names), tuple(needed), arguments.kwarg is not None, nameless[0].arg if nameless else None
    )
