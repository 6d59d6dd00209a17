"""A directory of definitions that a node keeps applied: at its start, and whenever a file in it changes."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from weft.authoring.errors import DefinitionErrors
from weft.authoring.load import load_file, with_defaults
from weft.client.local import StoreConnection
from weft.core.commands import Refused
from weft.core.definition.site_defaults import NO_DEFAULTS, SiteDefaults
from weft.store.protocol import StoreError

LOOK_EVERY_S = 1.0
SUFFIXES = (".yaml", ".yml", ".json")
Log = Callable[[str, str, dict[str, Any]], None]


def definitions_in(directory: Path) -> list[Path]:
    """Files of that directory itself that are named like definitions, hidden ones left out, by name."""
    return sorted(
        path
        for path in directory.iterdir()
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )


async def keep_applied(directory: "Directory", every_s: float = LOOK_EVERY_S) -> None:
    """Until cancelled. A look at the names and times of a few files is cheaper than to be told of their changes, and
    misses nothing on any file system."""
    while True:
        await asyncio.to_thread(directory.look)
        await asyncio.sleep(every_s)


class Directory:
    """`say` gets a level, a message and fields. What is wrong with one file leaves its workflow as it was."""

    def __init__(
        self, connection: StoreConnection, path: Path, log: Log, defaults: SiteDefaults = NO_DEFAULTS
    ) -> None:
        self._connection = connection
        self._path = path
        self._log = log
        self._defaults = defaults  # for definitions that do not state them
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._silent = False  # it has been said that the store does not answer

    def look(self) -> int:
        """Apply what is new or has changed since the last look; how many files that were."""
        applied = 0
        try:
            found = definitions_in(self._path)
        except OSError as error:
            self._log("warning", "the directory of definitions cannot be read", {"error": str(error)})
            return 0
        for path in list(self._seen):
            if path not in found:  # its workflow stays as it is: a file may be gone for a moment only
                del self._seen[path]
                self._log("warning", "a definition is gone; its triggers stay active", {"file": str(path)})
        for path in found:
            try:
                stat = path.stat()
            except OSError:
                continue
            mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if self._seen.get(path) != mark and self._apply(path):
                self._seen[path] = mark
                applied += 1
        return applied

    def _apply(self, path: Path) -> bool:
        """False: try again, the store did not answer."""
        try:
            loaded = with_defaults(load_file(path), self._defaults)
            reply = self._connection.apply(loaded, str(path.absolute().parent), f"the file {path.name}")
        except (DefinitionErrors, Refused) as error:
            self._log("warning", "a definition was not applied", {"file": str(path), "error": str(error)})
        except StoreError as error:
            if not self._silent:
                self._log("warning", "the store did not answer", {"file": str(path), "error": str(error)})
            self._silent = True
            return False
        else:
            if not reply.existing or reply.changed:
                self._log("info", "applied", {"file": str(path), **msgspec.to_builtins(reply)})
        self._silent = False
        return True
