"""What is special about a store in a SQLite file: its migrations, and files that are not what they should be."""

import ctypes
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.store.conformance import draft_of, make_world, put_run, put_session, run_row, sqlite_file, task_row
from weft.core.commands import SetPool
from weft.core.decision.needs import CurrentTasks, NextRun, Runs
from weft.core.rows import EventRow
from weft.node.committer import Committer
from weft.store.protocol import CommandUsed, StoreFull, StoreGone, StoreUnusable
from weft.store.queries import queries
from weft.store.sqlite import clock as clock_module
from weft.store.sqlite import migrate as m
from weft.store.sqlite.driver import SqliteStore
from weft.store.sqlite.statements import SQL

MS_READONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096


def schema(connection: apsw.Connection) -> list[tuple[Any, ...]]:
    return list(
        connection.execute(
            "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%' ORDER BY type, name"
        )
    )


# -- migrations ------------------------------------------------------------------------------------------------


def test_every_migration_goes_up_and_down() -> None:
    known = m.migrations()
    assert list(known) == list(range(1, m.latest() + 1)), "numbered without gaps"
    assert all(set(parts) == {"up", "down"} for parts in known.values())


def test_down_removes_everything_and_up_again_gives_the_same() -> None:
    connection = apsw.Connection(":memory:")
    m.migrate(connection)
    full = schema(connection)
    assert full
    m.migrate(connection, 0)
    assert schema(connection) == []
    assert m.version(connection) == 0
    for number in range(1, m.latest() + 1):  # one at a time, as an old store would get them
        m.migrate(connection, number)
    assert schema(connection) == full


def test_each_migration_down_undoes_its_up() -> None:
    connection = apsw.Connection(":memory:")
    for number in range(1, m.latest() + 1):
        before = schema(connection)
        m.migrate(connection, number)
        m.migrate(connection, number - 1)
        assert schema(connection) == before, f"migration {number}"
        m.migrate(connection, number)


def test_a_new_store_has_the_latest_schema(tmp_path: Path) -> None:
    store = sqlite_file(tmp_path).open()
    fresh = apsw.Connection(":memory:")
    m.migrate(fresh)
    assert schema(store.reader().connection) == schema(fresh)
    assert m.version(store.reader().connection) == m.latest()
    assert store.reader().connection.pragma("application_id") == m.APPLICATION_ID
    assert store.reader().connection.pragma("journal_mode") == "wal"
    store.close()


# -- files that are not a store --------------------------------------------------------------------------------


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A store with something in it, in one file."""
    path = tmp_path / "good.db"
    store = SqliteStore(path)
    make_world(store)
    with store.transaction() as tx:
        put_run(tx, run_row(1), [task_row(1, i, reason="x" * 100) for i in range(500)])
    store.close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


def refused(path: Path, *words: str) -> None:
    """It cannot be opened, for a reason that a person understands; and it has not been changed."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreUnusable) as error:
        SqliteStore(path)
    text = str(error.value)
    assert all(word in text for word in words), text
    assert "\n" not in text
    if before is not None:
        assert path.read_bytes() == before


def test_a_newer_schema_is_refused(good: Path) -> None:
    connection = apsw.Connection(str(good))
    connection.execute(f"PRAGMA user_version = {m.latest() + 1}")
    connection.close()
    refused(good, "newer Weft", f"schema {m.latest() + 1}", "Update weft")


@pytest.mark.parametrize(
    "sql", ["DELETE FROM meta WHERE key = 'origin'", "UPDATE meta SET value = 'x' WHERE key = 'origin'"]
)
@pytest.mark.parametrize("schema", [m.latest(), 23])
def test_a_store_of_a_development_version_is_refused(good: Path, sql: str, schema: int) -> None:
    """Under whichever number: its tables are not those that this version expects."""
    connection = apsw.Connection(str(good))
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute(f"{sql}; PRAGMA user_version = {schema}")
    connection.close()
    refused(good, "development version", f"schema {schema}", "a new store (--store)", "docs/guides/upgrade.md")


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE people (name); INSERT INTO people VALUES ('Ada')")
    connection.close()
    refused(path, "not a Weft store", "--store")


@pytest.mark.parametrize("text", [b"name: build\ntasks: {}\n" * 100, b"\x00" * 5000, b"SQLite format 3\x00garbage"])
def test_what_is_no_database_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "text.db"
    path.write_bytes(text)
    refused(path)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable):
        SqliteStore(tmp_path)


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable):
        SqliteStore(tmp_path / "file" / "weft.db")


def test_a_truncated_file_is_refused(good: Path) -> None:
    data = good.read_bytes()
    good.write_bytes(data[: len(data) // 2 // 4096 * 4096])
    _refused_when_used(good)


def test_a_damaged_file_is_refused(good: Path) -> None:
    data = bytearray(good.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = os.urandom(200)
    good.write_bytes(data)
    _refused_when_used(good)


def _refused_when_used(path: Path) -> None:
    """Damage may only show when the bad page is read: then, as when opening, it is said in one line."""

    def use() -> None:
        store = SqliteStore(path)
        try:
            with store.transaction() as tx:
                assert tx is not None
                tx.load([CurrentTasks(1), CurrentTasks(3), NextRun()])
        finally:
            store.close()

    with pytest.raises(StoreUnusable) as error:
        use()
    assert "\n" not in str(error.value)


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    """SQLite takes an empty file for an empty database, and so do we: nobody's data is in it."""
    path = tmp_path / "empty.db"
    path.touch()
    store = SqliteStore(path)
    assert m.version(store.reader().connection) == m.latest()
    store.close()


# -- places that cannot be written -----------------------------------------------------------------------------


def _mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.mount(source.encode(), bytes(target), kind.encode(), flags, options.encode()) == 0)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Any]:
    """Mounts things, if this process may; unmounts them at the end."""
    points: list[Path] = []

    def mount(kind: str, source: Path | str, flags: int, options: str = "") -> Path:
        point = tmp_path / "mounted"
        point.mkdir(exist_ok=True)
        if not _mount(str(source), point, kind, flags, options):
            pytest.skip("mounting is not allowed here, and as root permission bits do not apply")
        points.append(point)
        return point

    yield mount
    libc = ctypes.CDLL(None)
    for point in reversed(points):
        libc.umount2(bytes(point), 2)


def test_a_read_only_place_is_refused(good: Path, mounted: Any) -> None:
    point = mounted("none", good.parent, MS_BIND)
    assert _mount("none", point, "none", MS_BIND | MS_REMOUNT | MS_READONLY)
    for name in ("good.db", "new.db"):
        with pytest.raises(StoreUnusable) as error:
            SqliteStore(point / name)
        assert "\n" not in str(error.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="as root permission bits do not apply")
def test_a_file_without_permission_is_refused(good: Path) -> None:
    good.chmod(0o444)
    with pytest.raises(StoreUnusable):
        SqliteStore(good)


def test_a_full_disk_is_said_and_survived(mounted: Any) -> None:
    """Integrity holds, the error is clear, and with space freed the same store goes on."""
    point = mounted("tmpfs", "tmpfs", 0, "size=1536k")
    store = SqliteStore(point / "weft.db")
    with store.transaction() as tx:
        put_run(tx, run_row(1), [task_row(1, 0)])
    ballast = point / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    with pytest.raises(StoreFull, match="full"):
        _write_events(store, 5000)
    assert [row[0] for row in store.reader().query("SELECT id FROM runs")] == ["run-1"], "reads go on"
    with store.transaction(wait=False) as tx:
        assert tx is not None, "the turnstile was left, and the transaction ended"
        assert [run.no for run in tx.load([Runs([1])])[0]] == [1]
    ballast.unlink()
    _write_events(store, 500)
    assert store.reader().execute("SELECT count(*) FROM events").get == 500
    assert store.reader().connection.pragma("integrity_check") == "ok"
    store.close()


def test_a_disk_too_full_for_a_new_store(mounted: Any) -> None:
    point = mounted("tmpfs", "tmpfs", 0, "size=64k")
    with pytest.raises(StoreFull, match="full"):
        SqliteStore(point / "weft.db")


@pytest.mark.parametrize("fault", ["deleted", "moved", "replaced", "directory", "wal"])
def test_a_store_that_is_moved_or_deleted_while_in_use_is_noticed(tmp_path: Path, fault: str) -> None:
    """SQLite would go on with the file that it has open, and nobody would ever find what it holds."""
    path = tmp_path / ".weft" / "weft.db"
    store = SqliteStore(path)
    with store.transaction() as tx:
        put_session(tx, "s")
    assert store.renew("s", 1000)
    if fault == "deleted":
        path.unlink()
    elif fault == "moved":
        path.rename(tmp_path / "elsewhere.db")
    elif fault == "replaced":
        path.unlink()
        SqliteStore(path).close()
    elif fault == "directory":
        path.parent.rename(tmp_path / "elsewhere")
    else:
        Path(f"{path}-wal").unlink()
    with pytest.raises(StoreGone, match="moved or deleted while it was in use"):
        _write_events(store, 1)
    with pytest.raises(StoreGone):
        store.renew("s", 1000)
    store.close()


def test_an_exception_that_is_kept_keeps_no_cursor(tmp_path: Path) -> None:
    """A cursor in its traceback would keep the writer in an old snapshot, in which it can never write again."""
    path = tmp_path / "weft.db"
    store, other = SqliteStore(path), SqliteStore(path)
    writer = store._writer
    committer = Committer(store)
    committer.commit(SetPool("p", 3), command_id="the-command")
    with pytest.raises(CommandUsed) as kept:
        committer.commit(SetPool("p", 4), command_id="the-command")
    Committer(other).commit(SetPool("q", 1))
    committer.commit(SetPool("r", 1))
    assert store._writer is writer, "it needed no new connection"
    assert kept.value is not None
    store.close()
    other.close()


def test_a_writer_in_an_old_snapshot_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "weft.db"
    store, other = SqliteStore(path), SqliteStore(path)
    _write_events(store, 2)
    held = store._writer.execute("SELECT seq FROM events")
    next(held)
    _write_events(other, 1)
    _write_events(store, 1)
    assert store.reader().execute("SELECT count(*) FROM events").get == 4
    store.close()
    other.close()


def test_a_store_that_is_gone_before_the_first_renewal_is_not_made_anew(tmp_path: Path) -> None:
    path = tmp_path / ".weft" / "weft.db"
    store = SqliteStore(path)
    path.parent.rename(tmp_path / "elsewhere")
    path.parent.mkdir()
    with pytest.raises(StoreGone):
        store.renew("s", 1000)
    assert not list(path.parent.iterdir())
    store.close()


def _write_events(store: Any, count: int) -> None:
    with store.transaction() as tx:
        draft = draft_of(tx)
        draft.events = [EventRow(1, None, None, "filler", None, {"text": "x" * 200})] * count
        tx.write(draft)


# -- the clock -------------------------------------------------------------------------------------------------


def test_a_step_of_the_wall_clock_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = sqlite_file(tmp_path)
    store = backend.open()
    with store.transaction() as tx:
        before = tx.now
    store.close()
    monkeypatch.setattr("time.time", lambda: 0.0)
    store = backend.open()
    with store.transaction() as tx:
        assert 0 <= tx.now - before < 60_000
    store.close()


@pytest.mark.parametrize("wall", [0.0, 4e9])
def test_after_a_boot_the_clock_is_never_behind_what_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wall: float
) -> None:
    backend = sqlite_file(tmp_path)
    store = backend.open()
    with store.transaction() as tx:
        put_session(tx, "s", ttl_ms=50_000)
        seen = tx.now + 50_000
    store.close()
    monkeypatch.setattr("time.time", lambda: wall)
    monkeypatch.setattr(clock_module, "boot_id", lambda: "another boot")
    store = backend.open()
    with store.transaction() as tx:
        assert tx.now >= max(seen, int(wall * 1000)), "a lease granted before the boot has passed after it"
    store.close()


# -- several on one machine ------------------------------------------------------------------------------------


def test_a_copy_of_the_file_is_a_store(good: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "copy.db"
    copy.parent.mkdir()
    shutil.copy(good, copy)
    store = SqliteStore(copy)
    with store.transaction() as tx:
        assert tx is not None
        assert len(tx.load([CurrentTasks(1)])[0]) == 500
    store.close()


def test_an_open_reader_blocks_no_writer(tmp_path: Path) -> None:
    store = sqlite_file(tmp_path).open()
    make_world(store)
    reader = store.reader()
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM events").get == 0
    _write_events(store, 10)
    assert reader.execute("SELECT count(*) FROM events").get == 0, "it sees one moment"
    reader.execute("COMMIT")
    assert reader.execute("SELECT count(*) FROM events").get == 10
    reader.close()
    store.close()


def test_no_plan_sorts_a_page_or_makes_an_index_for_one_read(tmp_path: Path) -> None:
    """Without statistics, which a store never has: pages come in the order of their keys, however much is behind."""
    store = SqliteStore(tmp_path / "weft.db")
    connection = store.reader().connection
    found = []
    for name, query in queries("sqlite").items():
        text = "" if query.columns else SQL[name]
        if not text.startswith(("SELECT", "WITH")):
            continue
        count = max([int(number) for number in re.findall(r"\?(\d+)", text)] or [text.count("?")])
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", (None,) * count)]
        sorts = name in (
            "tasks_page",
            "dead_page",
            "runs_page",
            "events_found",
            "events_found_of_run",
            "tasks_unended",
        )
        if any("AUTOMATIC" in step or (sorts and "ORDER BY" in step) for step in plan):
            found.append("\n".join([name, *plan]))
    store.close()
    assert not found, "\n\n".join(found)
