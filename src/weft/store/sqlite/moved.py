"""The mark in a store that was copied to another one: every transaction looks for it."""

import json
from typing import NamedTuple

import apsw


class Moved(NamedTuple):
    to: str  # for people: without a password
    mark: str  # this copy, among others
    done: bool  # what it held is there; until then only the copy itself goes on

    @property
    def description(self) -> str:
        if self.done:
            return f"was moved to {self.to}: use that (--store or WEFT_STORE). What is here can still be looked at"
        return f"is being moved to {self.to}. If that was interrupted, run the same weft store copy again"


def moved(connection: apsw.Connection) -> Moved | None:
    found = connection.execute("SELECT value FROM meta WHERE key = 'moved'").get
    return None if found is None else Moved(**json.loads(found))


def set_moved_if_alone(connection: apsw.Connection, mark: Moved | None, was: Moved | None) -> bool:
    """Inside a write transaction. False: some session has not ended, or the mark is not what it was thought to be."""
    live = connection.execute("SELECT count(*) FROM sessions WHERE ended_at IS NULL").get
    if live or moved(connection) != was:
        return False
    connection.execute("DELETE FROM meta WHERE key = 'moved'")
    if mark is not None:
        connection.execute("INSERT INTO meta (key, value) VALUES ('moved', ?)", (json.dumps(mark._asdict()),))
    return True
