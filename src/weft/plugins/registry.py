"""The plugins that are installed: entry points of the group `weft.executors`, each named for the type of task that it
adds. Nothing of a plugin is imported before its type is asked for, and one that cannot be used says why: it never
raises."""

import threading
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import msgspec

from weft.core.definition.fields import OWN_TYPES, PLUGIN_TYPE
from weft.core.definition.suggest import nearest
from weft.plugins.spec_schema import BadSchema, SpecSchema, read_schema

GROUP: Final = "weft.executors"
_METHODS: Final = ("open", "start", "stop", "started", "trust", "close")
_REMOTE_METHODS: Final = ("check", "handle", "remove")
_REQUIREMENTS: Final = ("programs", "labels", "capabilities")
ERROR_MAX: Final = 300  # characters


class Plugin(msgspec.Struct, frozen=True):
    """One type of task that a distribution adds. Without an executor it cannot be used: `error` says why."""

    type: str
    distribution: str
    version: str
    executor: Any = None  # the class
    error: str | None = None
    schema: SpecSchema | None = None  # of its spec; None: anything
    requires: dict[str, tuple[str, ...]] = {}  # what a node must have: programs, labels, capabilities

    @property
    def remote(self) -> bool:
        return hasattr(self.executor, "remove")


def installed_types() -> list[str]:
    """All that entry points name, whether they can be used or not. Imports no plugin."""
    return sorted(_entries())


def find_plugin(type_: str) -> Plugin | None:
    """None: no plugin of this type is installed."""
    return None if type_ not in _entries() else _load(type_)


def forget_plugins() -> None:
    """Look at what is installed again."""
    _entries.cache_clear()
    _loaded.clear()


@cache
def _entries() -> dict[str, list[EntryPoint]]:
    out: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        same = out.setdefault(entry.name, [])
        # A distribution that is found twice (an editable install, a directory twice in sys.path) is one.
        if all(_origin(entry) != _origin(other) or entry.value != other.value for other in same):
            same.append(entry)
    return out


_loaded: dict[str, Plugin] = {}
_loading = threading.Lock()


def _load(type_: str) -> Plugin:
    with _loading:
        if type_ not in _loaded:
            _loaded[type_] = _made(type_, _entries()[type_])
        return _loaded[type_]


def _origin(entry: EntryPoint) -> tuple[str, str]:
    return ("?", "?") if entry.dist is None else (entry.dist.name, entry.dist.version)


def _made(type_: str, entries: list[EntryPoint]) -> Plugin:
    distribution, version = _origin(entries[0])
    error = _misnamed(type_)
    if error is None and len(entries) > 1:
        names = " and ".join(sorted(_origin(entry)[0] for entry in entries))
        error = f"{names} both add this type; uninstall one of them"
    if error is not None:
        return Plugin(type_, distribution, version, error=error)
    try:
        executor = entries[0].load()
    except (Exception, SystemExit) as failed:
        error = one_line(f"{entries[0].value} cannot be imported: ", failed)
        return Plugin(type_, distribution, version, error=error)
    try:
        schema, requires = _checked(executor)
    except (BadSchema, TypeError) as failed:
        error = one_line(f"{entries[0].value}: ", failed, named=False)
        return Plugin(type_, distribution, version, error=error)
    return Plugin(type_, distribution, version, executor, None, schema, requires)


def _misnamed(type_: str) -> str | None:
    if type_ in OWN_TYPES:
        return "this is one of Weft's own types; the plugin must have another name"
    if PLUGIN_TYPE.compiled.fullmatch(type_) is None:
        return "this is no name of a type: lower-case letters, digits and _, a letter first"
    similar = nearest(type_, dict.fromkeys(OWN_TYPES))
    if similar is not None:
        return f"a definition with this type is taken for a misspelt {similar!r}; the plugin must have another name"
    return None


def _checked(executor: Any) -> tuple[SpecSchema | None, dict[str, tuple[str, ...]]]:
    """Raises TypeError or BadSchema for what cannot be an executor."""
    if not isinstance(executor, type):
        raise TypeError(f"expected a class, found a {type(executor).__name__}")
    needed = (*_METHODS, *(_REMOTE_METHODS if hasattr(executor, "remove") else ()))
    missing = [name for name in needed if not callable(getattr(executor, name, None))]
    if hasattr(executor, "remove") and not hasattr(executor, "engine"):
        missing.append("engine")
    if missing:
        raise TypeError(f"{executor.__name__} is no executor: it has no {', '.join(missing)}")
    declared = getattr(executor, "schema", None)
    requires = getattr(executor, "requires", {})
    if not isinstance(requires, dict) or any(name not in _REQUIREMENTS for name in requires):
        raise TypeError(f"`requires` must be a dict with lists of names under {', '.join(_REQUIREMENTS)}")
    if any(isinstance(names, str) for names in requires.values()):
        raise TypeError("`requires` has lists of names, not texts")
    return None if declared is None else read_schema(declared), {k: tuple(v) for k, v in requires.items()}


def one_line(before: str, error: BaseException, *, named: bool = True) -> str:
    """An error of a plugin's code, short enough for a table."""
    text = " ".join(str(error).split())
    if named:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return (before + text)[:ERROR_MAX]
