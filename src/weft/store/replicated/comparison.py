"""Replicas compare what they hold: after an entry `Compare` each works out the hash of its tables and appends it.

A replica whose hash is not that of the majority stops: its answers would be wrong, and so would what it sends.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from weft.store.protocol import StoreError, StoreUnusable
from weft.store.replicated.entry import Compare, Compared
from weft.store.replicated.table_hash import hash_of_tables
from weft.store.replicated.tables import Origin, live_origins, with_hash

WAIT_S = 20.0
LOOK_S = 0.05

SendOne = Callable[[Any], Any]


class Comparison(NamedTuple):
    revision: int
    replicas: list[Origin]

    @property
    def missing(self) -> list[str]:
        return [replica.name for replica in self.replicas if replica.compared < self.revision]

    @property
    def equal(self) -> bool:
        hashes = {replica.hash for replica in self.replicas if replica.compared == self.revision}
        return len(hashes) == 1 and not self.missing


def answer(path: Path, revision: int, send_one: SendOne) -> None:
    """Append the hash of the tables as they are right now; called between two entries. The hash is worked out in a
    thread, on a connection that keeps seeing this moment."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.execute("BEGIN; SELECT 1 FROM meta LIMIT 1")

    def work() -> None:
        try:
            found = hash_of_tables(connection)
        finally:
            connection.close(True)
        try:
            send_one(Compared(revision, found))
        except StoreError:
            return  # the next comparison will show it

    threading.Thread(target=work, name="weft-compare", daemon=True).start()


def refuse_if_other(origins: Sequence[Origin], own: str, revision: int, name: str) -> None:
    """Raises if this replica is not what most of them are; or, once all have answered, if there is no such
    majority."""
    answers = {origin.origin: origin.hash for origin in origins if origin.compared == revision}
    mine = answers.get(own)
    if mine is None:
        return
    others = [hash for hash in answers.values() if hash != mine]
    if not others:
        return
    most = max(others, key=others.count)
    if others.count(most) * 2 > len(origins) or (len(answers) == len(origins) and len(others) * 2 >= len(origins)):
        shown = ", ".join(f"{origin.name} {answers[origin.origin]}" for origin in origins if origin.origin in answers)
        raise StoreUnusable(
            f"{name}: the tables of this replica are not those of the others after entry {revision}: {mine} here,"
            f" {most} elsewhere ({shown}). This node stops. Move its replica away, and it fetches a new one; please"
            " report it with both replicas"
        )


def compare_replicas(send_one: SendOne, path: Path, wait_s: float = WAIT_S) -> Comparison:
    """What the replicas of all live nodes hold after one entry."""
    revision = int(send_one(Compare()))
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    until = time.monotonic() + wait_s
    try:
        asked = live_origins(connection)  # one that differs may be gone a moment later
        while True:
            found = Comparison(revision, [with_hash(connection, origin) for origin in asked])
            if not found.missing or time.monotonic() > until:
                return found
            time.sleep(LOOK_S)
    finally:
        connection.close()
