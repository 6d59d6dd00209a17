"""Artifacts as files: ROOT/RUN/SHA256.json, written whole or not at all, and never changed.

They are named by their content: an attempt that is made again writes the same file, and a reader can tell whether it
has all of it.
"""

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from weft.core.artifacts import ArtifactReference
from weft.store.private_files import DIRECTORY_MODE, sync_directory


class ArtifactError(Exception):
    """An artifact that cannot be written or read; the text says which, where and why."""


class ArtifactStorage(Protocol):
    """Where a node keeps outputs that are too large for the store. Both raise ArtifactError."""

    def write(self, run_id: str, data: bytes) -> ArtifactReference: ...
    def read(self, run_id: str, reference: ArtifactReference) -> bytes: ...


def check_size(data: bytes, bytes_max: int) -> None:
    if len(data) > bytes_max:
        raise ArtifactError(
            f"its output of {len(data):,} bytes is over artifact_max ({bytes_max:,}): write a file and give its path"
        )


class ArtifactFiles:
    def __init__(self, root: str | Path, node: str, bytes_max: int) -> None:
        self._root = Path(root)
        self._node = node
        self._bytes_max = bytes_max

    def write(self, run_id: str, data: bytes) -> ArtifactReference:
        """Durable when this returns."""
        check_size(data, self._bytes_max)
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(run_id, digest)
        try:
            self._root.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            path.parent.mkdir(exist_ok=True)
            self._write(path, data)
        except OSError as error:
            raise ArtifactError(
                f"its output of {len(data):,} bytes could not be stored as an artifact: {path}: {error.strerror}"
            ) from None
        return ArtifactReference(str(path), len(data), digest, self._node)

    def _write(self, path: Path, data: bytes) -> None:
        if path.exists() and path.stat().st_size == len(data):
            return
        fd, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
        try:
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(fd, self._root.stat().st_mode & 0o666)  # for those who may look into it
                os.fsync(fd)
            os.rename(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        for directory in (path.parent, path.parent.parent):
            sync_directory(directory)

    def read(self, run_id: str, reference: ArtifactReference) -> bytes:
        """Found by its content below this node's own root, wherever the one that wrote it has its root."""
        with self.open(run_id, reference) as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != reference.sha256:
            raise self._changed(file.name, reference)
        return data

    def open(self, run_id: str, reference: ArtifactReference) -> BinaryIO:
        """To be read by parts: it has as many bytes as were written."""
        path = self._path(reference.run or run_id, reference.sha256)
        try:
            file = path.open("rb")
        except OSError as error:
            raise ArtifactError(
                f"it was written on node {reference.node}, and node {self._node} cannot read {path}:"
                f" {error.strerror}; share one directory between them (setting artifacts)"
            ) from None
        if os.fstat(file.fileno()).st_size != reference.bytes:
            file.close()
            raise self._changed(path, reference)
        return file

    def _changed(self, path: str | Path, reference: ArtifactReference) -> ArtifactError:
        return ArtifactError(f"{path} does not hold what node {reference.node} wrote")

    def remove(self, run_id: str) -> None:
        shutil.rmtree(self._root / run_id, ignore_errors=True)

    def _path(self, run_id: str, digest: str) -> Path:
        return self._root / run_id / f"{digest}.json"
