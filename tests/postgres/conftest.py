"""Stores on PostgreSQL, each on an empty database."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.postgres_server import emptied, new_database
from weft.store.postgres.driver import PostgresStore


@pytest.fixture
def url() -> str:
    return emptied()


@pytest.fixture
def fresh_url() -> str:
    """A database without any table."""
    return new_database()


@pytest.fixture
def make_store(url: str) -> Iterator[Callable[..., PostgresStore]]:
    """Opens stores on the same database, as other processes would; they are closed at the test's end."""
    opened: list[PostgresStore] = []

    def make(other: str | None = None) -> PostgresStore:
        opened.append(PostgresStore(other or url))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(make_store: Callable[..., PostgresStore]) -> PostgresStore:
    return make_store()


class Answer(list[Any]):
    """Rows that can be asked like a cursor of the tests' usual store."""

    @property
    def get(self) -> Any:
        return None if not self else self[0][0] if len(self[0]) == 1 else self[0]


class PlainReader:
    """Plain SQL with `?`, as tests of the core write it."""

    def __init__(self, store: PostgresStore) -> None:
        self._reader = PostgresStore.reader(store)
        self.query = self._reader.query
        self.read = self._reader.read

    def execute(self, sql: str, parameters: tuple[Any, ...] = ()) -> Answer:
        for number, value in enumerate(parameters, 1):
            kind = "bigint" if isinstance(value, int) else "text"
            sql = sql.replace("?", f"${number}::{kind}", 1)
        return Answer(self._reader.query(sql, *parameters))


@pytest.fixture
def core_store(store: PostgresStore) -> PostgresStore:
    """For the driver of the core's tests."""
    reader = PlainReader(store)
    store.reader = lambda: reader  # type: ignore[method-assign,assignment,return-value]
    return store
