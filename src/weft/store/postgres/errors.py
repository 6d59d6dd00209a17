"""PostgreSQL's errors as ours, in words that say what to do.

What passes by itself (no connection, a restart, a deadlock, a lock not had in time) is StoreBusy: say it again. A
server that answers, and has no space or no connection left, is StoreFull or StoreCrowded, two of those. What somebody
must put right is StoreUnusable. A guard that did not hold, or a row that is there already, is Superseded.
"""

from weft.store.protocol import StoreBusy, StoreCrowded, StoreError, StoreFull, StoreMoved, StoreUnusable, Superseded

SERVER_MIN = 14
MOVED_CODE = "WM001"  # raised by the triggers of a store that was moved (source.py)

#: Prepared statements that are not where we left them: a pooler hands our transactions to several server connections.
MISPLACED = frozenset({"26000", "42P05"})
_GUARD = frozenset({"22012", "23505"})  # division by zero: see statements.py; unique: another one was first
_PASSING = {
    "40001": "a conflict with another transaction",
    "40P01": "a deadlock with another transaction",
    "55P03": "a lock was not had in time",
    "57014": "a statement took too long",
    "25P03": "this process took too long between two statements",
    "25P04": "a transaction took too long",
    "57P01": "the server is shutting down",
    "57P02": "the server crashed",
    "57P03": "the server is starting up",
    "57P05": "the connection was idle for too long",
    "53300": "the server has no connection left (max_connections)",
    "26000": "a pooler stands between",
    "42P05": "a pooler stands between",
    "0A000": "the schema has changed",
}
_UNUSABLE = {
    "25006": "it is read-only (a standby?). Name the primary server",
    "42501": "the role may not do that. Grant it the rights on this database's schema",
    "42P01": "its tables are gone. Was another store put in its place?",
    "42703": "its tables are not what this version of Weft expects",
}
#: libpq gives no code for what goes wrong while connecting, only the server's text.
_CONNECTING = (
    (
        "password authentication failed",
        "the password is wrong. It comes from the URL, PGPASSWORD or ~/.pgpass",
    ),
    ("no password supplied", "it asks for a password. Put one in the URL, PGPASSWORD or ~/.pgpass"),
    ("pg_hba.conf", "the server does not let this role in from here (pg_hba.conf)"),
    ("role ", "there is no such role"),
    ("database ", "there is no such database. Make it with createdb, or name another one"),
    ("invalid port", "the URL's port is no number"),
    ("invalid connection option", "the URL has a parameter that libpq does not know"),
    ("invalid URI query parameter", "the URL has a parameter that libpq does not know"),
    ("invalid URI", "the URL cannot be read: postgresql://USER:PASSWORD@HOST:PORT/DATABASE"),
    ("server does not support SSL", "the server has no TLS, and the URL asks for it (sslmode)"),
)
#: The server's own words, for all, for a role or a database, and a pooler's.
_CROWDED_TEXTS = ("too many clients", "remaining connection slots", "too many connections", "no more connections")
_PASSING_TEXTS = ("starting up", "shutting down", "in recovery", *_CROWDED_TEXTS)


def server_error(name: str, code: str, message: str) -> StoreError:
    """What the server said about a statement."""
    line = message.strip().splitlines()[0] if message.strip() else code
    if code in _GUARD:
        return Superseded(
            "a row had changed since it was loaded" if code == "22012" else f"it is there already: {line}"
        )
    if code == MOVED_CODE:
        return StoreMoved(f"{name} {line}")
    if code == "53100":
        return StoreFull(f"{name}: the server's disk is full ({line}). Free some space and try again")
    if code == "53300":
        return StoreCrowded(f"{name}: {_PASSING[code]}")
    if code in _PASSING or code.startswith(("08", "53")):  # no connection; the server is short of something
        return StoreBusy(f"{name}: {_PASSING.get(code, line)}")
    if code in _UNUSABLE:
        return StoreUnusable(f"{name}: {_UNUSABLE[code]}")
    return StoreError(f"{name}: {line}")


def connect_error(name: str, message: str) -> StoreError:
    """Why there is no connection."""
    line = _last_line(message)
    if not any(text in message for text in _PASSING_TEXTS):
        for text, meaning in _CONNECTING:
            if text in message and ("does not exist" in message or text.strip() not in ("role", "database")):
                return StoreUnusable(f"{name} cannot be used: {meaning}")
    if any(text in message for text in _CROWDED_TEXTS):
        return StoreCrowded(f"{name}: {_PASSING['53300']}: {line}")
    return StoreBusy(f"{name} does not answer: {line}")


def _last_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = lines[0] if lines else "no connection"
    for prefix in ("connection failed: ", "connection is bad: "):
        text = text.removeprefix(prefix)
    return text.rpartition("FATAL:  ")[2] or text
