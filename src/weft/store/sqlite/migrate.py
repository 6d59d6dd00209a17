"""The schema's number is SQLite's `user_version`."""

from functools import partial

import apsw

from weft.store import migrations as shared
from weft.store.protocol import StoreUnusable

APPLICATION_ID = 0x57454654  # "WEFT", so that `file` and we can tell what this file is
migrations = partial(shared.migrations, "sqlite")
latest = partial(shared.latest, "sqlite")


def version(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def check(connection: apsw.Connection, name: str) -> int:
    """The schema's number; raises for files that are not ours or that this version cannot use."""
    have = version(connection)
    tables = {table for (table,) in connection.execute("SELECT name FROM sqlite_schema")}
    if tables and connection.pragma("application_id") != APPLICATION_ID:
        raise StoreUnusable(f"{name} is a SQLite database, but not a Weft store. Choose another file with --store")
    created_by = None
    if "meta" in tables:
        created_by = connection.execute("SELECT value FROM meta WHERE key = 'origin'").get
    shared.refuse_unknown("sqlite", name, have, created_by)
    return have


def migrate(connection: apsw.Connection, target: int | None = None) -> None:
    """Bring the schema to the target inside the caller's write transaction."""
    target = latest() if target is None else target
    for sql in shared.scripts("sqlite", version(connection), target):
        connection.execute(sql)
    connection.execute(f"PRAGMA user_version = {target}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
