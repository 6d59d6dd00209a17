"""`weft mcp install`: entries in the files of clients, merged with what is there."""

import json
import os
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.forked import run
from weft.cli.command_table import MCP_CLIENTS
from weft.mcp.install import BACKUP, CLIENTS, NAME, CannotMerge, entry_of, merged, snippet, write_file

ARGV = ["/usr/bin/weft", "mcp", "--store", '/data/ü "quoted"/weft.db']
JSON_CLIENTS = [name for name, client in CLIENTS.items() if not client.toml]


def test_the_command_knows_all_clients() -> None:
    assert tuple(CLIENTS) == MCP_CLIENTS


@pytest.mark.parametrize("name", JSON_CLIENTS)
def test_json_files_keep_what_they_hold(name: str) -> None:
    client = CLIENTS[name]
    entry = entry_of(client, ARGV, {})
    assert json.loads(merged(client, None, entry)) == {client.keys: {NAME: entry}}
    old = json.dumps({"theme": "dark ü", client.keys: {"other": {"command": "x"}}, "last": [1]}, indent=4)
    new = merged(client, old, entry)
    assert new.startswith('{\n    "theme"')
    assert list(json.loads(new)) == ["theme", client.keys, "last"]
    assert json.loads(new)[client.keys] == {"other": {"command": "x"}, NAME: entry}
    assert merged(client, new, entry) == new
    assert json.loads(merged(client, new, None)) == json.loads(old)
    assert merged(client, old, None) == old


@pytest.mark.parametrize(
    "old",
    [
        '{// a comment\n"a": 1}',
        '{"a": 1,}',
        '{"a": 1, "a": 2}',
        "[]",
        '{"mcpServers": []}',
        '{"mcpServers": null}',
        "x",
    ],
)
def test_what_would_be_lost_is_left_alone(old: str) -> None:
    with pytest.raises(CannotMerge):
        merged(CLIENTS["cursor"], old, entry_of(CLIENTS["cursor"], ARGV, {}))


def test_toml_files_keep_comments_and_order() -> None:
    client = CLIENTS["codex"]
    entry = entry_of(client, ARGV, {"WEFT_TOKEN": "t"})
    old = '# mine\nmodel = "x"  # the model\n\n[mcp_servers.other]\ncommand = "o"\n\n[profiles.a]\nb = 1\n'
    new = merged(client, old, entry)
    assert new.startswith(old.rstrip("\n"))
    assert tomllib.loads(new)["mcp_servers"] == {"other": {"command": "o"}, NAME: entry}
    assert merged(client, new, entry) == new
    other = entry_of(client, [*ARGV, "--work"], {})
    changed = merged(client, new + '\n[after]\nc = "[mcp_servers.weft]"\n', other)
    assert tomllib.loads(changed)["mcp_servers"][NAME] == other
    assert tomllib.loads(changed)["after"] == {"c": "[mcp_servers.weft]"}
    assert "# the model" in changed
    assert merged(client, new, None) == old
    assert merged(client, None, entry) == snippet(client, entry)
    assert merged(client, snippet(client, entry), None) == ""


@pytest.mark.parametrize(
    "old",
    [
        'mcp_servers = {other = {command = "o"}}\n', 'mcp_servers.weft.command = "x"\n', "not toml",
        '[mcp_servers.weft]\n# why\ncommand = "x"\n',
        '[mcp_servers.weft]\ncommand = "x"\n[mcp_servers.weft.env]\nA = "b"\n',
        'text = """\n[mcp_servers.weft]\n"""\n[mcp_servers.weft]\ncommand = "x"\n',
    ],
)  # fmt: skip
def test_toml_in_another_form_is_left_alone(old: str) -> None:
    with pytest.raises(CannotMerge):
        merged(CLIENTS["codex"], old, entry_of(CLIENTS["codex"], ARGV, {}))


def test_files_are_replaced_whole_through_links_and_keep_their_mode(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text("{}")
    real.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(real)
    backup = write_file(link, "new", "{}", private=False)
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert backup == real.with_name(real.name + BACKUP)
    assert backup.read_text() == "{}"
    write_file(real, "secret", "new", private=True)
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert sorted(one.name for one in real.parent.iterdir()) == ["settings.json", f"settings.json{BACKUP}"]


class Machine:
    def __init__(self, directory: Path) -> None:
        self.home, self.here = directory / "home", directory / "project"
        self.home.mkdir()
        self.here.mkdir()

    def __call__(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        given = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        done = run(["mcp", "install", *words], self.here, {**given, "HOME": str(self.home), **env})
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_the_command_writes_shows_and_removes(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    refused = machine()
    assert refused.returncode == 2
    assert "--client claude|claude-desktop" in refused.stderr
    shown = machine("--client", "codex", "--print", "--read-only")
    assert tomllib.loads(shown.stdout)["mcp_servers"][NAME]["args"][-3:-1] == ["--read-only", "--store"]
    assert not (machine.home / ".codex").exists()
    done = machine("--client", "codex", "--client", "claude", "--work")
    assert done.returncode == 0, done.stderr
    entry = json.loads((machine.here / ".mcp.json").read_text())["mcpServers"][NAME]
    assert entry["args"][-3:] == ["--work", "--store", str(machine.here / ".weft" / "weft.db")]
    assert Path(entry["command"]).is_absolute()
    assert "nothing to change" in machine("--client", "claude", "--work").stdout
    assert machine("--client", "claude", "--remove").returncode == 0
    assert json.loads((machine.here / ".mcp.json").read_text()) == {"mcpServers": {}}


def test_tokens_are_written_only_if_that_is_asked_for(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    server = ("--client", "cursor", "--server", "http://127.0.0.1:8700")
    file = machine.here / ".cursor" / "mcp.json"
    assert machine(*server, WEFT_TOKEN="secret-0123456789").returncode == 0
    assert "secret" not in file.read_text()
    assert json.loads(file.read_text())["mcpServers"][NAME]["args"][-2:] == ["--server", "http://127.0.0.1:8700"]
    assert machine(*server, "--write-token").returncode == 2
    assert machine(*server, "--write-token", WEFT_TOKEN="secret-0123456789").returncode == 0
    assert json.loads(file.read_text())["mcpServers"][NAME]["env"] == {"WEFT_TOKEN": "secret-0123456789"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    refused = machine("--client", "cursor", "--store", "postgresql://weft:pw@db/weft")
    assert refused.returncode == 2
    assert "~/.pgpass" in refused.stderr


def test_a_file_with_comments_is_left_alone_and_the_entry_is_shown(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    file = machine.home / ".config" / "zed" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text('// my settings\n{"theme": "one"}\n')
    done = machine("--client", "zed")
    assert done.returncode == 2
    assert "was left as it is" in done.stderr
    assert '"context_servers"' in done.stderr
    assert file.read_text() == '// my settings\n{"theme": "one"}\n'
    assert [one.name for one in file.parent.iterdir()] == ["settings.json"]
