"""Numbered migrations, forward and back. The schema's number is in `meta`; whoever migrates holds a lock, so that
nodes that start at once on an empty database all come up."""

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from weft.store.protocol import StoreUnusable

if TYPE_CHECKING:
    import psycopg

LOCKS = 1464157780  # "WEFT": the first half of our advisory locks; 1 migrations, 2 demands, 3 workflows
_FILE = re.compile(r"^(\d{4})_\w+\.(up|down)\.sql$")


def migrations() -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for file in files("weft.store").joinpath("postgres", "migrations").iterdir():
        match = _FILE.match(file.name)
        if match:
            found.setdefault(int(match[1]), {})[match[2]] = file.read_text(encoding="utf-8")
    return dict(sorted(found.items()))


def latest() -> int:
    return max(migrations())


def version(connection: "psycopg.Connection[Any]", name: str) -> int:
    """The schema's number, 0 for an empty one; raises for a schema that is not ours."""
    # Not to_regclass: that asks a cache, which after a wait for the migrations' lock may not know of the tables yet.
    rows = connection.execute(
        "SELECT c.relname, count(a.attname) FROM pg_class c LEFT JOIN pg_attribute a"
        " ON a.attrelid = c.oid AND c.relname = 'meta' AND a.attname IN ('key', 'value')"
        " WHERE c.relname IN ('meta', 'runs', 'tasks') AND pg_table_is_visible(c.oid) GROUP BY c.relname"
    ).fetchall()
    found = None
    if ("meta", 2) in rows:
        found = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    if found is None:
        if rows:
            raise StoreUnusable(
                f"{name} has tables of somebody else with names that Weft needs. Use another database, or a schema of"
                " its own (?options=-csearch_path%3Dweft)"
            )
        return 0
    return int(found[0])


def check(connection: "psycopg.Connection[Any]", name: str) -> int:
    have = version(connection, name)
    if have > latest():
        raise StoreUnusable(
            f"{name} was written by a newer Weft (schema {have}, this version knows {latest()}). Update weft"
        )
    return have


def migrate(connection: "psycopg.Connection[Any]", name: str, target: int | None = None) -> None:
    """Bring the schema to the target, in one transaction."""
    known = migrations()
    target = latest() if target is None else target
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, 1)", (LOCKS,))
        have = check(connection, name)
        before = have
        while have < target:
            connection.execute(known[have + 1]["up"])
            have += 1
        while have > target:
            connection.execute(known[have]["down"])
            have -= 1
        if have and have != before:
            connection.execute(
                "INSERT INTO meta (key, value) VALUES ('schema', %s)"
                " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (str(have),),
            )
