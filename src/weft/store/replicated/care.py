"""What is done for the log every few seconds, in a thread: note what a power cut would leave, let replicas compare,
and compact the log below what all live replicas keep.

Compaction and comparison are the leader's. When etcd's quota is used up, one node compacts and then asks etcd to
give the space back; entries are taken again after that.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import apsw

from weft.store.etcd.log import LogFull, LogSilent
from weft.store.protocol import StoreError
from weft.store.replicated.entry import Activate, Compare
from weft.store.replicated.tables import live_origins
from weft.store.replicated.versions import nodes_behind

if TYPE_CHECKING:
    from weft.store.replicated.replica import ReplicaStore

EVERY_S = 1.0
COMPARE_ENTRIES = 10_000
COMPARE_S = 600.0
COMPACT_EVERY_S = 10.0
OUTPUT_EVERY_S = 10.0
KEEP_REVISIONS = 1_000  # a replica that was restarted needs no snapshot
ANYBODY_S = 20.0  # a full log that the first of the nodes does nothing about
COMPACTED = "compacted"  # the key with the revision that Weft compacted to
_LEADS = """
SELECT 1 FROM leadership d JOIN log_sessions l ON l.session = d.session WHERE l.origin = ? AND d.expires_at > ?
"""


class Care:
    """`announce` tells the other nodes that this one is there."""

    def __init__(self, replica: "ReplicaStore", announce: Callable[[], None]) -> None:
        self._replica = replica
        self._announce = announce
        self._etcd = replica.etcd
        self._stop = threading.Event()
        self._compared_at = time.monotonic()
        self._compared = replica.revision
        self._compacted = 0
        self._compact_at = time.monotonic() + COMPACT_EVERY_S
        self._output_at = time.monotonic() + OUTPUT_EVERY_S
        self._full_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="weft-log-care", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        assert self._replica.path is not None
        connection = apsw.Connection(str(self._replica.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            while not self._stop.wait(EVERY_S):
                try:
                    self._look(connection)
                except (LogSilent, LogFull, StoreError, OSError):
                    continue  # the next look may succeed
        finally:
            connection.close()

    def _look(self, connection: apsw.Connection) -> None:
        self._note_durable()
        self._tend_output()
        self._announce()
        if self._replica.is_full:
            self._make_room(connection)
            return
        self._full_since = None
        if not connection.execute(_LEADS, (self._replica.origin, self._replica.now())).fetchall():
            return
        self._activate(connection)
        self._compare()
        if time.monotonic() >= self._compact_at:
            self._compact_at = time.monotonic() + COMPACT_EVERY_S
            self._compact(connection, least=KEEP_REVISIONS)

    def _note_durable(self) -> None:
        """What is in the write-ahead log when it is synced is there after a power cut."""
        revision = self._replica.revision
        if revision == self._replica.durable:
            return
        for file in (f"{self._replica.path}-wal", str(self._replica.path)):
            fd = os.open(file, os.O_RDONLY)
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)
        self._replica.durable = revision

    def _tend_output(self) -> None:
        if time.monotonic() < self._output_at:
            return
        self._output_at = time.monotonic() + OUTPUT_EVERY_S
        assert self._replica.path is not None
        try:
            self._replica.output.tend(self._replica.path, self._replica.revision)
        except StoreError as error:
            self._replica.log(f"output of attempts could not be tended: {error}")

    def _activate(self, connection: apsw.Connection) -> None:
        """The newest version that this node can apply, once all live nodes can."""
        newest, active = self._replica.applicable.newest, self._replica.active
        if active is not None and newest > active and not nodes_behind(connection, newest):
            self._replica.send_one(Activate(*newest))

    def _compare(self) -> None:
        entries, seconds = self._replica.revision - self._compared, time.monotonic() - self._compared_at
        if entries >= COMPARE_ENTRIES or seconds >= COMPARE_S:
            self._compared, self._compared_at = self._replica.revision, time.monotonic()
            self._replica.send_one(Compare())

    def _compact(self, connection: apsw.Connection, *, least: int) -> None:
        """Below what every live replica would still have after a power cut."""
        durable = [origin.durable for origin in live_origins(connection)]
        target = min(durable, default=0) - KEEP_REVISIONS
        if target - self._compacted < least:
            return
        self._etcd.put(COMPACTED, str(target).encode())
        self._etcd.compact(target)
        self._compacted = target

    def _make_room(self, connection: apsw.Connection) -> None:
        """The put of the revision has no room yet: it follows."""
        self._full_since = self._full_since or time.monotonic()
        origins = live_origins(connection)
        first = min((origin.origin for origin in origins), default=self._replica.origin)
        if first != self._replica.origin and time.monotonic() - self._full_since < ANYBODY_S:
            return
        target = min((origin.durable for origin in origins), default=0)
        self._replica.log("etcd's space quota is used up: compacting the log, and giving the space back")
        if target > self._compacted:
            self._etcd.compact(target)
        self._etcd.make_room()
        self._etcd.put(COMPACTED, str(max(target, self._compacted)).encode())
        self._compacted = max(target, self._compacted)
        self._full_since = None
        self._replica.is_full = False
