"""From a file or a text to a workflow that can run, or to all of its errors at once."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec

from weft.authoring import json_text, yaml_text
from weft.authoring.children import Children, Trail, find_children
from weft.authoring.errors import DefinitionErrors, Fault, LocatedError, Place, Unreadable, excerpt, located
from weft.authoring.source_positions import Token, find_places, name_length, nearest_found, place_of
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import Document, document_hash
from weft.core.definition.inferred_needs import Mentions
from weft.core.definition.problems import Path as ValuePath
from weft.core.definition.problems import Problem
from weft.core.definition.read import Reading, read
from weft.core.definition.site_defaults import NO_DEFAULTS, SiteDefaults, completed
from weft.core.definition.source_paths import Written
from weft.core.expressions import place as line_and_column
from weft.core.workflow import Workflow

Format = Literal["yaml", "json"]
BYTES_MAX = 32 * 1024 * 1024
ERRORS_MAX = 100


class Loaded(msgspec.Struct, frozen=True):
    """`document` is what is stored, `workflow` what runs, `source_path` None if there was no file. `children` are the
    workflows that its tasks name by file or flow."""

    document: Document
    workflow: Workflow
    source_path: Path | None = None
    children: "dict[str, Loaded]" = {}


def load_file(path: str | Path, bytes_max: int = BYTES_MAX, trail: Trail | None = None) -> Loaded:
    """JSON if the name ends in .json, YAML otherwise. The file's name is the workflow's, if it has none. The files
    that its tasks run are loaded with it; `trail` says which ones led here."""
    path = Path(path)
    text = _read_text(path, bytes_max)
    format_: Format = "json" if path.suffix.lower() == ".json" else "yaml"
    trail = trail if trail is not None else Trail()
    trail.files.append(os.path.realpath(path))
    try:
        loaded = load_text(text, workflow_name(path.stem), format_, str(path), path.absolute().parent, trail)
    finally:
        trail.files.pop()
    return msgspec.structs.replace(loaded, source_path=path.absolute())


def load_text(
    text: str,
    name: str = "workflow",
    format: Format = "yaml",
    file: str | None = None,
    directory: str | Path | None = None,
    trail: Trail | None = None,
) -> Loaded:
    """`name` is the workflow's if the text gives none, `file` what errors call the text. With `directory`, where its
    tasks start on this machine, the Python functions and the files of other workflows that it names are looked up
    there."""
    file = file if file is not None else name
    reader = json_text if format == "json" else yaml_text
    try:
        value, faults = reader.build(text)
    except Unreadable as error:
        raise _errors(file, reader.LINE_BREAK.split(text), list(error.faults)) from None
    reading = _checked(read(value, name), value, directory)
    children = Children()
    if directory is not None and reading.document is not None and not faults:
        children = find_children(reading.document, value, Path(directory), trail if trail is not None else Trail())
        if children.problems or children.errors:
            reading = Reading(None, tuple(children.problems))
    del value
    if faults or reading.document is None:
        raise _errors(file, reader.LINE_BREAK.split(text), faults, reading, reader.tokens(text), children.errors)
    return msgspec.structs.replace(_loaded(reading.document, reading.mentions), children=children.found)


def load_value(value: Any, name: str = "workflow", directory: str | Path | None = None) -> Loaded:
    """A definition made in Python: its errors have paths instead of lines."""
    reading = _checked(read(value, name), value, directory)
    if reading.document is None:
        errors = [_unlocated(name, problem) for problem in reading.problems[:ERRORS_MAX]]
        raise DefinitionErrors(errors, reading.more + len(reading.problems) - len(errors))
    return _loaded(reading.document, reading.mentions)


def with_defaults(loaded: Loaded, defaults: SiteDefaults) -> Loaded:
    """The definition, and those that its tasks run by file, with what the settings say where they say nothing."""
    return loaded if defaults == NO_DEFAULTS else _completed(loaded, defaults, {})


def _completed(loaded: Loaded, defaults: SiteDefaults, done: dict[int, Loaded]) -> Loaded:
    if id(loaded) not in done:
        document = completed(loaded.document, defaults)
        same = document == loaded.document
        done[id(loaded)] = msgspec.structs.replace(
            loaded,
            document=document,
            workflow=loaded.workflow if same else compile_workflow(document, document_hash(document)),
            children={name: _completed(child, defaults, done) for name, child in loaded.children.items()},
        )
    return done[id(loaded)]


def _checked(reading: Reading, value: Any, directory: str | Path | None) -> Reading:
    """With the problems that only the zone database, and those who have its Python functions, can find."""
    document = reading.document
    if document is not None and any("cron" in trigger for trigger in document.get("triggers", ())):
        from weft.authoring.trigger_checks import check_times

        wrong = check_times(document)
        if wrong:
            return Reading(None, tuple(wrong))
    if directory is None or document is None or not any("python" in task for task in document["tasks"].values()):
        return reading
    from weft.authoring.call_checks import check_calls

    problems = check_calls(document, Written(value), str(directory))
    return reading if not problems else Reading(None, tuple(problems))


def _unlocated(name: str, problem: Problem) -> LocatedError:
    source = caret = None
    if problem.spot is not None:
        text, column = problem.spot.text, problem.spot.column
        number, at = line_and_column(text, column)
        source, caret = excerpt(text.split("\n")[number - 1], at - 1, name_length(problem.spot))
    return LocatedError(name, None, None, problem.message, problem.fix, path_text(problem.path), source, caret)


def _loaded(document: Document, mentions: Mentions) -> Loaded:
    return Loaded(document, compile_workflow(document, document_hash(document), mentions))


def workflow_name(stem: str) -> str:
    """A file's name made fit for a workflow."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", stem)[:128].strip("-.") or "workflow"


def path_text(path: ValuePath) -> str:
    """('tasks', 'a', 'needs', 0) -> tasks.a.needs[0]"""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else str(part)
    return out


def _read_text(path: Path, bytes_max: int) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        _fail(path, {2: "there is no such file", 21: "this is a directory"}.get(error.errno or 0, error.strerror))
    except ValueError:
        _fail(path, "this is no file name")
    if len(data) > bytes_max:
        _fail(path, f"the file is larger than {bytes_max:,} bytes", "split it, or raise the limit")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        _fail(path, "the file is UTF-16, not UTF-8", "save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _fail(path, f"the file is not UTF-8 (byte 0x{data[error.start]:02x} in line {line})", "save it as UTF-8")


def _fail(path: Path, message: str | None, fix: str | None = None) -> NoReturn:
    raise DefinitionErrors([LocatedError(str(path), None, None, message or "it can't be read", fix)])


def _errors(
    file: str,
    lines: list[str],
    faults: list[Fault],
    reading: Reading | None = None,
    tokens: Iterable[Token] = (),
    others: Sequence[LocatedError] = (),
) -> DefinitionErrors:
    """Faults of the text and problems of its meaning together, in the order of the lines; then other files'."""
    rows: list[tuple[Place, Problem]] = [(f.place, Problem((), f.message, f.fix)) for f in faults]
    faulty = {fault.place.line for fault in faults}
    problems = () if reading is None else reading.problems
    found = find_places(tokens, [p.path for p in problems])
    for problem in problems:
        spot = nearest_found(found, problem.path)
        place = spot.key if problem.at == "key" and problem.path in found else spot.value
        if place.line not in faulty:  # what a faulty line means is not known, so it is not blamed twice
            rows.append((place, problem))
    rows.sort(key=lambda row: row[0][:2])
    shown = [_exactly(lines, *row) for row in rows[:ERRORS_MAX]]
    shown.sort(key=lambda row: row[0][:2])
    errors = [located(file, lines, place, p.message, p.fix, path_text(p.path) or None) for place, p in shown]
    errors += others
    return DefinitionErrors(errors, (reading.more if reading else 0) + len(rows) - len(shown))


def _exactly(lines: list[str], place: Place, problem: Problem) -> tuple[Place, Problem]:
    """Within an expression a problem has a column of its own."""
    if problem.spot is None:
        return place, problem
    exact = place_of(lines, place, problem.spot)
    if exact is not None:
        return exact, problem
    message = f"{problem.message} (at character {problem.spot.column:,} of this text)"
    return place, msgspec.structs.replace(problem, message=message)
