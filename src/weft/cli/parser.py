"""argparse, made from the table of commands, with errors that say what was meant."""

import argparse
import sys
from typing import Any, NoReturn

from weft.cli.arguments import shown
from weft.cli.command_table import BY_NAME, COMMANDS, CONSISTENT, EXIT_CODES, JSON, SERVER, STORE, Command, Option
from weft.cli.exit_codes import BAD_INPUT, GiveUp

MESSAGE_MAX = 400  # argparse repeats what was given


class Parser(argparse.ArgumentParser):
    """One or two lines; no page of usage."""

    def error(self, message: str) -> NoReturn:
        cut = message if len(message) <= MESSAGE_MAX else f"{message[:MESSAGE_MAX]}…"
        raise GiveUp(BAD_INPUT, f"{cut}\n  see: {self.prog} --help")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Python 3.11 would take `--limit=--` for an empty list."""
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            self.error(f"argument {'/'.join(action.option_strings)}: expected a value, found '--'")
        return super()._get_values(action, arg_strings)

    def unknown(self, command: str | None, word: str) -> NoReturn:
        from weft.core.definition.suggest import nearest

        options = all_options(BY_NAME[command]) if command in BY_NAME else (STORE, SERVER, JSON)
        names = {name.lstrip("-"): name for option in options for name in option.names if name.startswith("--")}
        meant = names.get(nearest(word.split("=")[0].lstrip("-"), names) or "")
        called = "weft" if command is None else f"weft {command}"
        fix = f"fix: did you mean {meant}?" if meant else f"see: {called} --help"
        raise GiveUp(BAD_INPUT, f"unknown option {shown(word)!r} for {called}\n  {fix}")

    def print_help(self, file: Any = None) -> None:
        text = overview() if self.prog == "weft" else self.format_help()
        (file or sys.stdout).write(text)


def make_parser(only: str | None = None) -> Parser:
    """With all commands, or with the `only` one that will be parsed: to describe all of them takes 19 ms."""
    parser = Parser(prog="weft", add_help=True, allow_abbrev=False)
    parser.add_argument("--version", "-V", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", default=None)
    parser.add_argument("--server", default=None)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS if only is None else (BY_NAME[only],):
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
        if option in (STORE, SERVER, JSON):
            given["default"] = argparse.SUPPRESS  # may stand before the command, too
        sub.add_argument(*option.names, help=option.help.replace("%", "%%"), **given)


def all_options(command: Command) -> tuple[Option, ...]:
    shared = ((STORE, SERVER) if command.remote else (STORE,)) if command.store else ()
    looks = (CONSISTENT,) if shared and command.group == "Look" else ()
    return (*command.options, *looks, *shared, JSON)


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
