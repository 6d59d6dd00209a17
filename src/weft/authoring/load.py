"""Loads a definition from a file, a text or a value: a workflow that can run, or all errors together."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec

from weft.authoring import json_text, yaml_text
from weft.authoring.children import ChildDefinitions, LoadTrail, find_children
from weft.authoring.errors import (
    DefinitionErrors,
    LocatedError,
    SyntaxFault,
    TextPosition,
    UnreadableText,
    excerpt,
    located,
)
from weft.authoring.source_positions import TextToken, find_positions, name_length, nearest_position, position_in_text
from weft.core.definition.compile import compile_workflow
from weft.core.definition.document import Document, encode_document, encoded_hash
from weft.core.definition.inferred_needs import ReferencesByText
from weft.core.definition.inputs import define_inputs
from weft.core.definition.problems import Path as ValuePath
from weft.core.definition.problems import ValueProblem
from weft.core.definition.read import ReadResult, read
from weft.core.definition.site_defaults import NO_DEFAULTS, SiteDefaults, with_site_defaults
from weft.core.definition.source_paths import SourcePaths
from weft.core.expressions import place as line_and_column
from weft.core.workflow import InputDef, Workflow

Format = Literal["yaml", "json"]
BYTES_MAX = 32 * 1024 * 1024
ERRORS_MAX = 100


class Loaded(msgspec.Struct, frozen=True):
    """A loaded definition: `encoded` is its document as it is hashed and stored, `workflow` runs, `source_path` is
    None without a file. `children` are the workflows that its tasks name by file or flow."""

    document: Document
    encoded: bytes
    hash: str
    references: ReferencesByText | None = None
    source_path: Path | None = None
    children: "dict[str, Loaded]" = {}
    compiled: Workflow | None = None

    @classmethod
    def of(
        cls,
        document: Document,
        encoded: bytes,
        references: ReferencesByText | None = None,
        source_path: Path | None = None,
        children: "dict[str, Loaded] | None" = None,
    ) -> "Loaded":
        return cls(document, encoded, encoded_hash(encoded), references, source_path, children or {})

    @property
    def name(self) -> str:
        return str(self.document["name"])

    @property
    def inputs(self) -> dict[str, InputDef]:
        return define_inputs(self.document.get("inputs", {}))

    @property
    def workflow(self) -> Workflow:
        """Compiled at first use, because that costs as much as all checks: a client that only submits does not need
        it, and a server may know it by its hash (`compiled`)."""
        if self.compiled is None:
            compiled = compile_workflow(self.document, self.hash, self.references)
            msgspec.structs.force_setattr(self, "compiled", compiled)
            return compiled
        return self.compiled


def load_file(path: str | Path, bytes_max: int = BYTES_MAX, trail: LoadTrail | None = None) -> Loaded:
    """JSON if the name ends in .json, YAML otherwise. A workflow without a name gets that of the file. The files that
    its tasks run are loaded with it; `trail` lists the files that led to this one."""
    path = Path(path)
    text = _read_text(path, bytes_max)
    format_: Format = "json" if path.suffix.lower() == ".json" else "yaml"
    trail = trail if trail is not None else LoadTrail()
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
    trail: LoadTrail | None = None,
) -> Loaded:
    """`name` is the workflow's name if the text has none, `file` the name of the text in errors. `directory` is where
    its tasks start on this machine: there its Python functions and the files of other workflows are looked up."""
    file = file if file is not None else name
    reader = json_text if format == "json" else yaml_text
    try:
        value, faults = reader.build(text)
    except UnreadableText as error:
        raise _errors(file, reader.LINE_BREAK.split(text), list(error.faults)) from None
    reading = _checked(read(value, name), value, directory)
    children = ChildDefinitions()
    if directory is not None and reading.document is not None and not faults:
        children = find_children(
            reading.document, value, Path(directory), trail if trail is not None else LoadTrail()
        )
        if children.problems or children.errors:
            reading = ReadResult(None, tuple(children.problems))
    del value
    if faults or reading.document is None:
        raise _errors(file, reader.LINE_BREAK.split(text), faults, reading, reader.tokens(text), children.errors)
    return Loaded.of(reading.document, reading.encoded, reading.references, None, children.loaded)


def load_value(value: Any, name: str = "workflow", directory: str | Path | None = None) -> Loaded:
    """A definition created in Python: its errors have paths instead of lines."""
    reading = _checked(read(value, name), value, directory)
    if reading.document is None:
        errors = [_unlocated(name, problem) for problem in reading.problems[:ERRORS_MAX]]
        raise DefinitionErrors(errors, reading.more + len(reading.problems) - len(errors))
    return Loaded.of(reading.document, reading.encoded, reading.references)


def with_defaults(loaded: Loaded, defaults: SiteDefaults) -> Loaded:
    """The definition, and those that its tasks run by file, with the settings where they set nothing themselves."""
    return loaded if defaults == NO_DEFAULTS else _with_defaults(loaded, defaults, {})


def _with_defaults(loaded: Loaded, defaults: SiteDefaults, done: dict[int, Loaded]) -> Loaded:
    if id(loaded) not in done:
        document = with_site_defaults(loaded.document, defaults)
        same = document == loaded.document
        changed = loaded if same else Loaded.of(document, encode_document(document), loaded.references)
        done[id(loaded)] = msgspec.structs.replace(
            changed,
            source_path=loaded.source_path,
            children={name: _with_defaults(child, defaults, done) for name, child in loaded.children.items()},
        )
    return done[id(loaded)]


def _checked(reading: ReadResult, value: Any, directory: str | Path | None) -> ReadResult:
    """With the problems that only the zone database, plugins and the source of its Python functions show."""
    document = reading.document
    if document is not None and any("cron" in trigger for trigger in document.get("triggers", ())):
        from weft.authoring.trigger_checks import check_times

        wrong = check_times(document)
        if wrong:
            return ReadResult(None, tuple(wrong))
    if document is not None and any("type" in task for task in document["tasks"].values()):
        from weft.authoring.plugin_specs import check_specs

        found = check_specs(document, value)
        if found:
            return ReadResult(None, tuple(found))
    if directory is None or document is None or not any("python" in task for task in document["tasks"].values()):
        return reading
    from weft.authoring.call_checks import check_calls

    problems = check_calls(document, SourcePaths(value), str(directory))
    return reading if not problems else ReadResult(None, tuple(problems))


def _unlocated(name: str, problem: ValueProblem) -> LocatedError:
    source = caret = None
    if problem.offset is not None:
        text, column = problem.offset.text, problem.offset.column
        number, at = line_and_column(text, column)
        source, caret = excerpt(text.split("\n")[number - 1], at - 1, name_length(problem.offset))
    return LocatedError(name, None, None, problem.message, problem.fix, path_text(problem.path), source, caret)


def workflow_name(stem: str) -> str:
    """A workflow name from the name of a file."""
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
        _fail(path, "this is not a file name")
    if len(data) > bytes_max:
        _fail(path, f"the file is larger than {bytes_max:,} bytes", "split the workflow, or raise the limit")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        _fail(path, "the file is UTF-16, not UTF-8", "save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _fail(path, f"the file is not UTF-8 (byte 0x{data[error.start]:02x} in line {line})", "save it as UTF-8")


def _fail(path: Path, message: str | None, fix: str | None = None) -> NoReturn:
    raise DefinitionErrors([LocatedError(str(path), None, None, message or "the file cannot be read", fix)])


def _errors(
    file: str,
    lines: list[str],
    faults: list[SyntaxFault],
    reading: ReadResult | None = None,
    tokens: Iterable[TextToken] = (),
    others: Sequence[LocatedError] = (),
) -> DefinitionErrors:
    """Syntax faults and problems together, in the order of the lines; then the errors of other files."""
    rows: list[tuple[TextPosition, ValueProblem]] = [(f.position, ValueProblem((), f.message, f.fix)) for f in faults]
    faulty = {fault.position.line for fault in faults}
    problems = () if reading is None else reading.problems
    positions = find_positions(tokens, [p.path for p in problems])
    for problem in problems:
        entry = nearest_position(positions, problem.path)
        position = entry.key if problem.at == "key" and problem.path in positions else entry.value
        if position.line not in faulty:  # the value of a faulty line is not known, so its problems are not reported
            rows.append((position, problem))
    rows.sort(key=lambda row: row[0][:2])
    shown = [_with_offset(lines, *row) for row in rows[:ERRORS_MAX]]
    shown.sort(key=lambda row: row[0][:2])
    errors = [located(file, lines, position, p.message, p.fix, path_text(p.path) or None) for position, p in shown]
    errors += others
    return DefinitionErrors(errors, (reading.more if reading else 0) + len(rows) - len(shown))


def _with_offset(
    lines: list[str], position: TextPosition, problem: ValueProblem
) -> tuple[TextPosition, ValueProblem]:
    """The position of a problem within a text: that of its column in the text."""
    if problem.offset is None:
        return position, problem
    exact = position_in_text(lines, position, problem.offset)
    if exact is not None:
        return exact, problem
    message = f"{problem.message} (at character {problem.offset.column:,} of this text)"
    return position, msgspec.structs.replace(problem, message=message)
