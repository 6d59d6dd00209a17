"""Which store: the one that is set, else the nearest .weft upward, else a new one here; and how it is opened."""

from pathlib import Path
from typing import TYPE_CHECKING

from weft import config as settings
from weft.store.postgres.url import PostgresUrl
from weft.store.protocol import Store, StoreUnusable

if TYPE_CHECKING:
    from weft.control.local import LocalControl

STORE_DIRECTORY = ".weft"
STORE_FILE = "weft.db"


def store_place(config: settings.Config, directory: Path) -> Path | PostgresUrl:
    place = config.store
    if place is None:
        found = settings.find_upward(directory, f"{STORE_DIRECTORY}/{STORE_FILE}")
        return found or directory / STORE_DIRECTORY / STORE_FILE
    if isinstance(place, PostgresUrl):
        return place
    return place / STORE_FILE if place.is_dir() else place


def open_store(place: Path | PostgresUrl) -> Store:
    if isinstance(place, PostgresUrl):
        need_psycopg(place)
        from weft.store.postgres.driver import PostgresStore

        return PostgresStore(place)
    from weft.store.sqlite.driver import SqliteStore

    return SqliteStore(place)


def need_psycopg(place: PostgresUrl) -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StoreUnusable(
            f"{place.shown} needs psycopg, which is not installed ({error}). Install weft[postgres]"
        ) from None


def open_control(config: settings.Config, directory: Path) -> "LocalControl":
    """Nodes of this process keep their output beside a store that is a file, else in the nearest .weft upward."""
    from weft.control.local import LocalControl

    place = store_place(config, directory)
    root: Path | None = None
    if isinstance(place, PostgresUrl):
        root = settings.find_upward(directory, STORE_DIRECTORY, directories=True) or directory / STORE_DIRECTORY
    return LocalControl(open_store(place), root=root, role=config.role, artifacts=config.artifacts)
