"""Reads for people: a connection of its own for each thread, made anew when it is lost. They change nothing."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.store.postgres.statements import Statement, statements
from weft.store.postgres.transactions.transaction import CLOCK
from weft.store.postgres.wire import Wire
from weft.store.protocol import StoreBusy

_BEGIN = Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
_COMMIT = Statement("COMMIT")


class PostgresReader:
    def __init__(self, connect: Callable[[], Wire]) -> None:
        self._connect = connect
        self._wire: Wire | None = None
        self._in_snapshot = False

    def read(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.ask(statements()[name], *parameters)

    def now(self) -> int:
        return int(self.ask(CLOCK)[0][0])

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Any SQL; its parameters come in order, each once, and say their types ($1::bigint)."""
        return self.ask(Statement(sql, re.findall(r"\$\d+::(\w+(?:\[\])?)", sql)), *parameters)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads inside see one moment of the store."""
        self.ask(_BEGIN)
        self._in_snapshot = True
        try:
            yield
        finally:
            self._in_snapshot = False
            if self._wire is not None and not self._wire.lost:
                self._wire.send(_COMMIT)
                self._wire.sync()

    def ask(self, statement: Statement, *parameters: Any) -> list[tuple[Any, ...]]:
        """A read that met a lost connection is simply made again, once; not inside a snapshot, which is gone. So is
        one that met a pooler: the next connection prepares nothing."""
        fresh = self._wire is None or self._wire.lost
        if fresh:
            if self._in_snapshot:
                raise StoreBusy("the connection was lost while one moment of the store was read")
            self._wire = self._connect()
        assert self._wire is not None
        prepared = self._wire.prepare
        try:
            return self._wire.ask(statement, *parameters)
        except StoreBusy:
            misplaced = prepared and not self._wire.prepare
            if (fresh and not misplaced) or not self._wire.lost or self._in_snapshot:
                raise
            return self.ask(statement, *parameters)
        except Exception:
            self._wire.roll_back()
            raise

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
