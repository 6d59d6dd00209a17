"""Configuration files of MCP clients: where each has its own, and how an entry for Weft is merged into it.

What a client's file holds besides is kept: a file that cannot be merged without losing something (comments, doubled
keys, another form) is left as it is, and the caller shows what to add by hand. Nothing is written in place.
"""

import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft.store.private_files import FILE_MODE

NAME: Final = "weft"
BACKUP: Final = ".before-weft"


class CannotMerge(Exception):
    """The file is left as it is; the text says why."""


class ClientFile(NamedTuple):
    """`path` takes the working directory and the home; `keys` lead to the servers; `extra` is what an entry has
    beside command and args."""

    title: str
    path: Callable[[Path, Path], Path]
    keys: str = "mcpServers"
    extra: dict[str, str] = {}  # noqa: RUF012 - never changed
    toml: bool = False


def _settings(home: Path, mac: str, linux: str) -> Path:
    return home / (f"Library/Application Support/{mac}" if sys.platform == "darwin" else f".config/{linux}")


CLIENTS: Final[dict[str, ClientFile]] = {
    "claude": ClientFile("Claude Code", lambda here, home: here / ".mcp.json", extra={"type": "stdio"}),
    "claude-desktop": ClientFile(
        "Claude Desktop", lambda here, home: _settings(home, "Claude", "Claude") / "claude_desktop_config.json"
    ),
    "cursor": ClientFile("Cursor", lambda here, home: here / ".cursor/mcp.json"),
    "vscode": ClientFile("VS Code", lambda here, home: here / ".vscode/mcp.json", "servers", {"type": "stdio"}),
    "codex": ClientFile("Codex", lambda here, home: home / ".codex/config.toml", "mcp_servers", toml=True),
    "gemini": ClientFile("Gemini CLI", lambda here, home: here / ".gemini/settings.json"),
    "windsurf": ClientFile("Windsurf", lambda here, home: home / ".codeium/windsurf/mcp_config.json"),
    "zed": ClientFile("Zed", lambda here, home: home / ".config/zed/settings.json", "context_servers",
        {"source": "custom"}),
}  # fmt: skip


def entry_of(client: ClientFile, argv: list[str], env: dict[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {**client.extra, "command": argv[0], "args": argv[1:]}
    return {**entry, "env": env} if env else entry


def snippet(client: ClientFile, entry: dict[str, Any]) -> str:
    """What a file without anything else would hold."""
    return _toml_block(client, entry) if client.toml else _json_text({client.keys: {NAME: entry}}, 2)


def merged(client: ClientFile, old: str | None, entry: dict[str, Any] | None) -> str:
    """The file's new text; None as the entry removes it. Raises CannotMerge."""
    return (_merged_toml if client.toml else _merged_json)(client, old or "", entry)


def _merged_json(client: ClientFile, old: str, entry: dict[str, Any] | None) -> str:
    try:
        value = json.loads(old, object_pairs_hook=_once) if old.strip() else {}
    except ValueError as error:
        raise CannotMerge(f"it is no plain JSON ({error}): comments would be lost") from None
    servers = value.get(client.keys, {}) if isinstance(value, dict) else None
    if not isinstance(servers, dict):
        raise CannotMerge(f"it holds no object {client.keys}")
    changed = {name: one for name, one in servers.items() if name != NAME or entry is not None}
    if entry is not None:
        changed[NAME] = entry
    if changed == servers:
        return old
    return _json_text({**value, client.keys: changed}, _indent(old))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key stands there twice")
    return out


def _indent(text: str) -> int | str:
    """As the file has it: the white space before its first key."""
    second = text.strip().partition("\n")[2].partition("\n")[0]
    space = second[: len(second) - len(second.lstrip())]
    return "\t" if space.startswith("\t") else len(space) or 2


def _json_text(value: Any, indent: int | str) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False) + "\n"


def _merged_toml(client: ClientFile, old: str, entry: dict[str, Any] | None) -> str:
    """Only the lines of our own table are touched; the result is read again and compared with what it shall be."""
    try:
        before = tomllib.loads(old)
    except tomllib.TOMLDecodeError as error:
        raise CannotMerge(f"it is no TOML: {error}") from None
    servers = before.get(client.keys, {})
    if not isinstance(servers, dict):
        raise CannotMerge(f"it holds no table {client.keys}")
    if servers.get(NAME) == entry:
        return old
    text = "".join(_without_table(old, f"[{client.keys}.{NAME}]")).rstrip("\n")
    block = "" if entry is None else _toml_block(client, entry)
    new = "\n\n".join(filter(None, [text, block])) + ("" if block or not text else "\n")
    rest = {name: one for name, one in servers.items() if name != NAME}
    after = {**rest, **({} if entry is None else {NAME: entry})}
    expected = {**before, **({client.keys: after} if after else {})}
    if not after:
        expected.pop(client.keys, None)
    try:
        same = tomllib.loads(new) == expected
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise CannotMerge(f"its table {client.keys} is written in another form")
    return new


def _without_table(text: str, header: str) -> list[str]:
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            inside = line.strip() == header
        elif inside and "#" in line:
            raise CannotMerge(f"the table {header} has comments")
        if not inside:
            kept.append(line)
    return kept


def _toml_block(client: ClientFile, entry: dict[str, Any]) -> str:
    lines = [f"[{client.keys}.{NAME}]"]
    for name, value in entry.items():
        if isinstance(value, dict):
            lines.append(f"{name} = {{{', '.join(f'{key} = {_toml(one)}' for key, one in value.items())}}}")
        else:
            lines.append(f"{name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """JSON writes texts and lists of them as TOML does, but for DEL, which no path of ours has."""
    return json.dumps(value, ensure_ascii=False)


def write_file(path: Path, text: str, old: str | None, *, private: bool) -> Path | None:
    """Whole or not at all, through links, with the mode that it had; the backup of what was there before."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    backup = None
    if old is not None:
        backup = path.with_name(path.name + BACKUP)
        _replace(backup, old, path.stat().st_mode & 0o777)
    mode = FILE_MODE if private else path.stat().st_mode & 0o777 if old is not None else 0o644
    _replace(path, text, mode)
    return backup


def _replace(path: Path, text: str, mode: int) -> None:
    fd, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(fd, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
