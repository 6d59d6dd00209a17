"""What workers and servers say to each other: calls by name, and their answers.

A message is msgpack behind two bytes: the version of the protocol, and whether it is compressed. What a message may
inflate to is bounded before it is inflated.
"""

import zlib
from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, Literal, NamedTuple

import msgspec

from weft.core import commands as c
from weft.core.artifacts import ArtifactReference
from weft.core.expressions.run_names import Ended
from weft.core.rows import HandleRow, MemoRow
from weft.node.ports import LinkFull, LinkLost, Renewal, RunFacts
from weft.store.protocol import Look
from weft.store.shipment import Chunk

VERSION: Final = 2
COMPRESS_FROM: Final = 16 * 1024  # bytes
INFLATED_MAX: Final = 72 * 2**20  # an output of artifact_max, and what stands around it
PLAIN, COMPRESSED = 0, 1
MEDIA_TYPE: Final = "application/vnd.weft.worker+msgpack"


class BadMessage(Exception):
    """It cannot be read; the text says why."""


class Rejected(Exception):
    """The server does not take this call from this worker: what it says is wrong, or not its own. Sending it again
    would not help."""


class RenewCall(msgspec.Struct):
    session: str
    ttl_ms: int
    facts: str | None = None
    digest: tuple[int, int, int] | None = None


#: nothing: nothing has happened; queued: there are tasks to claim; everyone: an exchange is worthwhile in any case.
Woken = Literal["nothing", "queued", "everyone"]


class Rest(msgspec.Struct):
    """A worker that holds nothing: the lease that its wait renews, for as long as it lasts."""

    ttl_ms: int
    facts: str | None = None
    digest: tuple[int, int, int] | None = None


class WaitCall(msgspec.Struct):
    """Answered when an exchange is worthwhile, or after a while. The demands that the worker would claim of, and the
    number up to which it knows demands."""

    session: str
    demands: list[str]
    known_demands: int
    rest: Rest | None = None


class WaitReply(msgspec.Struct):
    woken: Woken
    renewed: bool = False  # the lease, after the wait was sent


class SessionCall(msgspec.Struct):
    session: str


class OrphansCall(msgspec.Struct):
    session: str
    engines: list[str]


class GoneCall(msgspec.Struct):
    session: str
    gone: list[tuple[int, int]]


class FactsCall(msgspec.Struct):
    session: str
    run_nos: list[int]


class DocumentCall(msgspec.Struct):
    session: str
    hash: str


class EndsCall(msgspec.Struct):
    session: str
    run_no: int
    positions: list[int]


class RunCall(msgspec.Struct):
    session: str
    run_no: int


class CachedCall(msgspec.Struct):
    session: str
    keys: list[str]


class ArrayCall(msgspec.Struct):
    session: str
    run_no: int
    pos: int
    generation: int


class ShipCall(msgspec.Struct):
    session: str
    chunks: list[Chunk]


class PutArtifactCall(msgspec.Struct):
    session: str
    run_id: str
    data: bytes


class ReadArtifactCall(msgspec.Struct):
    session: str
    run_id: str
    sha256: str


class ReadFileCall(msgspec.Struct):
    """Bytes of a file that an attempt of this task kept, from `start` on."""

    session: str
    task_id: int
    attempt: int
    path: str
    start: int


class RunStatesCall(msgspec.Struct):
    session: str
    ids: list[str]


class CallTypes(NamedTuple):
    request: Any
    reply: Any


#: All that a worker may ask for.
CALLS: Final[Mapping[str, CallTypes]] = {
    "register": CallTypes(c.Register, c.Reply),
    "exchange": CallTypes(c.Exchange, c.ExchangeReply),
    "renew": CallTypes(RenewCall, Renewal),
    "look": CallTypes(WaitCall, Look),
    "wait": CallTypes(WaitCall, WaitReply),
    "reconcile": CallTypes(c.Reconcile, c.Reply),
    "drain": CallTypes(c.Drain, c.Reply),
    "leave": CallTypes(SessionCall, NoneType),
    "open_handle": CallTypes(c.OpenHandle, c.HandleReply),
    "orphans": CallTypes(OrphansCall, list[tuple[HandleRow, bool]]),
    "close_handles": CallTypes(GoneCall, c.Reply),
    "facts": CallTypes(FactsCall, list[RunFacts]),
    "document": CallTypes(DocumentCall, bytes),
    "ends": CallTypes(EndsCall, list[Ended]),
    "context": CallTypes(RunCall, dict[str, Any]),
    "cached": CallTypes(CachedCall, list[MemoRow]),
    "once": CallTypes(c.Once, c.OnceReply),
    "array": CallTypes(ArrayCall, Any),
    "ship": CallTypes(ShipCall, list[tuple[int, int]]),
    "put_artifact": CallTypes(PutArtifactCall, ArtifactReference),
    "read_artifact": CallTypes(ReadArtifactCall, bytes),
    "read_file": CallTypes(ReadFileCall, bytes),
    "run_states": CallTypes(RunStatesCall, dict[str, str]),
}


class CallFailure(msgspec.Struct, array_like=True):
    kind: Literal["lost", "full", "refused", "rejected", "files"]
    message: str
    code: str = ""  # of what was refused


class ServerAnswer(msgspec.Struct, array_like=True):
    failure: CallFailure | None
    value: msgspec.Raw = msgspec.Raw(b"\xc0")


_encoder = msgspec.msgpack.Encoder()
_requests = {name: msgspec.msgpack.Decoder(call.request) for name, call in CALLS.items()}
_replies = {name: msgspec.msgpack.Decoder(call.reply) for name, call in CALLS.items()}
_answers = msgspec.msgpack.Decoder(ServerAnswer)


def encode(value: Any) -> bytes:
    data = _encoder.encode(value)
    if len(data) < COMPRESS_FROM:
        return bytes((VERSION, PLAIN)) + data
    return bytes((VERSION, COMPRESSED)) + zlib.compress(data, 1)


def decode_request(call: str, data: bytes, bytes_max: int = INFLATED_MAX) -> Any:
    """Raises BadMessage."""
    try:
        return _requests[call].decode(_opened(data, bytes_max))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"{call}: {error}") from None


def encode_answer(value: Any) -> bytes:
    return encode(ServerAnswer(None, msgspec.Raw(_encoder.encode(value))))


def encode_failure(failure: CallFailure) -> bytes:
    return encode(ServerAnswer(failure))


def decode_answer(call: str, data: bytes) -> Any:
    """The reply, or the error that a store within reach would have raised. BadMessage: no server answered."""
    try:
        answer = _answers.decode(_opened(data, INFLATED_MAX))
        if answer.failure is None:
            return _replies[call].decode(answer.value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"the answer to {call} cannot be read: {error}") from None
    raise _error_of(answer.failure)


def _error_of(failure: CallFailure) -> Exception:
    if failure.kind == "full":
        return LinkFull(failure.message)
    if failure.kind == "lost":
        return LinkLost(failure.message)
    if failure.kind == "refused":
        return c.Refused(failure.code, failure.message)  # type: ignore[arg-type]  # the server's own word
    return Rejected(failure.message)


def _opened(data: bytes, bytes_max: int) -> bytes:
    if len(data) < 2:
        raise BadMessage("it is empty")
    if data[0] != VERSION:
        raise BadMessage(
            f"it is of protocol {data[0]}, and protocol {VERSION} is spoken here:"
            " install the same version of Weft for the server and its workers"
        )
    if data[1] == PLAIN:
        return data[2:]
    inflate = zlib.decompressobj()
    try:
        opened = inflate.decompress(memoryview(data)[2:], bytes_max)
    except zlib.error as error:
        raise BadMessage(f"it cannot be inflated: {error}") from None
    if inflate.unconsumed_tail:
        raise BadMessage(f"it has more than {bytes_max:,} bytes when it is inflated")
    if not inflate.eof:
        raise BadMessage("it is cut off")
    return opened
