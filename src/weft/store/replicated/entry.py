"""What stands in the log: entries of commands, and parts of entries that are too large for one request to etcd."""

import zlib
from typing import Any

import msgspec

from weft.core.artifacts import File
from weft.core.decision.decide import RULES
from weft.store.shipment import Shipment

PART_MAX = 1_000_000  # bytes of one value; etcd takes 1.5 MB in a request
PACK_MIN = 2_000  # bytes from which an entry is compressed: etcd's gateway takes 0.1 ms for each kB
WHOLE, PACKED, PART = b"e", b"z", b"p"


class Renew(msgspec.Struct):
    """Lengthen a lease, and keep what the node says of itself."""

    session: str
    ttl_ms: int
    facts: str | None = None


class KeepOutput(msgspec.Struct):
    shipment: Shipment


class Compare(msgspec.Struct):
    """Every replica works out the hash of its tables as they are after this entry, and appends it."""


class Compared(msgspec.Struct):
    """The hash of the origin's tables after the entry at this revision."""

    revision: int
    hash: str


class Activate(msgspec.Struct):
    """From here on the log runs this version, unless a live node cannot apply it."""

    rules: int
    schema: int


class Note(msgspec.Struct):
    """Changes nothing: it carries how far its origin has come."""


#: Commands of the log itself. What all others do, rules decide.
OF_LOG: dict[str, type] = {kind.__name__: kind for kind in (Renew, KeepOutput, Compare, Compared, Activate, Note)}
#: Kinds of commands that older rules do not know: the version from which on they are applied. Nodes of older versions
#: cannot read them, and change nothing; so does every node until the log runs that version.
SINCE: dict[str, int] = {}
KINDS: dict[str, type] = OF_LOG | {kind.__name__: kind for kind in RULES}


class Sent(msgspec.Struct, array_like=True):
    """A command on its way through the log."""

    kind: str
    body: msgspec.Raw
    id: str | None = None
    actor: str | None = None
    #: Artifacts that its rule reads, as (run, SHA-256, file): the same on every replica.
    files: list[tuple[str, str, File]] = []

    @classmethod
    def of(cls, command: Any, id: str | None = None, actor: str | None = None) -> "Sent":
        return cls(type(command).__name__, msgspec.Raw(msgspec.msgpack.encode(command)), id, actor)

    def command(self) -> Any:
        return msgspec.msgpack.decode(self.body, type=KINDS[self.kind])


class Entry(msgspec.Struct, array_like=True):
    origin: str  # a process, for as long as it lives
    node: str  # the replica
    number: int  # of the origin's entries, ascending: a number that was applied is not applied again
    applied: int  # the revision that the origin's replica had when it made this
    durable: int  # the revision that it would still have after a power cut
    time: int  # log time in ms: that of the last applied entry, and what has passed since then by a steady clock
    civil: int  # what the origin's wall clock says, in ms
    version: tuple[int, int]  # of the rules, of the schema: what the log runs, as far as the origin has applied it
    commands: list[Sent]
    newest: tuple[int, int] | None = None  # what the origin can apply; in its first entry


class Part(msgspec.Struct, array_like=True):
    origin: str
    number: int
    index: int
    count: int
    data: bytes


_ENTRY = msgspec.msgpack.Decoder(Entry)
_PART = msgspec.msgpack.Decoder(Part)


def values_of(entry: Entry) -> list[bytes]:
    """The values that carry an entry, in order; it counts from the last one on."""
    return _parts(entry, _packed(msgspec.msgpack.encode(entry)))


def _packed(body: bytes) -> bytes:
    return PACKED + zlib.compress(body, 1) if len(body) >= PACK_MIN else WHOLE + body


def _parts(entry: Entry, value: bytes) -> list[bytes]:
    if len(value) <= PART_MAX:
        return [value]
    pieces = [value[at : at + PART_MAX] for at in range(0, len(value), PART_MAX)]
    return [
        PART + msgspec.msgpack.encode(Part(entry.origin, entry.number, index, len(pieces), piece))
        for index, piece in enumerate(pieces)
    ]


def read_value(value: bytes) -> Entry | Part:
    """ValueError: it is not one of ours."""
    kind, body = value[:1], memoryview(value)[1:]
    if kind == PART:
        return _PART.decode(body)
    if kind == PACKED:
        return _ENTRY.decode(zlib.decompress(body))
    if kind == WHOLE:
        return _ENTRY.decode(body)
    raise ValueError(f"an entry begins with {kind!r}")


class Failed(Exception):
    """A command that no replica could apply: its rule raised an error. The text names it."""
