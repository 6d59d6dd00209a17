"""The name of a Python function in a definition, and the directory that the name is relative to.

A runner process finds a function again by `module:function`, with the definition's directory at the head of
`sys.path`. The main program and files loaded by their path have no module name that another process could import:
those are named `file.py:function`.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from weft.authoring.code_positions import CodePosition, definition_position, flow_error
from weft.authoring.python_definition import LOADED_FILES


def check_function(function: Any, kind: str) -> None:
    """Refuses a function that no other process could find by its name."""
    if not callable(function):
        raise flow_error(
            f"@{kind} is for functions, not for a {type(function).__name__}", f"write @{kind} above a def"
        )
    name = getattr(function, "__qualname__", None)
    if name is None or getattr(function, "__module__", None) is None:
        raise flow_error(
            f"@{kind} needs a function with a name, not a {type(function).__name__}",
            "write a def that calls it",
        )
    position = definition_position(function)
    if name == "<lambda>" or name.endswith(".<lambda>"):
        raise flow_error(f"a lambda cannot be a {kind}: no other process could find it", "write a def", position)
    if "<locals>" in name:
        raise flow_error(
            f"{_short(name)} is defined inside another function: no other process could find it",
            "move it to the top level of its module",
            position,
        )
    if "." in name:
        raise flow_error(f"{name} is a method, and a {kind} must be a function", "move it out of its class", position)


def function_name(function: Callable[..., Any], directory: str) -> str:
    """`module:function`, or `file.py:function` relative to the definition's directory."""
    module, file = _home(function)
    if file is None:
        return f"{module}:{function.__qualname__}"
    return f"{os.path.relpath(file, directory)}:{function.__qualname__}"


def definition_anchor(function: Callable[..., Any]) -> str | None:
    """The file or package whose directory is that of the definition: tasks start and import there. None for an
    installed package, which can be imported from anywhere: then tasks start where the run is submitted.
    """
    module, file = _home(function)
    if file is not None:
        return file
    module_file = getattr(sys.modules.get(module), "__file__", None)
    if not module_file:
        return None
    parts = module.split(".")
    path = os.path.abspath(module_file)
    if os.path.basename(path) == "__init__.py":
        path = os.path.dirname(path)
    tail = os.path.splitext(path)[0].split(os.sep)[-len(parts) :]
    if tail != parts:  # an import hook: the name does not say where the file is
        return None
    for _ in parts[1:]:
        path = os.path.dirname(path)
    return None if _installed(os.path.dirname(path)) else path


def _home(function: Callable[..., Any]) -> tuple[str, str | None]:
    """The name of the module, and its file if another process cannot import it by name."""
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
            f"{function.__qualname__} is defined in an interactive session: no other process could find it",
            "put it into a file and import it",
            definition_position(function),
        )
    return module, os.path.abspath(file)


def _installed(directory: str) -> bool:
    import site
    import sysconfig

    paths = sysconfig.get_paths()
    directories = [paths[name] for name in ("purelib", "platlib", "stdlib", "platstdlib")]
    directories.append(site.getusersitepackages())
    return os.path.realpath(directory) in [os.path.realpath(one) for one in directories]


def _short(qualname: str) -> str:
    return qualname.rpartition(".")[2]


def importing_position() -> CodePosition | None:
    """The position of the call in a module that is being imported, if there is one: a run that started there would
    start again in every process that imports the module to find its functions."""
    frame = sys._getframe(1)
    while frame is not None:
        back = frame.f_back
        if (
            frame.f_code.co_name == "<module>"
            and frame.f_globals.get("__name__") != "__main__"
            and back is not None
            and back.f_code.co_filename.startswith("<frozen ")
        ):
            from weft.authoring.code_positions import frame_position

            return frame_position(frame)
        frame = back  # type: ignore[assignment]
    return None
