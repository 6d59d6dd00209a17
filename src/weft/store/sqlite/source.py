"""A store that is a file, as a copy reads it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from weft.store.sqlite.driver import SqliteStore
from weft.store.sqlite.moved import Moved


class SqliteSource:
    has_files = True  # nodes keep output in files beside it

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)

    def moved(self) -> Moved | None:
        return self.store.moved()

    def set_moved_if_alone(self, mark: Moved | None, was: Moved | None) -> bool:
        return self.store.set_moved_if_alone(mark, was)

    def last_run(self) -> int:
        rows = self._query("SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM meta WHERE key = 'runs'")
        return int(rows[0][0])

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        reader = self.store.reader()
        try:
            yield from reader.execute(f"SELECT {', '.join(columns)} FROM {table}")
        finally:
            reader.close()

    def columns(self, table: str) -> list[str] | None:
        return [str(row[1]) for row in self._query(f"PRAGMA table_info({table})")]

    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        reader = self.store.reader()
        try:
            return reader.query(sql)
        finally:
            reader.close()
