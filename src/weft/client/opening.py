"""Which store: the one that is set, else the nearest .weft upward, else a new one here; and how it is opened."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from weft import config as settings
from weft.store.etcd.url import EtcdUrl
from weft.store.postgres.url import PostgresUrl
from weft.store.private_files import create_private, make_private_directory, tighten
from weft.store.protocol import Store, StoreBusy, StoreUnusable
from weft.store.urls import StoreUrl

if TYPE_CHECKING:
    from weft.client.local import StoreConnection

STORE_DIRECTORY = ".weft"
STORE_FILE = "weft.db"
PRIVATE = ("output", "artifacts", "sessions")
RETRY_S = (0.1, 0.25, 0.5, 1.0)


def store_place(config: settings.Config, directory: Path) -> Path | StoreUrl:
    place = config.store
    if place is None:
        found = settings.find_upward(directory, f"{STORE_DIRECTORY}/{STORE_FILE}")
        return found or directory / STORE_DIRECTORY / STORE_FILE
    if isinstance(place, StoreUrl):
        return place
    return place / STORE_FILE if os.path.isdir(place) else place


def open_store(
    place: Path | PostgresUrl, wait_s: float = 0.0, log: Callable[[str], None] = lambda text: None
) -> Store:
    """`wait_s`: a server that is not there yet is waited for, and `log` gets one line about it. What waiting does not
    help (a wrong password, no such database) is raised at once."""
    if not isinstance(place, PostgresUrl):
        from weft.store.sqlite.driver import SqliteStore

        if os.path.exists(place) and not os.path.isfile(place):  # SQLite would wait for ever for a pipe
            raise StoreUnusable(f"{place} is not a file that could be a store. Choose another with --store")
        make_home(place.parent)
        return SqliteStore(place)
    need_psycopg(place)
    from weft.store.postgres.driver import PostgresStore

    until = time.monotonic() + wait_s
    tries = 0
    while True:
        try:
            return PostgresStore(place)
        except StoreBusy as error:
            pause = RETRY_S[min(tries, len(RETRY_S) - 1)]
            if time.monotonic() + pause > until:
                raise
            if not tries:
                log(f"waiting up to {wait_s:g} s for the store: {error}")
        time.sleep(pause)
        tries += 1


def files_root(directory: Path) -> Path:
    """The nearest .weft upward, or a new one here: where replicas and output of nodes are."""
    return settings.find_upward(directory, STORE_DIRECTORY, directories=True) or directory / STORE_DIRECTORY


def make_home(directory: Path) -> None:
    """A .weft is for its user only, and nothing of it belongs into a repository. In another directory, which may have
    other uses, that goes for what we keep there."""
    for name in PRIVATE:
        tighten(directory / name)
    if directory.name == STORE_DIRECTORY:
        with contextlib.suppress(OSError):  # whoever writes there next says what is wrong
            new = not directory.exists()
            make_private_directory(directory)
            if new:
                create_private(directory / ".gitignore", "*\n")


def need_psycopg(place: PostgresUrl) -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StoreUnusable(
            f"{place.shown} needs psycopg, which is not installed ({error}). Install weft[postgres]"
        ) from None


def open_connection(
    config: settings.Config, directory: Path, log: Callable[[str], None] = lambda text: None, *, node: bool = True
) -> "StoreConnection":
    """Nodes of this process keep their output beside a store that is a file, else in the nearest .weft upward.
    `node`: this process may be one, and keep a replica of a replicated store."""
    from weft.client.local import StoreConnection
    from weft.operations.access import StoreAccess

    place = store_place(config, directory)
    root: Path | None = None
    if isinstance(place, StoreUrl):
        root = files_root(directory)
    if isinstance(place, EtcdUrl):
        from weft.store.replicated.opening import open_replicated

        assert root is not None
        make_home(root)
        store: Store = open_replicated(
            place, root, keeps=node, log=log, wait_s=config.store_wait, copies=config.output_copies
        )
    else:
        store = open_store(place, config.store_wait, log)
    store.log = log
    access = StoreAccess(store, root=root, role=config.role, artifacts=config.artifacts, workspaces=config.workspaces)
    access.wait_s = config.store_wait
    return StoreConnection(access)
