"""The owner's token in .weft/token: who can read it, and to whom the owner's tools send it."""

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from weft import config as settings
from weft.client import owner_token
from weft.client.opening import open_connection
from weft.client.owner_token import server_token, token_for
from weft.store.artifact_files import ArtifactFiles

HERE = "http://127.0.0.1:8700"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_TOKEN", raising=False)


def sent(url: str, directory: Path, **flags: object) -> str | None:
    return token_for(url, settings.load({}, directory, flags), directory)


def others_may(path: Path) -> list[str]:
    """What anybody but its user may do something with: the directory itself, and files below it."""
    found = [path, *(one for one in path.rglob("*") if one.is_file())]
    return [str(one) for one in found if stat.S_IMODE(one.stat().st_mode) & 0o077]


def test_a_server_makes_it_once_and_its_user_alone_reads_it(tmp_path: Path) -> None:
    home = tmp_path / ".weft"
    found: list[str] = []
    starting = [threading.Thread(target=lambda: found.append(server_token(home)[0])) for _ in range(8)]
    for thread in starting:
        thread.start()
    for thread in starting:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 8
    assert len(found[0]) > 64
    assert server_token(home) == (found[0], home / "token")
    assert others_may(home) == []
    assert sorted(file.name for file in home.iterdir()) == [".gitignore", "token"]


def test_what_cannot_be_the_servers_token_is_refused(tmp_path: Path) -> None:
    home = tmp_path / ".weft"
    _, path = server_token(home)
    path.write_text("short\n")
    with pytest.raises(settings.BadSetting, match="holds no token; remove it"):
        server_token(home)
    if os.geteuid() == 0:
        os.chown(path, 65534, -1)
        with pytest.raises(settings.BadSetting, match="belongs to another user"):
            server_token(home)


def test_it_is_sent_to_this_machine_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, _ = server_token(tmp_path / ".weft")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    for url in (HERE, "http://localhost:8700", "http://[::1]:8700", "http://127.8.8.8", "https://127.0.0.1/prefix"):
        assert sent(url, below) == token, url
    for url in (
        "http://192.0.2.1:8700",
        "https://weft.example",
        "http://localhost.example",
        "http://127.0.0.1.example",
    ):
        assert sent(url, below) is None, url
    monkeypatch.setenv("WEFT_TOKEN", "given")
    assert {sent(url, below) for url in (HERE, "https://weft.example")} == {"given"}


def test_it_is_found_beside_the_store_that_is_set(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    token, _ = server_token(tmp_path / "data")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert sent(HERE, elsewhere) is None
    assert sent(HERE, elsewhere, store=tmp_path / "data" / "weft.db") == token
    assert sent(HERE, elsewhere, store=tmp_path / "data") == token


def test_it_is_not_sent_to_a_port_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes the port while the server is down must not be given the token."""
    token, _ = server_token(tmp_path / ".weft")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert owner_token._listeners(port) == {os.geteuid()}
        assert sent(f"http://127.0.0.1:{port}", tmp_path) == token
    line = "  0: 0100007F:21FC 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {} 0 1 1"
    sockets = tmp_path / "tcp"
    monkeypatch.setattr(owner_token, "_SOCKETS", (sockets, tmp_path / "none"))
    for uid, shown in ((os.geteuid(), token), (0, token), (os.geteuid() + 4711, None)):
        sockets.write_text("sl local_address\n" + line.format(uid))
        assert sent(HERE, tmp_path) == shown, uid


@pytest.mark.parametrize("name", [".weft", "data"])
def test_a_store_of_an_earlier_version_is_tightened(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    config = settings.load({}, tmp_path, {"store": home / "weft.db"})
    home.mkdir(mode=0o755)
    open_connection(config, tmp_path).close()
    (home / "output").mkdir()
    for file in (home, *home.iterdir()):
        file.chmod(0o755 if file.is_dir() else 0o644)
    connection = open_connection(config, tmp_path)
    assert others_may(home) == ([] if name == ".weft" else [str(home)])
    connection.close()


def test_artifacts_are_as_open_as_their_directory(tmp_path: Path) -> None:
    for mode, wanted in ((0o700, 0o600), (0o755, 0o644)):
        root = tmp_path / f"{mode:o}"
        root.mkdir(mode)
        written = ArtifactFiles(root, "n", 100).write("run", b"{}")
        assert stat.S_IMODE(Path(written.path).stat().st_mode) == wanted
    fresh = ArtifactFiles(tmp_path / "fresh", "n", 100).write("run", b"{}")
    assert stat.S_IMODE(Path(fresh.path).stat().st_mode) == 0o600
