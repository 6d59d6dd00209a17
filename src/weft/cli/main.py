"""The `weft` command: finds the command's code, and turns whatever goes wrong into a message and an exit code."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from weft.cli import exit_codes as exits
from weft.cli.command_table import BY_NAME, DESTRUCTIVE, ELSEWHERE
from weft.cli.interrupts import uninterrupted
from weft.cli.standard_streams import OutputLost

if TYPE_CHECKING:
    from argparse import Namespace


def main(argv: list[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _main(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except OutputLost as problem:
        if problem.reader_gone:  # it has seen enough
            return exits.OK
        sys.stderr.write(f"weft: {problem}\n")
        return exits.UNREACHABLE


def _main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        from weft.cli.parser import overview

        if len(words) > 1 and words[1] in BY_NAME:
            return _main([words[1], "--help"])
        sys.stdout.write(overview())
        return exits.OK
    try:
        args = _parse(words)
    except exits.GiveUp as problem:
        ours = words[: words.index("--")] if "--" in words else words
        return _print_problem("--json" in ours, problem.code, str(problem))
    return exits.OK if args is None else _call(args)


def _parse(words: list[str]) -> "Namespace | None":
    """None: help was asked for, and has been printed."""
    from weft.cli.arguments import check_words, shown
    from weft.cli.parser import make_parser

    check_words(words)
    first = next((w for w in words if not w.startswith("-")), None)
    at = words.index(first) if first is not None else 0
    if first is not None and first not in BY_NAME and (at == 0 or words[at - 1] not in ("--store", "--server")):
        from weft.core.definition.suggest import nearest

        safe = [name for name in BY_NAME if name not in DESTRUCTIVE]
        meant = ELSEWHERE.get(first) or nearest(first, safe)
        fix = f"did you mean {meant!r}?" if meant else "weft --help lists the commands"
        raise exits.GiveUp(exits.BAD_INPUT, f"there is no command {shown(first)!r}", fix)
    command: list[str] | None = None
    if "--" in words and "run" in words[: words.index("--")]:
        split = words.index("--")
        words, command = words[:split], words[split + 1 :]
    try:
        parser = make_parser(words[0] if words[0] in BY_NAME else None)
        args, unknown = parser.parse_known_args(words)
        if unknown:
            parser.unknown(args.command, unknown[0])
    except SystemExit:
        return None
    args.argv = command
    if args.version:
        args.command = "version"
    if args.command is None:
        raise exits.GiveUp(exits.BAD_INPUT, "no command", "weft --help lists the commands")
    return args


def _call(args: "Namespace") -> int:
    with uninterrupted():
        from weft.cli.session import CommandSession
        from weft.config import BadSetting

        module, function = BY_NAME[args.command].target
        command = getattr(import_module(module), function)
    session: CommandSession | None = None
    try:
        session = CommandSession(args)
        code: int = command(args, session)
        return code
    except OutputLost:
        raise
    except exits.GiveUp as problem:
        return _print_problem(args.json, problem.code, str(problem))
    except BadSetting as problem:
        return _print_problem(args.json, exits.BAD_INPUT, str(problem))
    except Exception as problem:
        code = _code_of(problem)
        if code < 0:
            raise
        located = (
            problem.as_json() if hasattr(problem, "as_json") else None
        )  # errors of a definition, with their lines
        return _print_problem(args.json, code, str(problem), prefix="weft: " if located is None else "", more=located)
    finally:
        if session is not None:
            session.close()


def _code_of(problem: Exception) -> int:
    """The exit code of an error that is not ours to be surprised at; below 0: it is a bug."""
    from weft.authoring.errors import DefinitionErrors
    from weft.core.commands import Refused
    from weft.operations.errors import Ambiguous, NotFound
    from weft.store.protocol import StoreError, StoreGone, StoreUnusable

    if isinstance(problem, NotFound) or (isinstance(problem, Refused) and problem.code == "not_found"):
        return exits.NOT_FOUND
    if isinstance(problem, StoreGone):
        return exits.UNREACHABLE
    if isinstance(problem, (DefinitionErrors, Ambiguous, Refused, StoreUnusable)):
        return exits.BAD_INPUT
    return exits.UNREACHABLE if isinstance(problem, (StoreError, OSError)) else -1


def _print_problem(
    json_too: bool, code: int, message: str, prefix: str = "weft: ", more: dict[str, object] | None = None
) -> int:
    if json_too:
        import json

        sys.stdout.write(json.dumps({"error": {"code": code, "message": message, **(more or {})}}) + "\n")
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write((prefix + message).encode(encoding, "backslashreplace").decode(encoding) + "\n")
    return code
