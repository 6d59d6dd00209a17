"""Numbered migrations, forward and back. The schema's number is SQLite's `user_version`."""

import re
from importlib.resources import files

import apsw

from weft.store.protocol import StoreUnusable

APPLICATION_ID = 0x57454654  # "WEFT", so that `file` and we can tell what this file is
_FILE = re.compile(r"^(\d{4})_\w+\.(up|down)\.sql$")


def migrations() -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for file in files("weft.store").joinpath("sqlite", "migrations").iterdir():
        match = _FILE.match(file.name)
        if match:
            found.setdefault(int(match[1]), {})[match[2]] = file.read_text(encoding="utf-8")
    return dict(sorted(found.items()))


def latest() -> int:
    return max(migrations())


def version(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def check(connection: apsw.Connection, name: str) -> int:
    """The schema's number; raises for files that are not ours or are newer than this program."""
    have = version(connection)
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if tables and connection.pragma("application_id") != APPLICATION_ID:
        raise StoreUnusable(f"{name} is a SQLite database, but not a Weft store. Choose another file with --store")
    if have > latest():
        raise StoreUnusable(
            f"{name} was written by a newer Weft (schema {have}, this version knows {latest()}). Update weft"
        )
    return have


def migrate(connection: apsw.Connection, target: int | None = None) -> None:
    """Bring the schema to the target inside the caller's write transaction."""
    known = migrations()
    target = latest() if target is None else target
    have = version(connection)
    while have < target:
        connection.execute(known[have + 1]["up"])
        have += 1
    while have > target:
        connection.execute(known[have]["down"])
        have -= 1
    connection.execute(f"PRAGMA user_version = {have}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
