"""Checks that the Python functions of a definition exist on this machine, and that they accept `with`."""

import os
from typing import Any

from weft.authoring.function_source import DefinedFunctions, FunctionNotFound, FunctionParameters
from weft.core.definition.document import Document
from weft.core.definition.field_types.task_fields import function_of
from weft.core.definition.problems import PROBLEMS_MAX, ValueProblem, has_expression
from weft.core.definition.source_paths import SourcePaths
from weft.core.definition.suggest import nearest


def check_calls(document: Document, source: SourcePaths, directory: str) -> list[ValueProblem]:
    """The problems of the Python tasks of a definition in this directory. A function whose module is not on this
    machine may be on the node that runs it, and is no problem."""
    tasks = document["tasks"]
    default_cwd = document.get("defaults", {}).get("cwd")
    sources: dict[tuple[str, bool], DefinedFunctions] = {}
    parameters_of: dict[tuple[str, bool, str], FunctionParameters | FunctionNotFound | None] = {}
    problems: list[ValueProblem] = []
    for name, task in tasks.items():
        if "python" not in task or len(problems) >= PROBLEMS_MAX:
            continue
        text, own = function_of(task["python"]), isinstance(task["python"], str)
        cwd = task.get("cwd", default_cwd) or ""
        if has_expression(cwd):
            continue
        key = (cwd, own, text)
        if key not in parameters_of:
            if (cwd, own) not in sources:
                sources[cwd, own] = DefinedFunctions(os.path.join(directory, cwd), this_python=own)
            parameters_of[key] = _takes(sources[cwd, own], text)
        takes = parameters_of[key]
        if isinstance(takes, FunctionNotFound):
            path, _ = source.task(name)
            problems.append(_unknown(takes, text, (*path, "python")))
        elif takes is not None and not _fits(takes, task.get("with", {})):
            path, _ = source.task(name)
            problems += _argument_problems(takes, text.rpartition(":")[2], task.get("with", {}), path)
    return problems


def _takes(sources: DefinedFunctions, text: str) -> FunctionParameters | FunctionNotFound | None:
    module, _, name = text.rpartition(":")
    try:
        return sources.takes(module, name)
    except FunctionNotFound as missing:
        return missing


def _unknown(missing: FunctionNotFound, text: str, path: tuple[str | int, ...]) -> ValueProblem:
    module, _, name = text.rpartition(":")
    meant = nearest(name, missing.known)
    fix = f"did you mean {module}:{meant}?" if meant else None
    if fix is None and 0 < len(missing.known) <= 12:
        fix = f"its functions are {', '.join(missing.known)}"
    return ValueProblem(path, str(missing), fix)


def _fits(takes: FunctionParameters, arguments: dict[str, Any]) -> bool:
    if takes.positional_only is not None or any(name not in arguments for name in takes.needed):
        return False
    return takes.any or all(name in takes.names for name in arguments)


def _argument_problems(
    takes: FunctionParameters, function: str, arguments: dict[str, Any], path: tuple[str | int, ...]
) -> list[ValueProblem]:
    at = (*path, "with") if arguments else (*path, "python")
    if takes.positional_only is not None:
        message = (
            f"{function}() takes {takes.positional_only} only by position, and `with` passes all arguments by name"
        )
        return [ValueProblem((*path, "python"), message, "remove the / from its parameters")]
    problems = []
    missing = [name for name in takes.needed if name not in arguments]
    for name in [] if takes.any else arguments:
        if name in takes.names:
            continue
        meant = nearest(name, [other for other in takes.names if other not in arguments])
        listed = f"its parameters are {', '.join(takes.names)}" if takes.names else "it has no parameters"
        fix = f"did you mean {meant}?" if meant else listed
        problems.append(ValueProblem((*at, name), f"{function}() has no parameter {name!r}", fix, "key"))
        if meant in missing:
            missing.remove(meant)  # the same mistake, reported once
    if missing:
        names = ", ".join(missing)
        message = f"{function}() needs {names}, which `with` does not pass"
        problems.append(ValueProblem(at, message, f"add {names} to `with`", "key"))
    return problems
