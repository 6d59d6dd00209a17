"""docs/reference/cli.md and settings.md, made from the tables that the program itself uses.

python -m weft.cli.reference DIRECTORY writes both; a test compares them with what is stored.
"""

import sys
from pathlib import Path

from weft.cli.command_table import COMMANDS, EXIT_CODES, Command, Option
from weft.cli.parser import all_options, usage
from weft.config import SETTINGS

_MADE = "<!-- Made by python -m weft.cli.reference from src/weft/cli/commands.py and src/weft/config.py. -->"


def cli_reference() -> str:
    lines = ["# The command line", "", _MADE, "", "RUN is a run's id, the beginning of one, or `last`.", ""]
    lines += ["Exit codes: " + EXIT_CODES + ".", ""]
    for command in COMMANDS:
        lines += _command(command)
    return "\n".join(lines)


def _command(command: Command) -> list[str]:
    lines = [f"## weft {command.name}", "", f"    {usage(command)}", ""]
    lines += [command.summary[:1].upper() + command.summary[1:] + ".", ""]
    if command.note:
        lines += [command.note, ""]
    lines += ["| argument | meaning |", "| --- | --- |"]
    lines += [
        f"| `{_spelled(option)}` | {option.help.replace('|', chr(92) + '|')} |" for option in all_options(command)
    ]
    return [*lines, ""]


def _spelled(option: Option) -> str:
    value = (option.given.get("metavar") or "|".join(option.given.get("choices", ()))).replace("|", "\\|")
    if not option.names[0].startswith("-"):
        return str(value)
    return ", ".join(option.names) + (f" {value}" if value else "")


def settings_reference() -> str:
    lines = ["# Settings", "", _MADE, ""]
    lines += [
        "From `weft.toml`, searched upward from the working directory, and from the environment. A flag wins over a",
        "variable, a variable over the file, the file over the default. Paths in the file are relative to the file.",
        "An unknown key in the file is an error. `NO_COLOR` and `FORCE_COLOR` are heeded where `color` is auto.",
        "",
        "| in weft.toml | variable | type | default | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for setting in SETTINGS:
        kind = " \\| ".join(setting.choices) or setting.kind
        default = setting.default.strip("()") or "none"
        lines.append(f"| `{setting.name}` | `{setting.variable}` | {kind} | {default} | {setting.doc} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    directory = Path(sys.argv[1])
    (directory / "cli.md").write_text(cli_reference())
    (directory / "settings.md").write_text(settings_reference())


if __name__ == "__main__":
    main()
