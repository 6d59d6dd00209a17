"""A whole store into an empty database, in one transaction: killed at any point, it leaves the database as it was.

Tables go over as they are, with COPY; rows keep their numbers, and sequences go on behind them.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from weft.store.postgres.errors import server_error
from weft.store.postgres.migrate import LOCKS, check, migrate
from weft.store.postgres.statements import Statement, statements
from weft.store.postgres.transactions.transaction import CLOCK
from weft.store.postgres.url import PostgresUrl
from weft.store.postgres.values import NUL, NUL_SIGN
from weft.store.postgres.wire import Wire, connect
from weft.store.protocol import StoreUnusable

_SEQUENCES = {"events": "seq", "demands": "no", "stale_reports": "id"}


class Filling:
    """The transaction. Nobody else sees anything of it, or can write to the database, until it ends."""

    def __init__(self, url: str) -> None:
        address = PostgresUrl(url)
        self.name = address.shown
        self._url, _ = address.for_libpq()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            with connect(self._url, self.name) as self._connection, self._connection.transaction():
                self._connection.execute("SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = 0")
                self._connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                yield
        except psycopg.Error as error:
            raise server_error(self.name, error.sqlstate or "", str(error)) from None

    def copied(self) -> str | None:
        """The mark of the copy that filled this database, if one did."""
        with connect(self._url, self.name) as connection:
            if check(connection, self.name) == 0:
                return None
            row = connection.execute("SELECT value FROM meta WHERE key = 'copied_from'").fetchone()
            return None if row is None else str(row[0])

    def check_empty(self) -> None:
        """Raises for a database that cannot be filled; leaves it as it is."""
        with self.transaction():
            self.begin()
            raise psycopg.Rollback

    def begin(self) -> None:
        """Make the tables, keep everybody else out of them, and insist that they are empty."""
        self._connection.execute("SELECT pg_advisory_xact_lock(%s, 1)", (LOCKS,))
        migrate(self._connection, self.name)
        tables = [table for table in self.tables() if table != "meta"]
        names = sql.SQL(", ").join(map(sql.Identifier, tables))
        self._connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(names))
        for table in tables:
            if table != "leadership" and self.count(table):
                raise StoreUnusable(
                    f"{self.name} is in use: it has {table} already. Name an empty database, or a schema of its own"
                )

    def tables(self) -> list[str]:
        rows = self._connection.execute(
            "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema()"
            " AND table_type = 'BASE TABLE' ORDER BY 1"
        )
        return [name for (name,) in rows.fetchall()]

    def columns(self, table: str) -> list[str]:
        raise AssertionError(f"the source knows the columns of {table}")

    def count(self, table: str) -> int:
        query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def put(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Rows of the other dialect: there truth is a number, and a text may hold a NUL."""
        kinds = dict(
            self._connection.execute(
                "SELECT column_name::text, data_type::text FROM information_schema.columns"
                " WHERE table_name = %s AND table_schema = current_schema()",
                (table,),
            ).fetchall()
        )
        flags = [kinds[column] == "boolean" for column in columns]
        query = sql.SQL("COPY {} ({}) FROM STDIN").format(
            sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with self._connection.cursor().copy(query) as copy:
            for row in rows:
                copy.write_row([_value(value, flag) for value, flag in zip(row, flags, strict=True)])

    def finish(self, mark: str, term: int, last_run: int) -> None:
        """Numbers go on where the other store ended; terms, too, so that they only ever go up."""
        for table, column in _SEQUENCES.items():
            self._connection.execute(
                sql.SQL("SELECT setval(pg_get_serial_sequence({}, {}), greatest(max({}), 1)) FROM {}").format(
                    table, column, sql.Identifier(column), sql.Identifier(table)
                )
            )
        if last_run:
            self._connection.execute("SELECT setval('run_numbers', %s)", (last_run,))
        self._connection.execute("UPDATE leadership SET term = %s WHERE one = 1", (term,))
        self._connection.execute("INSERT INTO meta (key, value) VALUES ('copied_from', %s)", (mark,))
        self._connection.execute("ANALYZE")

    @contextmanager
    def reader(self) -> Iterator["FilledReader"]:
        """Reads of what was filled in, before anybody else sees it."""
        wire = Wire(self._url, self.name, prepare=False, connection=self._connection)
        try:
            yield FilledReader(wire)
        finally:
            wire.leave_pipeline()


class FilledReader:
    """Reads within the transaction: one moment anyway, and not ours to end."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def read(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._ask(statements()[name], *parameters)

    def _ask(self, statement: Statement, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._wire.ask(statement, *parameters)

    def now(self) -> int:
        return int(self._ask(CLOCK)[0][0])

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        yield

    def close(self) -> None:
        pass


def _value(value: Any, flag: bool) -> Any:
    if flag:
        return None if value is None else bool(value)
    return value.replace(NUL, NUL_SIGN) if isinstance(value, str) and NUL in value else value
