"""The bytes of files that tasks keep: in a directory that all nodes share, or as chunks in the store.

A directory is ROOT/RUN/files/TASK.ATTEMPT/SHA256. In the store they are chunks of the attempt's stream `files`, in
which each file begins with a chunk of its own; the store takes them only from the session that holds the attempt. In
both, what an attempt stores replaces what earlier attempts of its task have left: none of them can be accepted any
more.
"""

import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from weft.core.artifacts import KeptFile, KeptFiles
from weft.store.artifact_files import ArtifactError
from weft.store.private_files import DIRECTORY_MODE, sync_directory
from weft.store.protocol import Reader, StoreError
from weft.store.shipment import CHUNK_MAX, FILES, Chunk, Shipment

_SENT_AT_ONCE = 4  # chunks of one shipment
_READ_AT_ONCE = 8


class FilesError(ArtifactError):
    """Files that cannot be kept or fetched; the text says which and why."""


class FileOwner(NamedTuple):
    """The attempt that keeps files."""

    run_id: str
    task_id: int
    attempt: int
    session: str


class FileStorage(Protocol):
    def put(self, owner: FileOwner, found: Iterator[tuple[str, BinaryIO]], bytes_max: int) -> KeptFiles:
        """Durable when this returns. Reads each file once, and closes it."""
        ...

    def parts(self, kept: KeptFiles, file: KeptFile, start: int = 0) -> Iterator[bytes]:
        """Its bytes from `start` on. Raises FilesError if they are not all here."""
        ...


def _too_much(path: str, bytes_max: int) -> FilesError:
    return FilesError(f"artifacts: with {path} its files have more than files_max ({bytes_max:,} bytes)")


class DirectoryFiles:
    def __init__(self, root: str | Path, node: str = "here") -> None:
        self._root = Path(root)
        self._node = node

    def put(self, owner: FileOwner, found: Iterator[tuple[str, BinaryIO]], bytes_max: int) -> KeptFiles:
        directory = self._directory(owner.run_id, owner.task_id, owner.attempt)
        try:
            self._root.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            for other in directory.parent.glob(f"{owner.task_id}.*"):
                if other.name.rpartition(".")[2].isdecimal() and int(other.suffix[1:]) < owner.attempt:
                    shutil.rmtree(other, ignore_errors=True)
            files, at = [], 0
            for path, source in found:
                with source:
                    file = self._write(directory, path, source, at, bytes_max)
                files.append(file)
                at += file.bytes
            for made in (directory, directory.parent, directory.parent.parent):
                sync_directory(made)
        except OSError as error:
            raise FilesError(f"artifacts: they could not be stored in {directory}: {error.strerror}") from None
        return KeptFiles(owner.run_id, owner.task_id, owner.attempt, "directory", tuple(files))

    def _write(self, directory: Path, path: str, source: BinaryIO, at: int, bytes_max: int) -> KeptFile:
        digest, size = hashlib.sha256(), 0
        fd, temporary = tempfile.mkstemp(prefix=".", dir=directory)
        with open(fd, "wb") as target:
            while data := source.read(CHUNK_MAX):
                size += len(data)
                if at + size > bytes_max:
                    raise _too_much(path, bytes_max)
                digest.update(data)
                target.write(data)
            target.flush()
            os.fchmod(fd, self._root.stat().st_mode & 0o666)  # for those who may look into it
            os.fsync(fd)
        os.rename(temporary, directory / digest.hexdigest())
        return KeptFile(path, size, digest.hexdigest(), _executable(source), at)

    def parts(self, kept: KeptFiles, file: KeptFile, start: int = 0) -> Iterator[bytes]:
        path = self._directory(kept.run, kept.task, kept.attempt) / file.sha256
        try:
            with path.open("rb") as source:
                source.seek(start)
                left = file.bytes - start
                while left > 0 and (data := source.read(min(CHUNK_MAX, left))):
                    left -= len(data)
                    yield data
        except OSError as error:
            raise FilesError(
                f"{file.path} is not here: node {self._node} cannot read {path}: {error.strerror};"
                " share one directory between the nodes (setting artifacts)"
            ) from None
        if left:
            raise FilesError(f"{path} has fewer bytes than were kept of {file.path}")

    def _directory(self, run_id: str, task_id: int, attempt: int) -> Path:
        return self._root / run_id / "files" / f"{task_id}.{attempt}"


class StoreFiles:
    """`send` and `read` are the store's: `keep_output`, and a named read."""

    def __init__(self, send: Callable[[Shipment], list[tuple[int, int]]], reader: Callable[[], Reader]) -> None:
        self._send = send
        self._reader = reader

    def put(self, owner: FileOwner, found: Iterator[tuple[str, BinaryIO]], bytes_max: int) -> KeptFiles:
        files, at = [], 0
        for path, source in found:
            with source:
                digest, size, chunks = hashlib.sha256(), 0, list[Chunk]()
                while data := source.read(CHUNK_MAX):
                    if at + size + len(data) > bytes_max:
                        raise _too_much(path, bytes_max)
                    chunks.append(Chunk(owner.task_id, owner.attempt, owner.session, FILES, at + size, data))
                    digest.update(data)
                    size += len(data)
                    if len(chunks) == _SENT_AT_ONCE:
                        self._ship(chunks)
                if chunks:
                    self._ship(chunks)
                files.append(KeptFile(path, size, digest.hexdigest(), _executable(source), at))
            at += size
        return KeptFiles(owner.run_id, owner.task_id, owner.attempt, "store", tuple(files))

    def _ship(self, chunks: list[Chunk]) -> None:
        try:
            refused = self._send(Shipment(list(chunks)))
        except StoreError as error:
            raise FilesError(f"artifacts: the store did not take them: {error}") from None
        if refused:
            raise FilesError("artifacts: the store did not take them: the attempt is not this node's any more")
        chunks.clear()

    def parts(self, kept: KeptFiles, file: KeptFile, start: int = 0) -> Iterator[bytes]:
        at, end = file.at + start, file.at + file.bytes
        while at < end:
            first = at - (at - file.at) % CHUNK_MAX
            try:
                rows = self._reader().read("file_chunks", kept.task, kept.attempt, first, end, _READ_AT_ONCE)
            except StoreError as error:
                raise FilesError(f"{file.path} cannot be read: {error}") from None
            for begin, data in rows:
                if begin > at:
                    break
                piece = bytes(data)[at - begin :]
                at += len(piece)
                yield piece
            if not rows or rows[0][0] > at:
                raise FilesError(f"{file.path} is not in the store any more")


def fetch(storage: FileStorage, kept: KeptFiles, directory: str, user: tuple[int, int] | None = None) -> None:
    """Write all of them below a directory, and check their hashes. `user`: whom they belong to then."""
    for file in kept.list:
        target = os.path.join(directory, file.path)
        digest = hashlib.sha256()
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            fd = os.open(
                target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o777 if file.executable else 0o666
            )
            with open(fd, "wb") as out:
                for data in storage.parts(kept, file):
                    digest.update(data)
                    out.write(data)
        except OSError as error:
            raise FilesError(f"{file.path} could not be written to {directory}: {error.strerror}") from None
        if digest.hexdigest() != file.sha256:
            raise FilesError(f"{file.path} does not hold what was kept of it")
    if user is not None:
        for place, _, names in os.walk(directory):
            for name in ("", *names):
                os.chown(os.path.join(place, name), *user, follow_symlinks=False)


class KeptFileReader(io.RawIOBase):
    """The bytes of one file, to be read by parts."""

    def __init__(self, storage: FileStorage, kept: KeptFiles, file: KeptFile) -> None:
        self._storage, self._kept, self._file = storage, kept, file
        self._at = 0
        self._parts: Iterator[bytes] | None = None
        self._rest = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.bytes}[whence]
        self._at, self._parts, self._rest = max(0, start + offset), None, b""
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._file.bytes:
            return 0
        if self._parts is None:
            self._parts = self._storage.parts(self._kept, self._file, self._at)
        if not self._rest:
            self._rest = next(self._parts, b"")
        taken = self._rest[: len(buffer)]
        self._rest = self._rest[len(taken) :]
        buffer[: len(taken)] = taken
        self._at += len(taken)
        return len(taken)


def _executable(source: BinaryIO) -> bool:
    return bool(os.fstat(source.fileno()).st_mode & 0o100)
