"""The output of attempts around a replicated log: kept here and on some peers, and found wherever it is.

Peers are asked in the order that follows this node's own name, so copies are spread evenly. A peer that lacks the
beginning of a stream says so, and is brought all of it: one that was away, or that takes the place of another.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from weft.store.replicated.output.file import StoredPiece, StreamPlace, StreamsFile
from weft.store.replicated.output.peers import OUTPUT, READ, CopiedChunks, PeerChannel, PeerSilent, WantedOutput
from weft.store.shipment import Chunk

ASK_ALL_S = 5.0  # a stream that still grows: those that had nothing of it are asked again after so long
LACKING_AT_ONCE = 20
TEND_S = 2.0
SOURCES_MAX = 1000
_AFTER_ALL = 2**62
_FOUND = StoredPiece | None
_LACKING = list[tuple[StreamPlace, int]]


class ReadOutput(msgspec.Struct):
    """From a process of this machine to the node that has the replica."""

    place: StreamPlace
    offset: int
    ended: bool


class OutputCopies:
    def __init__(self, file: StreamsFile, peers: PeerChannel, copies: int) -> None:
        self._file = file
        self._peers = peers
        self._copies = copies
        self._sources: dict[StreamPlace, tuple[str, float]] = {}  # who had the last piece; when all were asked
        self._sources_lock = threading.Lock()

    def keep(self, chunks: Sequence[Chunk], revision: int) -> None:
        """Here, then on peers. Fewer copies than there should be hold up nothing: they are made later."""
        for place, end in self._file.keep(chunks, revision):
            self._fetch_beginning(place, end, revision)
        self._file.keep(chunks, revision, gaps=True)
        lacking = self._wanted() - self._on_peers(partial(self._send, chunks, revision))
        for chunk in chunks:
            if chunk.size and lacking > 0:
                self._file.set_lacking(StreamPlace.of(chunk), lacking)

    def read(self, asked: ReadOutput) -> StoredPiece | None:
        """The first piece from an offset on, of this machine or of a peer. `ended`: the stream has more than this."""
        place, offset = asked.place, asked.offset
        here = self._file.read(place, offset)
        if here is not None and here.data:
            return here
        source, asked_all = self._sources.get(place, ("", 0.0))
        others = self._peers.others()
        if source in others:
            others = [source, *(node for node in others if node != source)]
        silent = False
        for node in others:
            try:
                found: StoredPiece | None = self._peers.ask(node, READ, WantedOutput(place, offset), _FOUND)
            except PeerSilent:
                silent = True
                continue
            if found is not None and found.data:
                self._note_source(place, node, asked_all)
                return found
            here = here or found
            if node == source and not silent and not asked.ended and time.monotonic() - asked_all < ASK_ALL_S:
                return here
        self._note_source(place, source, time.monotonic())
        return here

    def tend(self, replica: Path, revision: int) -> None:
        """Remove what belongs to runs that are gone, and make copies that are missing, for a while."""
        self._file.remove_unknown(replica, revision)
        if known := self._peers.known():  # none: etcd may not have answered yet
            self._file.know_peers(known)
        until = time.monotonic() + TEND_S
        while time.monotonic() < until and (lacking := self._file.lacking(LACKING_AT_ONCE)):
            left = [self._make_copies(place, at) for place, at in lacking]
            if any(left):
                return

    def _make_copies(self, place: StreamPlace, revision: int) -> int:
        """How many are missing still. Peers that have the most of it are completed first."""
        ends: dict[str, int] = {}
        for node in self._peers.others():
            with contextlib.suppress(PeerSilent):
                found: StoredPiece | None = self._peers.ask(node, READ, WantedOutput(place, _AFTER_ALL), _FOUND)
                ends[node] = 0 if found is None else found.end
        nodes = sorted(ends, key=lambda node: -ends[node])
        made = self._on_peers(lambda node: self._bring(node, place, ends[node], revision), nodes)
        missing = max(0, self._wanted() - made)
        self._file.set_lacking(place, missing)
        return missing

    def _wanted(self) -> int:
        return min(self._copies, len(self._peers.known()))

    def _on_peers(self, copy: Callable[[str], None], nodes: Sequence[str] | None = None) -> int:
        """How many peers have it now."""
        made = 0
        for node in self._peers.others() if nodes is None else nodes:
            if made >= self._copies:
                break
            try:
                copy(node)
                made += 1
            except PeerSilent:
                continue
        return made

    def _send(self, chunks: Sequence[Chunk], revision: int, node: str) -> None:
        for place, end in self._peers.ask(node, OUTPUT, CopiedChunks(revision, list(chunks)), _LACKING):
            self._bring(node, place, end, revision)

    def _bring(self, node: str, place: StreamPlace, end: int, revision: int) -> None:
        """All that is here of a stream from `end` on."""
        while (found := self._file.read(place, end)) is not None and found.data:
            self._peers.ask(node, OUTPUT, CopiedChunks(revision, [_chunk(place, end, found)]), _LACKING)
            end = found.at + len(found.data)

    def _fetch_beginning(self, place: StreamPlace, end: int, revision: int) -> None:
        """Of a worker that sent it to another node before this one."""
        asked = ReadOutput(place, end, ended=True)
        while (found := self.read(asked)) is not None and found.data:
            self._file.keep([_chunk(place, asked.offset, found)], revision, gaps=True)
            asked = ReadOutput(place, found.at + len(found.data), ended=True)

    def _note_source(self, place: StreamPlace, node: str, asked_all: float) -> None:
        with self._sources_lock:
            self._sources.pop(place, None)
            self._sources[place] = (node, asked_all)
            if len(self._sources) > SOURCES_MAX:
                del self._sources[next(iter(self._sources))]

    def close(self) -> None:
        self._file.close()


def _chunk(place: StreamPlace, end: int, found: StoredPiece) -> Chunk:
    drop = (end, found.at) if found.at > end else None
    return Chunk(place.task_id, place.attempt, "", place.stream, found.at, found.data, drop)
