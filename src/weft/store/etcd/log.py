"""The log on etcd: one key that is put again and again. Its revisions are the order, and a watch replays them."""

import socket
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from weft.store.etcd.gateway import ASK_S, Gateway, KeyValue, LogFull, LogSilent, Member, peer_contexts, shown
from weft.store.etcd.url import EtcdUrl

__all__ = ["EtcdLog", "LogCompacted", "LogFull", "LogSilent"]

PUT_S = 1.0  # with 10 s nothing got through for 6 s after etcd's leader had died; with 1 s it was 1 to 2 s
DEFRAGMENT_S = 60.0
IDLE_S = 0.5  # a watch that brings nothing for so long lets its caller look around
_HEAD_MAX = 65536


class LogCompacted(Exception):
    """The entries from here on are gone up to `revision`: a snapshot has them."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"the log begins at revision {revision}")
        self.revision = revision


class _Event(msgspec.Struct):
    kv: KeyValue
    type: str = "PUT"


class _Watch(msgspec.Struct):
    events: list[_Event] = []
    canceled: bool = False
    compact_revision: str = "0"
    cancel_reason: str = ""


class _WatchLine(msgspec.Struct):
    result: _Watch | None = None
    error: Any = None


_LINE = msgspec.json.Decoder(_WatchLine)


class EtcdLog:
    def __init__(self, url: EtcdUrl) -> None:
        self.name = url.shown
        self.members = url.members
        self.prefix = f"/{url.prefix}/".encode()
        self._key = self.prefix + b"log"
        self._gateway = Gateway(url)
        self._call = self._gateway.call
        self.peer_contexts = peer_contexts(url)  # for what nodes ask each other

    # Appending

    def append(self, value: bytes) -> int:
        """The revision under which it stands. LogSilent: append it again."""
        return int(self._call("/v3/kv/put", {"key": self._key, "value": value}, PUT_S).header.revision)

    def head(self) -> int:
        """The revision of the newest entry, by a majority of etcd's members; 0: there is none."""
        answer = self._call("/v3/kv/range", {"key": self._key, "keys_only": True}, ASK_S)
        return int(answer.kvs[0].mod_revision) if answer.kvs else 0

    def revision(self) -> int:
        """The newest of all keys."""
        return int(self._call("/v3/kv/range", {"key": self._key, "keys_only": True}, ASK_S).header.revision)

    # Following

    def follow(self, start: int) -> Iterator[list[tuple[int, bytes]]]:
        """Entries from this revision on as they come, an empty list where none has come for a moment. Ends with
        LogSilent when the connection is lost; then another member is asked."""
        member = self._gateway.member()
        token = self._gateway.token(member)
        try:
            with self._gateway.connected(member) as stream:
                for line in _lines(stream, self._watch_request(start, member, token)):
                    yield [] if line is None else _entries(line)
        except (OSError, msgspec.DecodeError) as error:
            self._gateway.forget_token(token)  # it may be the reason
            raise LogSilent(f"{shown(member)}: {error}") from error
        finally:
            self._gateway.next_member()

    def _watch_request(self, start: int, member: Member, token: str) -> bytes:
        """HTTP/1.0, whose body needs no chunks: a line each time."""
        body = msgspec.json.encode(
            {"create_request": {"key": self._key, "start_revision": str(max(start, 1)), "fragment": True}}
        )
        head = f"POST /v3/watch HTTP/1.0\r\nHost: {shown(member)}\r\nContent-Type: application/json\r\n"
        if token:
            head += f"Authorization: {token}\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    # Values beside the log

    def get(self, name: str) -> bytes | None:
        answer = self._call("/v3/kv/range", {"key": self.prefix + name.encode()}, ASK_S)
        return answer.kvs[0].value if answer.kvs else None

    def put(self, name: str, value: bytes) -> None:
        self._call("/v3/kv/put", {"key": self.prefix + name.encode(), "value": value}, ASK_S)

    def put_for(self, name: str, value: bytes, ttl_s: int) -> None:
        """It is removed after this time, unless it is put again."""
        lease = self._call("/v3/lease/grant", {"TTL": str(ttl_s)}, ASK_S).ID
        self._call("/v3/kv/put", {"key": self.prefix + name.encode(), "value": value, "lease": lease}, ASK_S)

    def put_if_absent(self, name: str, value: bytes) -> bool:
        key = self.prefix + name.encode()
        absent = {"key": key, "target": "VERSION", "result": "EQUAL", "version": "0"}
        put = {"request_put": {"key": key, "value": value}}
        return self._call("/v3/kv/txn", {"compare": [absent], "success": [put]}, ASK_S).succeeded

    def values(self, start: str) -> dict[str, bytes]:
        """Values by name, of names that begin like this."""
        key = self.prefix + start.encode()
        answer = self._call("/v3/kv/range", {"key": key, "range_end": key[:-1] + bytes([key[-1] + 1])}, ASK_S)
        return {found.key.removeprefix(self.prefix).decode(): found.value for found in answer.kvs}

    # Care

    def compact(self, revision: int) -> None:
        """Forget the entries below this revision."""
        try:
            self._call("/v3/kv/compaction", {"revision": str(revision), "physical": True}, DEFRAGMENT_S)
        except LogSilent as error:
            if "has been compacted" not in str(error):
                raise

    def is_compacted(self, revision: int) -> bool:
        """The entries at and below this revision are gone."""
        try:
            self._call("/v3/kv/range", {"key": self._key, "revision": str(revision), "keys_only": True}, ASK_S)
        except LogSilent as error:
            if "has been compacted" in str(error):
                return True
            raise
        return False

    def make_room(self) -> None:
        """Give back what compaction has freed, member by member, and take entries again."""
        for member in self.members:
            try:
                self._gateway.ask(member, "/v3/maintenance/defragment", {}, DEFRAGMENT_S)
            except LogSilent:
                continue  # it is down, or slow: the others have room
        for alarm in self._call("/v3/maintenance/alarm", {"action": "GET"}, ASK_S).alarms:
            raised = {"action": "DEACTIVATE", "memberID": alarm.memberID, "alarm": alarm.alarm}
            self._call("/v3/maintenance/alarm", raised, ASK_S)

    def own_address(self) -> str:
        """Of this machine, as the members see it."""
        for member in self.members:
            try:
                with socket.create_connection(member, ASK_S) as found:
                    return str(found.getsockname()[0])
            except OSError:
                continue
        raise LogSilent(f"no member of {self.name} can be reached")

    def foreign_keys(self) -> list[bytes]:
        """A few keys that are none of ours."""
        end = self.prefix[:-1] + bytes([self.prefix[-1] + 1])
        found = []
        for first, last in ((b"\0", self.prefix), (end, b"\0")):
            asked = {"key": first, "range_end": last, "keys_only": True, "limit": "3"}
            found += [one.key for one in self._call("/v3/kv/range", asked, ASK_S).kvs]
        return found

    def versions(self) -> dict[str, str]:
        """By member; those that do not answer are missing."""
        found = {}
        for member in self.members:
            try:
                found[shown(member)] = self._gateway.ask(member, "/v3/maintenance/status", {}, ASK_S).version
            except LogSilent:
                continue
        return found

    def close(self) -> None:
        self._gateway.close()


def _lines(stream: socket.socket, request: bytes) -> Iterator[bytes | None]:
    """Lines of the answer's body; None where nothing came for a moment."""
    stream.sendall(request)
    head, rest = _head(stream)
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise OSError(f"etcd refused the watch: {head[:100].decode(errors='replace')}")
    stream.settimeout(IDLE_S)
    pieces = [rest]
    while True:
        if b"\n" in pieces[-1]:
            *whole, last = b"".join(pieces).split(b"\n")
            pieces = [last]
            yield from filter(None, whole)
        try:
            piece = stream.recv(1 << 18)
        except TimeoutError:
            yield None
            continue
        if not piece:
            raise OSError("etcd ended the watch")
        pieces.append(piece)


def _head(stream: socket.socket) -> tuple[bytes, bytes]:
    read = b""
    until = time.monotonic() + ASK_S
    while b"\r\n\r\n" not in read:
        piece = stream.recv(65536)
        if not piece or len(read) > _HEAD_MAX or time.monotonic() > until:
            raise OSError("etcd ended the watch before it began")
        read += piece
    head, _, rest = read.partition(b"\r\n\r\n")
    return head, rest


def _entries(line: bytes) -> list[tuple[int, bytes]]:
    found = _LINE.decode(line).result
    if found is None:
        raise OSError(f"etcd ended the watch: {line[:200].decode(errors='replace')}")
    if int(found.compact_revision):
        raise LogCompacted(int(found.compact_revision))
    if found.canceled:
        raise OSError(f"etcd ended the watch: {found.cancel_reason}")
    return [(int(event.kv.mod_revision), event.kv.value) for event in found.events]
