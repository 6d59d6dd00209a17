"""Do the functions that a definition names exist on this machine, and do they take what `with` gives them?"""

import os
from typing import Any

from weft.authoring.function_source import NoFunction, Sources, Takes
from weft.core.definition.document import Document
from weft.core.definition.problems import PROBLEMS_MAX, Problem, has_expression
from weft.core.definition.source_paths import Written
from weft.core.definition.suggest import nearest


def check_calls(document: Document, written: Written, directory: str) -> list[Problem]:
    """All that is known to be wrong with the Python tasks of a definition that lives in this directory. Functions
    that are not found on this machine may be on the node that runs them, and are not blamed."""
    tasks = document["tasks"]
    default_cwd = document.get("defaults", {}).get("cwd")
    sources: dict[str, Sources] = {}
    known: dict[tuple[str, str], Takes | NoFunction | None] = {}
    found: list[Problem] = []
    for name, task in tasks.items():
        text = task.get("python")
        if text is None or len(found) >= PROBLEMS_MAX:
            continue
        cwd = task.get("cwd", default_cwd) or ""
        if has_expression(cwd):
            continue
        key = (cwd, text)
        if key not in known:
            if cwd not in sources:
                sources[cwd] = Sources(os.path.join(directory, cwd))
            known[key] = _takes(sources[cwd], text)
        takes = known[key]
        if isinstance(takes, NoFunction):
            path, _ = written.task(name)
            found.append(_unknown(takes, text, (*path, "python")))
        elif takes is not None and not _fits(takes, task.get("with", {})):
            path, _ = written.task(name)
            found += _misfits(takes, text.rpartition(":")[2], task.get("with", {}), path)
    return found


def _takes(sources: Sources, text: str) -> Takes | NoFunction | None:
    place, _, name = text.rpartition(":")
    try:
        return sources.takes(place, name)
    except NoFunction as missing:
        return missing


def _unknown(missing: NoFunction, text: str, path: tuple[str | int, ...]) -> Problem:
    place, _, name = text.rpartition(":")
    meant = nearest(name, missing.known)
    fix = f"did you mean {place}:{meant}?" if meant else None
    if fix is None and 0 < len(missing.known) <= 12:
        fix = f"its functions are {', '.join(missing.known)}"
    return Problem(path, str(missing), fix)


def _fits(takes: Takes, given: dict[str, Any]) -> bool:
    if takes.by_place is not None or any(name not in given for name in takes.needed):
        return False
    return takes.any or all(name in takes.names for name in given)


def _misfits(takes: Takes, function: str, given: dict[str, Any], path: tuple[str | int, ...]) -> list[Problem]:
    at = (*path, "with") if given else (*path, "python")
    if takes.by_place is not None:
        message = f"{function}() takes {takes.by_place} by its place only, and `with` gives all by name"
        return [Problem((*path, "python"), message, "leave the / out of its parameters")]
    found = []
    missing = [name for name in takes.needed if name not in given]
    for name in [] if takes.any else given:
        if name in takes.names:
            continue
        meant = nearest(name, [other for other in takes.names if other not in given])
        listed = f"it takes {', '.join(takes.names)}" if takes.names else "it takes no arguments"
        fix = f"did you mean {meant}?" if meant else listed
        found.append(Problem((*at, name), f"{function}() takes no argument {name!r}", fix, "key"))
        if meant in missing:
            missing.remove(meant)  # the same slip of the pen, told once
    if missing:
        words = ", ".join(missing)
        message = f"{function}() needs {words}, which `with` does not give"
        found.append(Problem(at, message, f"add {words} to `with`", "key"))
    return found
