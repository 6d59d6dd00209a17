"""What a replica knows of the log besides the rows that rules write: origins, parts of entries, and where it stands.

These tables are made by applying entries, too, so they are the same on all replicas; only the row `log` of `meta`
is a replica's own.
"""

import json
from typing import Any, NamedTuple

import apsw

from weft.store.replicated.entry import Entry, Part

ORIGINS_KEPT = 100_000  # entries after which an origin that appended nothing is forgotten
CLEAN_EVERY = 5_000  # entries

_TABLES = """
CREATE TABLE IF NOT EXISTS log_origins (
  origin    TEXT PRIMARY KEY,
  node      TEXT NOT NULL,
  number    INTEGER NOT NULL,   -- of its newest entry that was applied
  revision  INTEGER NOT NULL,   -- of that entry
  applied   INTEGER NOT NULL,   -- how far its replica had come then
  durable   INTEGER NOT NULL,
  offset_ms INTEGER NOT NULL,   -- by how much its wall clock was ahead of the log's time
  compared  INTEGER NOT NULL DEFAULT 0,  -- the revision of its newest hash
  hash      TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log_sessions (session TEXT PRIMARY KEY, origin TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log_parts (
  origin TEXT NOT NULL, number INTEGER NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (origin, number, part)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log_active (  -- what the log runs
  one INTEGER PRIMARY KEY CHECK (one = 1), rules INTEGER NOT NULL, schema INTEGER NOT NULL,
  revision INTEGER NOT NULL  -- since this entry
);
CREATE TABLE IF NOT EXISTS log_versions (  -- what each origin can apply
  origin TEXT PRIMARY KEY, rules INTEGER NOT NULL, schema INTEGER NOT NULL
) WITHOUT ROWID;
"""
_LIVE = """
SELECT o.node, o.revision, o.applied, o.durable, o.offset_ms, o.compared, o.hash, o.origin, min(s.node)
FROM log_origins o JOIN log_sessions l ON l.origin = o.origin JOIN sessions s ON s.id = l.session
WHERE s.ended_at IS NULL GROUP BY o.origin ORDER BY o.node, o.revision
"""


class Origin(NamedTuple):
    """A process with a live session, as the log knows it."""

    node: str
    revision: int
    applied: int
    durable: int
    offset_ms: int
    compared: int
    hash: str
    origin: str
    name: str  # of its node, for people


class ReplicaPosition(NamedTuple):
    """How far a replica has come."""

    revision: int = 0
    time_ms: int = 0
    at_ms: int = 0
    boot: str = ""
    node: str = ""  # the replica's own name in the log


def make_tables(connection: apsw.Connection) -> None:
    connection.execute(_TABLES)


def standing(connection: apsw.Connection) -> ReplicaPosition:
    found = connection.execute("SELECT value FROM meta WHERE key = 'log'").get
    return ReplicaPosition(*json.loads(str(found))) if found is not None else ReplicaPosition()


def set_standing(connection: apsw.Connection, at: ReplicaPosition) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('log', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (json.dumps(at),),
    )


def live_origins(connection: apsw.Connection) -> list[Origin]:
    rows: list[Any] = connection.execute(_LIVE).fetchall()
    return [Origin(*row) for row in rows]


def is_repeated(connection: apsw.Connection, entry: Entry | Part, revision: int) -> bool:
    """An entry that was applied before, or one of an origin that was forgotten."""
    number = connection.execute("SELECT number FROM log_origins WHERE origin = ?", (entry.origin,)).get
    if number is not None:
        return entry.number <= int(number)
    return isinstance(entry, Entry) and 0 < entry.applied < revision - ORIGINS_KEPT


def note_origin(connection: apsw.Connection, entry: Entry, revision: int, offset_ms: int) -> None:
    connection.execute(
        "INSERT INTO log_origins (origin, node, number, revision, applied, durable, offset_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (origin) DO UPDATE SET"
        " number = ?3, revision = ?4, applied = ?5, durable = ?6, offset_ms = ?7",
        (entry.origin, entry.node, entry.number, revision, entry.applied, entry.durable, offset_ms),
    )
    if revision % CLEAN_EVERY == 0:
        _clean(connection, revision)


def _clean(connection: apsw.Connection, revision: int) -> None:
    """Origins that are long silent, and what belongs to them or to sessions that were pruned."""
    live = "SELECT l.origin FROM log_sessions l JOIN sessions s ON s.id = l.session WHERE s.ended_at IS NULL"
    connection.execute(
        f"DELETE FROM log_origins WHERE revision < ? AND origin NOT IN ({live})", (revision - ORIGINS_KEPT,)
    )
    connection.execute(
        "DELETE FROM log_sessions WHERE session NOT IN (SELECT id FROM sessions WHERE ended_at IS NULL)"
    )
    for table in ("log_parts", "log_versions"):
        connection.execute(f"DELETE FROM {table} WHERE origin NOT IN (SELECT origin FROM log_origins)")


def note_session(connection: apsw.Connection, session: str, origin: str) -> None:
    connection.execute("INSERT OR REPLACE INTO log_sessions (session, origin) VALUES (?, ?)", (session, origin))


def note_hash(connection: apsw.Connection, origin: str, revision: int, hash: str) -> None:
    connection.execute("UPDATE log_origins SET compared = ?, hash = ? WHERE origin = ?", (revision, hash, origin))


def with_hash(connection: apsw.Connection, origin: Origin) -> Origin:
    """With its newest hash, whether it is still there or not."""
    rows: list[Any] = connection.execute(
        "SELECT compared, hash FROM log_origins WHERE origin = ?", (origin.origin,)
    ).fetchall()
    return origin._replace(compared=rows[0][0], hash=rows[0][1]) if rows else origin


def keep_part(connection: apsw.Connection, part: Part) -> bytes | None:
    """The whole value, if this was the last part of it that was missing."""
    place = (part.origin, part.number)
    connection.execute("INSERT OR REPLACE INTO log_parts VALUES (?, ?, ?, ?)", (*place, part.index, part.data))
    rows: list[Any] = connection.execute(
        "SELECT data FROM log_parts WHERE origin = ? AND number = ? ORDER BY part", place
    ).fetchall()
    if len(rows) < part.count:
        return None
    connection.execute("DELETE FROM log_parts WHERE origin = ? AND number <= ?", place)
    return b"".join(bytes(data) for (data,) in rows)
