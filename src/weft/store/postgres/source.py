"""A store on PostgreSQL, as a copy reads it: marked, so that nothing changes it any more, and read table by table.

A trigger on every table refuses what others would write: a look at the mark in each transaction, as SQLite's have it,
would cost every command of every store for the sake of a move.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from weft.store.postgres.driver import PostgresStore
from weft.store.postgres.errors import MOVED_CODE, server_error
from weft.store.postgres.url import PostgresUrl
from weft.store.postgres.wire import connect
from weft.store.sqlite.moved import Moved

LOCK_TIMEOUT = "10s"
ROWS_AT_ONCE = 2000
_REFUSE = f"""
CREATE OR REPLACE FUNCTION weft_refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = '{MOVED_CODE}', MESSAGE = (SELECT value FROM meta WHERE key = 'moved_text');
END $$
"""
_TABLES = (
    "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema()"
    " AND table_type = 'BASE TABLE' AND table_name <> 'meta' ORDER BY 1"
)


class PostgresSource:
    has_files = False  # nodes send all output to the store

    def __init__(self, url: str) -> None:
        address = PostgresUrl(url)
        self.store = PostgresStore(address)
        self._url, _ = address.for_libpq()

    def moved(self) -> Moved | None:
        with self._transaction() as connection:
            return _mark(connection)

    def set_moved_if_alone(self, mark: Moved | None, was: Moved | None) -> bool:
        """False: some session has not ended, or the mark is not what it was thought to be."""
        with self._transaction() as connection:
            self._set_triggers(connection, mark is not None)
            live = connection.execute("SELECT count(*) FROM sessions WHERE ended_at IS NULL").fetchone()
            if live != (0,) or _mark(connection) != was:
                raise psycopg.Rollback
            connection.execute("DELETE FROM meta WHERE key IN ('moved', 'moved_text')")
            if mark is not None:
                values = {"moved": json.dumps(mark._asdict()), "moved_text": mark.description}
                for key, value in values.items():
                    connection.execute("INSERT INTO meta (key, value) VALUES (%s, %s)", (key, value))
            return True
        return False

    def last_run(self) -> int:
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM run_numbers"
            ).fetchone()
            assert row is not None
            return int(row[0])

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        with self._transaction() as connection, connection.cursor(name="weft_copy") as cursor:
            cursor.itersize = ROWS_AT_ONCE
            cursor.execute(sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(table)))
            yield from cursor

    def columns(self, table: str) -> list[str] | None:
        """Those of the target: what is more here is for overlapping transactions only."""
        return None

    @contextmanager
    def _transaction(self) -> Iterator["psycopg.Connection[Any]"]:
        try:
            with connect(self._url, self.store.name) as connection, connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; SET LOCAL statement_timeout = 0")
                connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                yield connection
        except psycopg.Error as error:
            raise server_error(self.store.name, error.sqlstate or "", str(error)) from None

    def _set_triggers(self, connection: "psycopg.Connection[Any]", wanted: bool) -> None:
        """They are there for all to see when this transaction ends; until then nobody else writes."""
        connection.execute(_REFUSE)
        for (table,) in connection.execute(_TABLES).fetchall():
            name = sql.Identifier(table)
            connection.execute(sql.SQL("DROP TRIGGER IF EXISTS weft_moved ON {}").format(name))
            if wanted:
                connection.execute(
                    sql.SQL(
                        "CREATE TRIGGER weft_moved BEFORE INSERT OR UPDATE OR DELETE ON {}"
                        " FOR EACH STATEMENT EXECUTE FUNCTION weft_refuse_moved()"
                    ).format(name)
                )


def _mark(connection: "psycopg.Connection[Any]") -> Moved | None:
    row = connection.execute("SELECT value FROM meta WHERE key = 'moved'").fetchone()
    return None if row is None else Moved(**json.loads(row[0]))
