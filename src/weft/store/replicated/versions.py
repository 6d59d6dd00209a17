"""Which version of rules and schema the log runs, and which of them this version of Weft can apply.

The first entry of a log decides what it runs. A newer Weft goes on with that while older nodes are live, and an entry
`Activate` switches all replicas at the same place of the log, once every live node can apply the newer version.
"""

from typing import Any, NamedTuple

import apsw

from weft.core.decision.draft import OLDEST_RULES, RULES_VERSION
from weft.store.protocol import StoreUnusable
from weft.store.replicated.tables import live_origins
from weft.store.sqlite.migrate import latest, migrate, version


class LogVersion(NamedTuple):
    rules: int
    schema: int

    def __str__(self) -> str:
        return f"rules {self.rules} with schema {self.schema}"


class Applicable(NamedTuple):
    """The versions that a node can apply."""

    oldest_rules: int
    newest: LogVersion

    def refuse_other(self, active: LogVersion, where: str) -> None:
        """Raises if a log that runs this cannot be followed."""
        if active.rules > self.newest.rules or active.schema > self.newest.schema:
            raise StoreUnusable(
                f"{where}: the log runs {active}, and this version of Weft can apply {self.newest} at most: upgrade"
                " it on this machine. Nodes that were upgraded go on"
            )
        if active.rules < self.oldest_rules:
            raise StoreUnusable(
                f"{where}: the log runs {active}, and this version of Weft can apply rules {self.oldest_rules} to"
                f" {self.newest.rules}: first upgrade all nodes to a version that can apply both"
            )


HERE = Applicable(OLDEST_RULES, LogVersion(RULES_VERSION, latest()))


def active_version(connection: apsw.Connection) -> LogVersion | None:
    """None: no entry was applied yet."""
    rows: list[Any] = connection.execute("SELECT rules, schema FROM log_active").fetchall()
    return LogVersion(*rows[0]) if rows else None


def set_active(connection: apsw.Connection, active: LogVersion, revision: int) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO log_active (one, rules, schema, revision) VALUES (1, ?, ?, ?)", (*active, revision)
    )


def advertise(connection: apsw.Connection, origin: str, newest: LogVersion) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO log_versions (origin, rules, schema) VALUES (?, ?, ?)", (origin, *newest)
    )


def nodes_behind(connection: apsw.Connection, wanted: LogVersion) -> list[str]:
    """Live nodes that have not said that they can apply this version."""
    rows: list[Any] = connection.execute("SELECT origin, rules, schema FROM log_versions").fetchall()
    can = {origin: (rules, schema) for origin, rules, schema in rows}
    return [
        found.name
        for found in live_origins(connection)
        if any(have < want for have, want in zip(can.get(found.origin, (0, 0)), wanted, strict=True))
    ]


def switch_schema(connection: apsw.Connection, old: LogVersion, new: LogVersion) -> None:
    """At the entry that activates `new`. This replica's tables have had the newest schema since its node was
    upgraded, at another entry than elsewhere: back and forth once more, and what migrations make of rows is the
    same everywhere."""
    have = version(connection)
    if old.schema != new.schema:
        migrate(connection, old.schema)
        migrate(connection, have)
