"""Stores that cannot be used: a clear error, exit code 2, nothing written, no traceback."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import apsw
import pytest

from weft.core.commands import Register
from weft.node.committer import Committer
from weft.store.sqlite.driver import SqliteStore
from weft.store.sqlite.migrate import latest

from .conftest import WEFT, Weft, environment

COMMANDS = [["ls"], ["run", "--", "true"], ["worker"]]


@pytest.fixture
def stored(history: Path, tmp_path: Path) -> Path:
    """A copy of a good store, to be spoiled."""
    path = tmp_path / "copy.db"
    source = apsw.Connection(str(history / ".weft" / "weft.db"))
    source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    source.close()
    shutil.copy(history / ".weft" / "weft.db", path)
    return path


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_not_sqlite_at_all(look: Weft, tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "text.db"
    path.write_text("this is a letter to grandmother\n" * 100)
    before = path.read_bytes()
    done = look(words[0], "--store", str(path), *words[1:])
    assert done.code == 2
    assert "not a SQLite database" in done.err
    assert path.read_bytes() == before


def test_somebody_elses_database(look: Weft, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE people (name)")
    connection.close()
    before = path.read_bytes()
    done = look("run", "--store", str(path), "--", "true")
    assert done.code == 2
    assert "not a Weft store" in done.err
    assert path.read_bytes() == before


def test_from_a_newer_version(look: Weft, stored: Path) -> None:
    connection = apsw.Connection(str(stored))
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    done = look("run", "--store", str(stored), "--", "true")
    assert done.code == 2
    assert "newer Weft" in done.err


def test_damaged(look: Weft, stored: Path) -> None:
    data = bytearray(stored.read_bytes())
    data[4096 : len(data)] = os.urandom(len(data) - 4096)
    stored.write_bytes(data)
    done = look("ls", "--store", str(stored))
    assert done.code == 2
    assert "damaged" in done.err


def _without_root_powers() -> None:
    """Root may write to read-only files. Without this capability it is a user like any other, from exec on."""
    pr_capbset_drop, cap_dac_override = 24, 1
    ctypes.CDLL(None).prctl(pr_capbset_drop, cap_dac_override, 0, 0, 0)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_read_only(stored: Path, tmp_path: Path, words: list[str]) -> None:
    place = tmp_path / "locked"
    place.mkdir()
    shutil.move(stored, place / "weft.db")
    (place / "weft.db").chmod(0o444)
    place.chmod(0o555)
    try:
        done = subprocess.run(
            [*WEFT, words[0], "--store", str(place / "weft.db"), *words[1:]],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
            preexec_fn=_without_root_powers,
        )  # fmt: skip
    finally:
        place.chmod(0o755)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert str(place / "weft.db") in done.stderr


def test_a_directory_that_is_not_there(look: Weft, tmp_path: Path) -> None:
    path = tmp_path / "no" / "such" / "weft.db"
    done = look("run", "--store", str(path), "--", "true")
    assert done.code == 2
    assert "no directory" in done.err
    assert look("ls", "--store", str(path)).code == 3
    assert not (tmp_path / "no").exists()


def test_a_file_where_the_directory_should_be(look: Weft, tmp_path: Path) -> None:
    (tmp_path / ".weft").write_text("")
    done = look("run", "--", "true")
    assert done.code == 2
    assert (tmp_path / ".weft").read_text() == ""


def test_locked_by_another_program(look: Weft, stored: Path) -> None:
    """Exit code 4: trying again is right. SQLite waits five seconds before it says so."""
    holder = apsw.Connection(str(stored))
    holder.execute("BEGIN IMMEDIATE")
    done = look("ls", "--store", str(stored))
    holder.execute("ROLLBACK")
    holder.close()
    assert done.code == 4
    assert "locked" in done.err


def test_its_schema_is_told_and_taken_back(look: Weft, stored: Path) -> None:
    assert look("store", "migrate", "--store", str(stored), "--json").json["schema"] == latest()
    assert f"schema {latest()}" in look("store", "info", "--store", str(stored)).out
    assert look("store", "downgrade", "--store", str(stored), "--schema", "1", "--json").json["schema"] == 1
    assert look("ls", "--store", str(stored)).code == 0, "this version brings it back"
    for words in (["downgrade"], ["downgrade", "--schema", "0"], ["downgrade", "--schema", "99"]):
        done = look("store", *words, "--store", str(stored))
        assert (done.code, "--schema must be from 1 to" in done.err) == (2, True)


def test_nobody_may_be_at_work_when_it_is_taken_back(look: Weft, stored: Path) -> None:
    store = SqliteStore(stored)
    Committer(store).commit(Register("s", "one", 600_000, None, "{}"))
    store.close()
    done = look("store", "downgrade", "--store", str(stored), "--schema", "1")
    assert (done.code, "nodes are at work on it: one" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["info", "--wait"], "--wait is for weft store copy"),
        (["copy", "--schema", "1"], "--schema is for weft store downgrade"),
        (["copy"], "needs --to"),
        (["copy", "--to", "other.db"], "--to must be postgresql://"),
        (
            ["copy", "--from", "postgresql://a/b", "--to", "postgresql://c/d"],
            "with pg_dump",
        ),
    ],
)
def test_what_does_not_go_together(look: Weft, stored: Path, words: list[str], said: str) -> None:
    done = look("store", *words, "--store", str(stored))
    assert done.code == 2
    assert said in done.err
