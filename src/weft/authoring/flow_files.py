"""Flows by name: `module:flow` and `file.py:flow`, as commands take them.

Loading runs the author's module. What it prints goes to standard error, and what goes wrong in it is told at the
author's line, like any other mistake in a definition.
"""

import contextlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from weft.authoring.code_positions import CodePlace, flow_error
from weft.authoring.python_definition import LOADED_FILES, PythonDefinition

if TYPE_CHECKING:
    from weft.authoring.load import Loaded

_FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>\w*))?", re.ASCII)
_MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>\w*)", re.ASCII)


def names_a_flow(reference: str) -> bool:
    """Whether this is a flow's name rather than the path of a definition. `file.py` alone is, if it has one flow."""
    if _FILE.fullmatch(reference):
        return True
    return _MODULE.fullmatch(reference) is not None and not os.path.exists(reference)


def load_definition(reference: str | Path) -> "Loaded":
    """A file in YAML or JSON, or a flow: whatever a command was given."""
    if names_a_flow(str(reference)):
        return find_flow(str(reference)).load()
    from weft.authoring.load import load_file

    return load_file(reference)


def find_flow(reference: str, directory: str | None = None) -> PythonDefinition:
    """Modules and files count from `directory`, by default the one we are in."""
    home = directory or os.getcwd()
    place = CodePlace(reference, 0)
    by_file = _FILE.fullmatch(reference)
    if by_file is not None:
        module, name = _load_file(os.path.join(home, by_file["file"])), by_file["name"]
        place = CodePlace(by_file["file"], 0)
    else:
        by_module = _MODULE.fullmatch(reference)
        if by_module is None:
            raise flow_error(f"{reference!r} is no flow", "write module:flow or file.py:flow", place)
        module, name = _load_module(by_module["module"], home), by_module["name"]
        place = CodePlace(getattr(module, "__file__", None) or reference, 0)
    flows = {name: value for name, value in vars(module).items() if isinstance(value, PythonDefinition)}
    if not name and len(flows) == 1:
        return next(iter(flows.values()))
    if name in flows:
        return flows[name]
    raise _not_there(reference, name, module, flows, place)


def _not_there(
    reference: str, name: str, module: ModuleType, flows: dict[str, PythonDefinition], place: CodePlace
) -> Exception:
    from weft.core.definition.suggest import did_you_mean

    known = f"its flows are {', '.join(flows)}" if flows else "put @flow above the function"
    if not name:
        stem = reference.rstrip(":")
        what = "several flows" if flows else "no flow"
        return flow_error(f"{stem} has {what}", f"name one: {stem}:{next(iter(flows))}" if flows else known, place)
    if hasattr(module, name):
        return flow_error(f"{name} is a {type(getattr(module, name)).__name__}, not a flow", known, place)
    return flow_error(f"there is no flow {name!r}", did_you_mean(name, flows) or known, place)


def _load_module(name: str, directory: str) -> ModuleType:
    _head_of_path(directory)
    parents = [".".join(name.split(".")[:count]) for count in range(1, name.count(".") + 2)]
    missing = None
    with _running(name):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name
            if missing not in parents:
                raise
    raise flow_error(
        f"there is no module {missing!r}",
        "call it in the directory where the module is, or name the file: path/to/file.py:flow",
        CodePlace(name, 0),
    )


def _load_file(file: str) -> ModuleType:
    path = os.path.abspath(file)
    if not os.path.isfile(path):
        raise flow_error("there is no such file", None, CodePlace(file, 0))
    _head_of_path(os.path.dirname(path))
    stem = re.sub(r"\W", "_", Path(path).stem)
    name = stem if stem not in sys.modules and not _is_known(stem, path) else f"weft_file_{stem}"
    known = next((name for name, loaded in LOADED_FILES.items() if loaded == path), None)
    if known is not None and known in sys.modules:
        return sys.modules[known]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise flow_error("this is no Python file", None, CodePlace(file, 0))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    LOADED_FILES[name] = path
    try:
        with _running(path):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name], LOADED_FILES[name]
        raise
    return module


def _is_known(stem: str, path: str) -> bool:
    """Whether an import of this name would find something else: json.py must not become `json`."""
    try:
        spec = importlib.util.find_spec(stem)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and os.path.abspath(spec.origin) != path


def _head_of_path(directory: str) -> None:
    if not sys.path or sys.path[0] != directory:
        sys.path.insert(0, directory)


@contextlib.contextmanager
def _running(what: str) -> Iterator[None]:
    """The author's code runs inside; its own errors become ours, with the place."""
    from weft.authoring.errors import DefinitionErrors

    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (DefinitionErrors, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:
        raise _told(error, what) from error


def _told(error: BaseException, what: str) -> Exception:
    if isinstance(error, SyntaxError) and error.filename:
        place = CodePlace(error.filename, error.lineno or 1, error.offset)
        return flow_error(f"not Python: {error.msg}", None, place)
    places = _places(error)
    place = places[-1] if places else CodePlace(what, 0)
    if isinstance(error, SystemExit):
        message = f"the file ended the program while it was loaded (exit {error.code})"
        return flow_error(message, 'put what only the program does under if __name__ == "__main__":', place)
    return flow_error(f"{type(error).__name__}: {error}".rstrip(": "), None, place)


def _places(error: BaseException) -> list[CodePlace]:
    """Lines of the author's own files, outermost first: not the import machinery's, not ours."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    frames = traceback.extract_tb(error.__traceback__)
    return [
        CodePlace(frame.filename, frame.lineno or 1)
        for frame in frames
        if not frame.filename.startswith((here, "<frozen ")) and "importlib" not in frame.filename
    ]
