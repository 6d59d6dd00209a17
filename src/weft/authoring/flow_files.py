"""Loads definitions from Python files and modules: `module:flow` and `file.py:flow`.

Loading runs the author's module. Its output goes to standard error, and its errors are reported at the author's line,
like any other error of a definition.
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

from weft.authoring.code_positions import CodePosition, flow_error
from weft.authoring.python_definition import LOADED_FILES, PythonDefinition

if TYPE_CHECKING:
    from weft.authoring.children import LoadTrail
    from weft.authoring.load import Loaded

_FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>\w*))?", re.ASCII)
_MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>\w*)", re.ASCII)


def names_a_flow(reference: str) -> bool:
    """Whether this is the name of a flow, not the path of a YAML or JSON file. `file.py` names its only flow."""
    if _FILE.fullmatch(reference):
        return True
    return _MODULE.fullmatch(reference) is not None and not os.path.exists(reference)


def load_definition(reference: str | Path, trail: "LoadTrail | None" = None) -> "Loaded":
    """Loads what a command accepts: a file in YAML or JSON, or a flow."""
    if names_a_flow(str(reference)):
        return find_flow(str(reference)).load()
    from weft.authoring.load import load_file

    return load_file(reference, trail=trail)


def find_flow(reference: str, directory: str | None = None) -> PythonDefinition:
    """Modules and files are relative to `directory`, by default the current one."""
    home = directory or os.getcwd()
    position = CodePosition(reference, 0)
    by_file = _FILE.fullmatch(reference)
    if by_file is not None:
        module, name = _load_file(os.path.join(home, by_file["file"])), by_file["name"]
        position = CodePosition(by_file["file"], 0)
    else:
        by_module = _MODULE.fullmatch(reference)
        if by_module is None:
            raise flow_error(
                f"{reference!r} is not the name of a flow", "write module:flow or file.py:flow", position
            )
        module, name = _load_module(by_module["module"], home), by_module["name"]
        position = CodePosition(getattr(module, "__file__", None) or reference, 0)
    flows = {name: value for name, value in vars(module).items() if isinstance(value, PythonDefinition)}
    if not name and len(flows) == 1:
        return next(iter(flows.values()))
    if name in flows:
        return flows[name]
    raise _flow_missing(reference, name, module, flows, position)


def _flow_missing(
    reference: str, name: str, module: ModuleType, flows: dict[str, PythonDefinition], position: CodePosition
) -> Exception:
    from weft.core.definition.suggest import did_you_mean

    known = f"its flows are {', '.join(flows)}" if flows else "write @flow above the function"
    if not name:
        stem = reference.rstrip(":")
        count = "several flows" if flows else "no flow"
        return flow_error(
            f"{stem} has {count}", f"name one: {stem}:{next(iter(flows))}" if flows else known, position
        )
    if hasattr(module, name):
        return flow_error(f"{name} is a {type(getattr(module, name)).__name__}, not a flow", known, position)
    return flow_error(f"there is no flow {name!r}", did_you_mean(name, flows) or known, position)


def _load_module(name: str, directory: str) -> ModuleType:
    _put_first_on_path(directory)
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
        "run the command in the directory of the module, or name the file: path/to/file.py:flow",
        CodePosition(name, 0),
    )


def _load_file(file: str) -> ModuleType:
    path = os.path.abspath(file)
    if not os.path.isfile(path):
        raise flow_error("there is no such file", None, CodePosition(file, 0))
    _put_first_on_path(os.path.dirname(path))
    stem = re.sub(r"\W", "_", Path(path).stem)
    name = stem if stem not in sys.modules and not _is_known(stem, path) else f"weft_file_{stem}"
    known = next((name for name, loaded in LOADED_FILES.items() if loaded == path), None)
    if known is not None and known in sys.modules:
        return sys.modules[known]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise flow_error("this is not a Python file", None, CodePosition(file, 0))
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
    """Whether an import of this name would find another module: json.py must not become `json`."""
    try:
        spec = importlib.util.find_spec(stem)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and os.path.abspath(spec.origin) != path


def _put_first_on_path(directory: str) -> None:
    if not sys.path or sys.path[0] != directory:
        sys.path.insert(0, directory)


@contextlib.contextmanager
def _running(what: str) -> Iterator[None]:
    """The author's code runs inside; its exceptions become FlowErrors with a position."""
    from weft.authoring.errors import DefinitionErrors

    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (DefinitionErrors, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:
        raise _as_flow_error(error, what) from error


def _as_flow_error(error: BaseException, what: str) -> Exception:
    if isinstance(error, SyntaxError) and error.filename:
        position = CodePosition(error.filename, error.lineno or 1, error.offset)
        return flow_error(f"not Python: {error.msg}", None, position)
    positions = _places(error)
    position = positions[-1] if positions else CodePosition(what, 0)
    if isinstance(error, SystemExit):
        message = f"the file ended the program while it was loaded (exit {error.code})"
        return flow_error(message, 'put what only the program does under if __name__ == "__main__":', position)
    return flow_error(f"{type(error).__name__}: {error}".rstrip(": "), None, position)


def _places(error: BaseException) -> list[CodePosition]:
    """The lines of the author's own files in a traceback, outermost first: not of importlib, not of Weft."""
    weft = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    frames = traceback.extract_tb(error.__traceback__)
    return [
        CodePosition(frame.filename, frame.lineno or 1)
        for frame in frames
        if not frame.filename.startswith((weft, "<frozen ")) and "importlib" not in frame.filename
    ]
