"""argparse, made from the table of commands, with errors that say what was meant."""

import argparse
import re
import sys
from typing import Any, NoReturn

from weft.cli.commands import BY_NAME, COMMANDS, EXIT_CODES, JSON, STORE, Command, Option

_UNKNOWN = re.compile(r"unrecognized arguments: (\S+)")


class Parser(argparse.ArgumentParser):
    """Exit code 2 and one or two lines; no page of usage."""

    def error(self, message: str) -> NoReturn:
        fix = self._fix(message)
        self.exit(2, f"weft: {message}\n" + (f"  fix: {fix}\n" if fix else f"  see: {self.prog} --help\n"))

    def _fix(self, message: str) -> str | None:
        from weft.core.suggest import nearest

        unknown = _UNKNOWN.match(message)
        if not unknown:
            return None
        word = unknown[1].split("=")[0]
        known = [name for action in self._actions for name in action.option_strings]
        command = next((a for a in sys.argv[1:] if a in BY_NAME), None)
        if command is not None:
            known += [name for option in BY_NAME[command].options for name in option.names if name.startswith("-")]
        meant = nearest(word, known) if word.startswith("--") else None
        return f"did you mean {meant}?" if meant else None

    def print_help(self, file: Any = None) -> None:
        text = overview() if self.prog == "weft" else self.format_help()
        (file or sys.stdout).write(text)


def make_parser() -> Parser:
    parser = Parser(prog="weft", add_help=True, allow_abbrev=False)
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--store", default=None)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS:
        _add(commands, command)
    return parser


def _add(commands: "argparse._SubParsersAction[Parser]", command: Command) -> None:
    sub = commands.add_parser(
        command.name,
        description=_sentence(command.summary) + (f"\n\n{command.note}" if command.note else ""),
        usage=usage(command),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter if "\n" in command.note else argparse.HelpFormatter,
    )
    for option in all_options(command):
        given = dict(option.given)
        if option is STORE:
            given["default"] = argparse.SUPPRESS  # may stand before the command, too
        sub.add_argument(*option.names, help=option.help.replace("%", "%%"), **given)


def all_options(command: Command) -> tuple[Option, ...]:
    return (*command.options, *((STORE,) if command.store else ()), JSON)


def usage(command: Command) -> str:
    words = ["weft", command.name]
    for option in command.options:
        if not option.names[0].startswith("-"):
            word = option.given.get("metavar") or "|".join(option.given["choices"])
            count = option.given.get("nargs")
            words.append({"?": f"[{word}]", "*": f"[{word}…]", "+": f"{word}…"}.get(str(count), word))
    if command.name == "run":
        words[-1] = "FILE | -- CMD…"
        words.insert(2, "[options]")
    elif any(option.names[0].startswith("-") for option in command.options):
        words.append("[options]")
    return " ".join(words)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def overview() -> str:
    """What `weft` and `weft --help` print."""
    lines = ["weft runs graphs of tasks, durably and in parallel.", "", "usage: weft COMMAND [options]"]
    group = ""
    for command in COMMANDS:
        if command.group != group:
            group = command.group
            lines += ["", f"{group}:"]
        lines.append(f"  {command.name:<9} {command.summary}")
    lines += ["", "weft COMMAND --help says more. First steps: weft init, then weft run workflow.yaml", ""]
    return "\n".join(lines) + f"exit codes: {EXIT_CODES}\n"
