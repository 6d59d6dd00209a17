"""The schema's number is in `meta`; a migration holds a lock, so that nodes that start at once on an empty database
all come up."""

from functools import partial
from typing import TYPE_CHECKING, Any

from weft.store import migrations as shared
from weft.store.protocol import StoreUnusable

if TYPE_CHECKING:
    import psycopg

LOCKS = 1464157780  # "WEFT": the first half of our advisory locks; 1 migrations, 2 demands, 3 workflows
migrations = partial(shared.migrations, "postgres")
latest = partial(shared.latest, "postgres")


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
    """The schema's number; raises for a schema that this version cannot use."""
    have = version(connection, name)
    row = connection.execute("SELECT value FROM meta WHERE key = 'origin'").fetchone() if have else None
    shared.refuse_unknown("postgres", name, have, None if row is None else str(row[0]))
    return have


def migrate(connection: "psycopg.Connection[Any]", name: str, target: int | None = None) -> None:
    """Bring the schema to the target, in one transaction."""
    target = latest() if target is None else target
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, 1)", (LOCKS,))
        have = check(connection, name)
        for sql in shared.scripts("postgres", have, target):
            connection.execute(sql.encode())
        if target and target != have:
            connection.execute(
                "INSERT INTO meta (key, value) VALUES ('schema', %s)"
                " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (str(target),),
            )
