"""Open a replicated store: check etcd, then keep the replica here, or use that of the node that keeps it already."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from weft.store.etcd.gateway import LogFull, LogRefused, LogSilent
from weft.store.etcd.log import EtcdLog
from weft.store.etcd.url import EtcdUrl
from weft.store.private_files import make_private_directory
from weft.store.protocol import StoreBusy, StoreMoved, StoreUnusable
from weft.store.replicated.care import COMPACTED
from weft.store.replicated.guest import GuestStore
from weft.store.replicated.local_socket import SOCKET
from weft.store.replicated.log_store import REPLICA_FILE, LogStore
from weft.store.replicated.replica import ReplicaStore, lock_of

OLDEST = (3, 4, 22)
CORRUPTING = ((3, 5, 0), (3, 5, 3))  # from, to before: they can lose or corrupt data
OWNER_WAIT_S = 10.0  # for a node that has taken the lock and is not ready yet
RETRY_S = 0.2
MOVED = "moved"  # the key that says where the log's content is now


def open_replicated(
    url: EtcdUrl,
    root: Path,
    *,
    keeps: bool,
    log: Callable[[str], None],
    wait_s: float,
    moving_to: str | None = None,
    copies: int = 1,
) -> LogStore:
    """`root` is a .weft; `keeps`: this process may keep the replica, because it is a node.
    `moving_to`: it goes on with moving what the log holds there."""
    directory = root / url.directory_name
    make_private_directory(directory)
    until = time.monotonic() + max(wait_s, OWNER_WAIT_S)
    while True:
        if _is_free(directory):
            if not keeps:
                raise StoreUnusable(
                    f"no node of this machine has a replica of {url.shown} in {directory}. Start one here with"
                    " `weft worker`, or ask a server with --server"
                )
            etcd = EtcdLog(url)
            _check(etcd, until, log, moving_to)
            try:
                return ReplicaStore(url, directory, etcd, copies)
            except StoreBusy:
                if time.monotonic() > until:
                    raise
        elif (directory / SOCKET).exists() and (directory / REPLICA_FILE).exists():
            return GuestStore(url, directory)
        elif time.monotonic() > until:
            raise StoreBusy(f"another process has the replica in {directory}, and does not answer yet. Try again")
        time.sleep(RETRY_S)


def _is_free(directory: Path) -> bool:
    lock = lock_of(directory)
    if lock is None:
        return False
    os.close(lock)
    return True


def _check(etcd: EtcdLog, until: float, log: Callable[[str], None], moving_to: str | None) -> None:
    """That this etcd can be trusted with the log."""
    said = False
    while True:
        try:
            foreign = etcd.foreign_keys()
            break
        except LogRefused as error:
            raise StoreUnusable(
                f"{etcd.name}: {error}. Check the user in the address and its password; it needs the role root,"
                " because Weft compacts the log"
            ) from None
        except LogSilent as error:
            if time.monotonic() > until:
                raise StoreBusy(f"{etcd.name}: {error}. Check that etcd runs there") from None
            if not said:
                log(f"waiting for etcd: {error}")
                said = True
            time.sleep(RETRY_S)
    for member, version in etcd.versions().items():
        refuse_version(member, version)
    _check_compaction(etcd)
    moved = etcd.get(MOVED)
    if moved and moved.decode() != moving_to:
        raise StoreMoved(f"{etcd.name} was moved to {moved.decode()}: use that (--store or WEFT_STORE)")
    if foreign:
        shown = ", ".join(key.decode(errors="replace") for key in foreign[:3])
        raise StoreUnusable(
            f"{etcd.name}: this etcd holds other keys as well ({shown}). Weft compacts its log, and that removes the"
            " history of all keys: give Weft an etcd of its own"
        )


def _check_compaction(etcd: EtcdLog) -> None:
    """Whoever compacts, it is not Weft, if entries above Weft's own mark are gone."""
    try:
        etcd.put_if_absent(COMPACTED, str(max(1, etcd.revision())).encode())
        mark = int(etcd.get(COMPACTED) or b"1")
        gone = etcd.is_compacted(mark)
    except LogFull:
        return  # there is a log, and no room for a mark
    except LogSilent as error:
        raise StoreBusy(f"{etcd.name}: {error}") from None
    if gone:
        raise StoreUnusable(
            f"{etcd.name}: its history was compacted above revision {mark}, and not by Weft: that can remove entries"
            " which replicas still need. Start etcd with --auto-compaction-retention=0, and compact it nowhere else."
            f" If all replicas have caught up, go on with: etcdctl put /{etcd.prefix.decode().strip('/')}/{COMPACTED}"
            " REVISION, naming the revision that it was compacted to"
        )


def refuse_version(member: str, text: str) -> None:
    numbers = text.partition("-")[0].split(".")
    version = tuple(int(number) for number in numbers if number.isdecimal())
    if len(version) < 3 or version < OLDEST or CORRUPTING[0] <= version < CORRUPTING[1]:
        raise StoreUnusable(
            f"etcd at {member} is version {text or 'unknown'}. Weft needs 3.4.22 or newer, but not 3.5.0 to 3.5.2,"
            " which can corrupt data: install another version"
        )
