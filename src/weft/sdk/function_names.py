"""How a definition names a Python function, and which directory that name is relative to.

A runner process finds a function again by `module:function`, with the definition's directory at the head of
`sys.path`. The main program and files loaded by their path have no module name that another process could import:
those are named `file.py:function`.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from weft.authoring.code_positions import CodePlace, definition_of, flow_error
from weft.authoring.python_definition import LOADED_FILES


def check_function(function: Any, what: str) -> None:
    """Refuses what no other process could find again by name."""
    if not callable(function):
        raise flow_error(
            f"@{what} is for functions, not for a {type(function).__name__}", f"write @{what} above a def"
        )
    name = getattr(function, "__qualname__", None)
    if name is None or getattr(function, "__module__", None) is None:
        raise flow_error(
            f"@{what} needs a function with a name of its own, not a {type(function).__name__}",
            "write a def of its own that calls it",
        )
    place = definition_of(function)
    if name == "<lambda>" or name.endswith(".<lambda>"):
        raise flow_error(
            f"a lambda cannot be a {what}: no other process could find it", "give it a name with def", place
        )
    if "<locals>" in name:
        raise flow_error(
            f"{_short(name)} is defined inside another function, where no other process could find it",
            "move it to the top level of its module",
            place,
        )
    if "." in name:
        raise flow_error(f"{name} is a method, and a {what} must be a function", "move it out of its class", place)


def function_name(function: Callable[..., Any], directory: str) -> str:
    """`module:function`, or `file.py:function` relative to the definition's directory."""
    module, file = _home(function)
    if file is None:
        return f"{module}:{function.__qualname__}"
    return f"{os.path.relpath(file, directory)}:{function.__qualname__}"


def definition_anchor(function: Callable[..., Any]) -> str | None:
    """The file or package beside which the definition lives: its directory is where tasks start, and what they
    import from. None for what is installed: that is found from anywhere, and tasks start where the run is asked for.
    """
    module, file = _home(function)
    if file is not None:
        return file
    found = getattr(sys.modules.get(module), "__file__", None)
    if not found:
        return None
    parts = module.split(".")
    path = os.path.abspath(found)
    if os.path.basename(path) == "__init__.py":
        path = os.path.dirname(path)
    tail = os.path.splitext(path)[0].split(os.sep)[-len(parts) :]
    if tail != parts:  # an import hook of somebody's: the name says nothing about the place
        return None
    for _ in parts[1:]:
        path = os.path.dirname(path)
    return None if _installed(os.path.dirname(path)) else path


def _home(function: Callable[..., Any]) -> tuple[str, str | None]:
    """The module's name, and its file if only that will do."""
    module = function.__module__
    if module in LOADED_FILES:
        return module, LOADED_FILES[module]
    if module != "__main__":
        return module, None
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:  # python -m package.module
        return str(spec.name), None
    file = getattr(main, "__file__", None)
    if not file or not os.path.isfile(file):
        raise flow_error(
            f"{function.__qualname__} was typed into a session, where no other process could find it",
            "put it into a file and import it",
            definition_of(function),
        )
    return module, os.path.abspath(file)


def _installed(directory: str) -> bool:
    import site
    import sysconfig

    paths = sysconfig.get_paths()
    places = [paths[name] for name in ("purelib", "platlib", "stdlib", "platstdlib")]
    places.append(site.getusersitepackages())
    return os.path.realpath(directory) in [os.path.realpath(place) for place in places]


def _short(qualname: str) -> str:
    return qualname.rpartition(".")[2]


def loading_place() -> CodePlace | None:
    """The line of a module that is just being imported, if this call comes from one: a run that started there
    would start again in every process that imports the module to find its functions."""
    frame = sys._getframe(1)
    while frame is not None:
        back = frame.f_back
        if (
            frame.f_code.co_name == "<module>"
            and frame.f_globals.get("__name__") != "__main__"
            and back is not None
            and back.f_code.co_filename.startswith("<frozen ")
        ):
            from weft.authoring.code_positions import at_frame

            return at_frame(frame)
        frame = back  # type: ignore[assignment]
    return None
