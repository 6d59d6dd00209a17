"""A hash of what replicas must have in common: every table in the order of its rows, and of `meta` what is shared."""

import hashlib
from functools import cache
from typing import Any

import apsw

from weft.store.replicated.versions import active_version
from weft.store.sqlite.migrate import migrate, version

#: Of `meta` only the newest run's number is shared: the rest says where this replica stands, and how it was made.
SHARED = {"meta": "WHERE key = 'runs'"}


def table_hashes(connection: apsw.Connection) -> dict[str, str]:
    """Of each table that holds rows, by name: those that the schema has which the log runs. A node that was upgraded
    may have more, and what it has there need not be the same elsewhere yet."""
    active = active_version(connection)
    known = None if active is None or active.schema == version(connection) else columns_at(active.schema)
    names: list[Any] = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    ).fetchall()
    found = {}
    for (name,) in names:
        if known is None or name in known or name.startswith("log_"):
            found[str(name)] = _hash_of(connection, name, known)
    return {name: hash for name, hash in found.items() if hash}


def hash_of_tables(connection: apsw.Connection) -> str:
    together = hashlib.sha256()
    for name, hash in table_hashes(connection).items():
        together.update(f"{name} {hash}\n".encode())
    return together.hexdigest()[:32]


@cache
def columns_at(schema: int) -> dict[str, list[str]]:
    """Of every table that this schema has."""
    connection = apsw.Connection(":memory:")
    migrate(connection, schema)
    names: list[Any] = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    return {str(name): _columns(connection, name) for (name,) in names}


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})").fetchall()]


def _hash_of(connection: apsw.Connection, table: str, known: dict[str, list[str]] | None) -> str:
    columns = _columns(connection, table)
    if known is not None:
        columns = known.get(table, columns)
    order = ", ".join(str(at + 1) for at in range(len(columns)))
    hash = hashlib.sha256()
    count = 0
    for row in connection.execute(
        f"SELECT {', '.join(columns)} FROM {table} {SHARED.get(table, '')} ORDER BY {order}"
    ):
        hash.update(repr(row).encode())
        count += 1
    return f"{count}-{hash.hexdigest()[:24]}" if count else ""
