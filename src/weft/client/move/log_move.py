"""Move what a replicated log holds to a file or to PostgreSQL.

The log is marked first, and no node starts on it any more; then this machine's replica becomes a plain store beside
it. That file is the target, or what is copied there. The same move, run again, goes on from there.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from weft.client.local import StoreConnection
from weft.client.move.store_copy import Copy, CopyInfo, NotAlone, end_dead
from weft.client.opening import files_root, make_home
from weft.node.points import reach
from weft.operations.access import StoreAccess
from weft.store.etcd.url import EtcdUrl
from weft.store.protocol import StoreUnusable
from weft.store.replicated.opening import MOVED, open_replicated
from weft.store.replicated.replica import ReplicaStore
from weft.store.sqlite.source import SqliteSource

if TYPE_CHECKING:
    from weft.store.postgres.fill import Filling

KEPT = "moving.db"  # beside the replica
_OWN_TABLES = ("log_origins", "log_sessions", "log_parts", "log_active", "log_versions")
_OWN_MARKS = "DELETE FROM meta WHERE key IN ('log', 'clock_boot', 'clock_offset', 'copied_from')"


def move_log(
    url: EtcdUrl, directory: Path, target: "Path | Filling", say: Callable[[str], None], *, quick: bool, wait_s: float
) -> CopyInfo:
    """Raises NotAlone while nodes are at work on the log."""
    name = _name(target)
    with _opened(url, directory, name, say, wait_s) as (connection, store, kept):
        marked = store.etcd.get(MOVED) == name.encode()
        if isinstance(target, Path) and target.exists() and (not marked or kept.exists()):
            raise StoreUnusable(f"{target} is there already: name a file that is not")
        if not kept.exists() and not (isinstance(target, Path) and target.exists()):
            if not isinstance(target, Path) and not marked:
                target.check_empty()
            _keep(connection, store, kept, name)
        reach("move.kept")
        if isinstance(target, Path):
            return _to_file(store.name, kept, target)
        return _to_postgres(store.name, kept, target, say, quick=quick)


def undo_move(
    url: EtcdUrl, directory: Path, target: "Path | Filling", say: Callable[[str], None], *, wait_s: float
) -> None:
    """Take the mark back, if nothing came of the move: nodes may start on the log again."""
    name = _name(target)
    with _opened(url, directory, name, say, wait_s) as (_, store, kept):
        if not store.etcd.get(MOVED):
            return
        if _has_arrived(kept, target):
            raise StoreUnusable(f"{store.name} was moved to {name}. That cannot be undone")
        store.etcd.put(MOVED, b"")
        _remove(kept)


def _name(target: "Path | Filling") -> str:
    return str(target) if isinstance(target, Path) else target.name


@contextmanager
def _opened(
    url: EtcdUrl, directory: Path, name: str, say: Callable[[str], None], wait_s: float
) -> Iterator[tuple[StoreConnection, ReplicaStore, Path]]:
    """This machine's replica, and the place of the file that it becomes."""
    root = files_root(directory)
    make_home(root)
    store = open_replicated(url, root, keeps=True, log=say, wait_s=wait_s, moving_to=name)
    connection = StoreConnection(StoreAccess(store, root=root))
    try:
        if not isinstance(store, ReplicaStore):
            raise NotAlone(f"a node of this machine is at work on {store.name}")
        assert store.path is not None
        yield connection, store, store.path.parent / KEPT
    finally:
        connection.close()


def _has_arrived(kept: Path, target: "Path | Filling") -> bool:
    if isinstance(target, Path):
        return target.exists() and not kept.exists()
    copied = target.copied()
    if copied is None or not kept.exists():
        return copied is not None
    source = SqliteSource(kept)
    try:
        mark = source.moved()
        return mark is not None and mark.mark == copied
    finally:
        source.store.close()


def _remove(kept: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{kept}{suffix}").unlink(missing_ok=True)


def _keep(connection: StoreConnection, store: ReplicaStore, kept: Path, name: str) -> None:
    """From the mark on no node starts; one that started just before is seen in the log's head."""
    end_dead(connection)
    _refuse_live(connection)
    store.etcd.put(MOVED, name.encode())
    reach("move.marked")
    try:
        store.wait_for_head()
        _refuse_live(connection)
    except NotAlone:
        store.etcd.put(MOVED, b"")
        raise
    partial = kept.with_name(f"{kept.name}.partial")
    partial.unlink(missing_ok=True)
    store.copy_to(partial)
    plain = apsw.Connection(str(partial))
    try:
        plain.execute("; ".join([*(f"DROP TABLE IF EXISTS {table}" for table in _OWN_TABLES), _OWN_MARKS]))
    finally:
        plain.close()
    os.replace(partial, kept)


def _refuse_live(connection: StoreConnection) -> None:
    live = connection.nodes()
    if live:
        raise NotAlone(f"nodes are at work on {connection.store.name}: {', '.join(node.node for node in live)}")


def _to_file(source: str, kept: Path, target: Path) -> CopyInfo:
    if kept.exists():
        os.replace(kept, target)
    file = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        rows = {table: int(str(file.execute(f"SELECT count(*) FROM {table}").get)) for table in ("runs", "tasks")}
    finally:
        file.close()
    return CopyInfo(source=source, target=str(target), rows=rows, output_bytes=0, verified=0)


def _to_postgres(source: str, kept: Path, target: "Filling", say: Callable[[str], None], *, quick: bool) -> CopyInfo:
    copy = Copy(SqliteSource(kept), target, say)
    try:
        done = copy.run(wait=False, quick=quick)
    finally:
        copy.close()
    _remove(kept)
    done.source = source
    return done
