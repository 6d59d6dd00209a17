"""Followers miss nothing, in whatever order transactions draw numbers and commit."""

import threading
from collections.abc import Callable
from pathlib import Path

import psycopg

from weft.client.local import StoreConnection
from weft.operations.access import StoreAccess
from weft.store.postgres.driver import PostgresStore

Make = Callable[..., PostgresStore]
_INSERT = "INSERT INTO events (run_no, kind, at, data) VALUES (0, %s, 1, '{}')"


def followed(connection: StoreConnection, after: int) -> tuple[list[str], int]:
    found = connection.events(None, after=after)
    return [event.kind for event in found], found[-1].seq if found else after


def test_a_lower_number_that_commits_later_is_not_passed(url: str, make_store: Make, tmp_path: Path) -> None:
    """The older transaction draws the higher number and commits first."""
    connection = StoreConnection(StoreAccess(make_store(), root=tmp_path))
    _, at = followed(connection, 0)
    with psycopg.connect(url) as older, psycopg.connect(url) as younger:
        older.execute("SELECT pg_current_xact_id()")
        younger.execute("SELECT pg_current_xact_id()")
        younger.execute(_INSERT, ("lower",))
        older.execute(_INSERT, ("higher",))
        older.commit()
        kinds, at = followed(connection, at)
        assert kinds == [], "what is still to come has a lower number"
        younger.commit()
        kinds, at = followed(connection, at)
        assert kinds == ["lower", "higher"]
    assert followed(connection, at) == ([], at)


def test_many_writers_and_one_follower(url: str, make_store: Make, tmp_path: Path) -> None:
    connection = StoreConnection(StoreAccess(make_store(), root=tmp_path))
    _, at = followed(connection, 0)
    writers, each = 4, 60

    def write(writer: int) -> None:
        with psycopg.connect(url) as connection:
            for number in range(each):
                connection.execute("SELECT pg_current_xact_id()")
                connection.execute(_INSERT, (f"{writer}-{number}",))
                if number % 7 == writer:
                    connection.execute("SELECT pg_sleep(0.01)")
                connection.commit()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    seen: list[str] = []
    while len(seen) < writers * each:
        alive = any(thread.is_alive() for thread in threads)
        kinds, at = followed(connection, at)
        seen += kinds
        assert alive or kinds or len(seen) == writers * each, f"{writers * each - len(seen)} events were passed over"
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(f"{writer}-{number}" for writer in range(writers) for number in range(each))
