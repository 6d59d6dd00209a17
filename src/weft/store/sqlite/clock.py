"""The store's clock on one machine: CLOCK_BOOTTIME plus an offset that all processes of this boot share.

It looks like wall time, but a step of the wall clock changes nothing: leases and wake-ups go on. The offset is set
when the store is first opened after a boot, never behind what the store has seen.
"""

import time
from typing import Protocol

import apsw

from weft.executors.boot_clock import boot_id, boottime


class Clock(Protocol):
    def now(self) -> int:
        """In milliseconds."""
        ...


class StoreClock:
    def __init__(self, offset_ms: int) -> None:
        self.offset_ms = offset_ms

    def now(self) -> int:
        return int(boottime() * 1000) + self.offset_ms

    @classmethod
    def of(cls, connection: apsw.Connection) -> "StoreClock":
        """The clock that this boot's processes share; the first of them sets it. Inside a write transaction."""
        rows = dict(connection.execute("SELECT key, value FROM meta WHERE key IN ('clock_boot', 'clock_offset')"))
        if rows.get("clock_boot") == boot_id():
            return cls(int(rows["clock_offset"]))
        seen = connection.execute(
            "SELECT max(coalesce((SELECT at FROM events ORDER BY seq DESC LIMIT 1), 0),"
            " coalesce((SELECT max(expires_at) FROM leases), 0))"
        ).get
        offset = max(int(time.time() * 1000), int(seen)) - int(boottime() * 1000)
        for key, value in (("clock_boot", boot_id()), ("clock_offset", str(offset))):
            connection.execute(
                "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (key, value),
            )
        return cls(offset)
