"""From a command's arguments to a definition and the values of its inputs."""

import json
import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, Literal

from weft.authoring.children import LoadTrail
from weft.authoring.flow_files import load_definition
from weft.authoring.load import Loaded, load_text, load_value
from weft.cli.exit_codes import BAD_INPUT, GiveUp
from weft.core.definition.inputs import InputError, parse_input, resolve_inputs
from weft.core.workflow import Workflow

INPUT_BYTES_MAX = 16 * 1024 * 1024


def load(args: Namespace) -> Loaded:
    argv: list[str] | None = args.argv
    if argv is not None:
        if args.file is not None:
            raise GiveUp(BAD_INPUT, "a file and a command cannot both be run", "leave one of them out")
        return _load_command(argv)
    if args.file is None:
        raise GiveUp(BAD_INPUT, "nothing to run", "weft run FILE, or weft run -- CMD…")
    return load_named(args.file)


def load_named(name: str | Path, trail: LoadTrail | None = None) -> Loaded:
    """A file, a flow, or - for standard input."""
    return _load_standard_input(trail) if name == "-" else load_definition(name, trail)


def _load_standard_input(trail: LoadTrail | None) -> Loaded:
    """JSON if it begins as only JSON does. Files that it names are relative to the current directory."""
    try:
        text = sys.stdin.buffer.read()
        form: Literal["json", "yaml"] = "json" if re.match(rb'\s*\{\s*["}]', text) else "yaml"
        return load_text(text.decode(), "stdin", form, directory=Path.cwd(), trail=trail)
    except UnicodeDecodeError:
        raise GiveUp(BAD_INPUT, "standard input is not UTF-8") from None
    except OSError as error:
        raise GiveUp(BAD_INPUT, f"standard input cannot be read: {error.strerror}") from None


def _load_command(argv: list[str]) -> Loaded:
    if not argv:
        raise GiveUp(BAD_INPUT, "no command after --", "weft run -- CMD…")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(argv[0]).name).strip("-")[:64]
    name = stem if re.match(r"[A-Za-z_]", stem) else "command"
    return load_value({"name": name, "tasks": {name: {"argv": [word.replace("${{", "$${{") for word in argv]}}})


def source_directory(loaded: Loaded, workdir: Path) -> str:
    """Where the tasks start: beside their definition. Without a file, where the run was asked for, so that a
    resume from elsewhere goes on in the same place."""
    return str(workdir if loaded.source_path is None else loaded.source_path.parent)


def given_inputs(workflow: Workflow, given: list[str]) -> dict[str, Any]:
    """`--input` values, each of its type; those that are not given are left out."""
    values, errors = _parsed(workflow, given)
    if errors:
        raise GiveUp(BAD_INPUT, "\n".join(errors))
    return values


def _parsed(workflow: Workflow, given: list[str]) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    errors: list[str] = []
    for word in given:
        name, equals, text = word.partition("=")
        if not equals or not name:
            errors.append(f"--input {word}: expected NAME=VALUE")
            continue
        try:
            if text.startswith("@"):
                text = text[1:] if text.startswith("@@") else _read_value(text[1:])
            declared = workflow.inputs.get(name)
            values[name] = text if declared is None else parse_input(declared, text)
        except (InputError, OSError, ValueError) as error:
            errors.append(f"--input {name}: {getattr(error, 'strerror', None) or error}")
    return values, errors


def read_inputs(workflow: Workflow, given: list[str]) -> str:
    """`--input` values as JSON, all errors at once."""
    values, errors = _parsed(workflow, given)
    resolved, problems = resolve_inputs(workflow.inputs, values)
    broken = {error.split(":")[0].removeprefix("--input ") for error in errors}
    for problem in problems:
        if str(problem.path[0]) not in broken:  # one line per mistake
            errors.append(problem.message + (f"; {problem.fix}" if problem.fix else ""))
    if errors:
        raise GiveUp(BAD_INPUT, "\n".join(errors))
    return json.dumps(resolved)


def _read_value(path: str) -> str:
    with open(path, "rb") as file:
        data = file.read(INPUT_BYTES_MAX + 1)
    if len(data) > INPUT_BYTES_MAX:
        raise ValueError(f"{path} is larger than {INPUT_BYTES_MAX:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8") from None
