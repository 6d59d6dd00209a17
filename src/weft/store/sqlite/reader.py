"""Reads for people: a connection of its own for each thread. They change nothing."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import apsw

from weft.store.sqlite.statements import SQL


class SqliteReader:
    """`shared`: it is the writer's own connection (in memory): one moment anyway, and not ours to close."""

    def __init__(
        self,
        connection: apsw.Connection,
        explained: AbstractContextManager[None],
        now: Callable[[], int],
        *,
        shared: bool,
    ) -> None:
        self.connection = connection
        self.execute = connection.execute
        self._explained = explained
        self._shared = shared
        self.now = now

    def read(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._explained:
            return list(self.execute(SQL[name], parameters))

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._explained:
            return list(self.execute(sql, parameters))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads inside see one moment of the store."""
        if self._shared:
            yield
            return
        with self._explained:
            self.execute("BEGIN")
        try:
            yield
        finally:
            self.execute("COMMIT")

    def close(self) -> None:
        if not self._shared:
            self.connection.close()
