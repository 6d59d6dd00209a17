"""When the log's time may move forward to what wall clocks say: while all nodes are down it stands still.

Every entry carries its origin's wall clock. Where that is ahead, the time moves to what more than half of the nodes
with live sessions agree on, and leases and the leader's term move along: they last as long as before. It never
moves back.
"""

import apsw

from weft.store.replicated.entry import Entry
from weft.store.replicated.tables import live_origins

AHEAD_MS = 1000  # less is drift, and every wall clock has some


def time_of(connection: apsw.Connection, entry: Entry, last_ms: int) -> int:
    """The log's time of this entry, `last_ms` being that of the entry before it."""
    if not last_ms:
        return entry.civil
    now = max(last_ms, entry.time)
    if entry.civil - now <= AHEAD_MS:
        return now
    ahead = _agreed_ms(connection, entry, entry.civil - now)
    if ahead > AHEAD_MS:
        connection.execute("UPDATE leases SET expires_at = expires_at + ?", (ahead,))
        connection.execute("UPDATE leadership SET expires_at = expires_at + ? WHERE session IS NOT NULL", (ahead,))
        connection.execute("UPDATE log_origins SET offset_ms = offset_ms - ?", (ahead,))
        now += ahead
    return now


def _agreed_ms(connection: apsw.Connection, entry: Entry, own_ms: int) -> int:
    """How far more than half of the nodes are ahead, at least. Of several processes on one replica the last
    counts."""
    offsets = {origin.node: origin.offset_ms for origin in live_origins(connection)}
    if entry.node in offsets or not offsets:
        offsets[entry.node] = own_ms
    ranked = sorted(offsets.values(), reverse=True)
    return ranked[len(ranked) // 2]
