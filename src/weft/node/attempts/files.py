"""Files of attempts: what `artifacts` names is kept after a success, what `files` names is there before the start.

A node that runs tasks as another user reads for it, and must not be led elsewhere by its links: a file counts where
it really is, below the directory in which the task started, and only if it is the user's own.
"""

import asyncio
import glob
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import BinaryIO, TypeVar

from weft.core.artifacts import KeptFiles, kept_files
from weft.core.definition.field_types.task_fields import wrong_path
from weft.core.expressions.run_names import Ended
from weft.core.workflow import Workflow
from weft.executors.protocol import Launch
from weft.executors.run_as import User
from weft.store.kept_files import FileOwner, FilesError, FileStorage, fetch

T = TypeVar("T")
FILES_MAX = 1000  # of one attempt: their list is a part of its result


class AttemptFiles:
    def __init__(self, storage: FileStorage, bytes_max: int, user: User | None = None) -> None:
        self._storage = storage
        self._bytes_max = bytes_max
        self._user = user
        # Few, because each may hold a connection to the store; two, so that a large file is not in the way of all.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="weft-files")

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def keep(self, launch: Launch, session: str) -> KeptFiles:
        """Raises FilesError."""
        base = launch.workspace if launch.kind == "python" and launch.workspace is not None else launch.cwd
        assert base is not None
        owner = FileOwner(launch.run_id, launch.task_id, launch.attempt, session)
        paths = find_files(base, launch.artifacts)
        return self._storage.put(owner, self._opened(base, paths), self._bytes_max)

    def _opened(self, base: str, paths: list[str]) -> Iterator[tuple[str, BinaryIO]]:
        root = os.path.realpath(base)
        for path in paths:
            try:
                fd = os.open(os.path.join(base, path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except OSError as error:
                raise FilesError(f"artifacts: {path} cannot be read: {error.strerror}") from None
            file = open(fd, "rb")  # noqa: SIM115  whoever stores it closes it
            status = os.fstat(fd)
            place = os.readlink(f"/proc/self/fd/{fd}")
            why = None
            if not stat.S_ISREG(status.st_mode):
                why = "is no file"
            elif os.path.commonpath((root, place)) != root:
                why = f"lies outside of {base}"
            elif self._user is not None and status.st_uid != self._user.uid:
                why = f"does not belong to {self._user.name}"
            if why is not None:
                file.close()
                raise FilesError(f"artifacts: {path} {why}")
            yield path, file

    def fetch(self, launch: Launch, workflow: Workflow, ends: list[Ended]) -> None:
        """What these tasks kept, below $WEFT_FILES. Raises FilesError."""
        assert launch.files is not None
        user = None if self._user is None else (self._user.uid, self._user.gid)
        shutil.rmtree(launch.files, ignore_errors=True)
        os.makedirs(launch.files)
        for ended in ends:
            kept = kept_files(ended.result)
            if kept is None:
                continue
            name = workflow.tasks[ended.pos].name
            fetch(self._storage, kept, f"{launch.files}/{name}" + ("" if ended.idx < 0 else f"/{ended.idx}"), user)


def find_files(base: str, patterns: tuple[str, ...]) -> list[str]:
    """The files that these paths, patterns and directories below `base` name, each once, in order."""
    out: dict[str, None] = {}
    for pattern in patterns:
        wrong = wrong_path(pattern)
        if wrong is not None:
            raise FilesError(f"artifacts: {pattern!r} {wrong}")
        before = len(out)
        found = sorted(glob.glob(pattern, root_dir=base, recursive=True))
        for path in found:
            if os.path.isdir(os.path.join(base, path)):
                out.update(dict.fromkeys(islice(_below(base, path), FILES_MAX + 1)))
            else:
                out[os.path.normpath(path)] = None
            if len(out) > FILES_MAX:
                raise FilesError(f"artifacts: {pattern!r} names more than {FILES_MAX:,} files: pack them into one")
        if not found or (len(out) == before and not any(os.path.isfile(os.path.join(base, path)) for path in found)):
            raise FilesError(f"artifacts: {pattern!r} is not there: no such file in {base}")
    return list(out)


def _below(base: str, path: str) -> Iterator[str]:
    for place, directories, names in os.walk(os.path.join(base, path)):
        directories.sort()
        for name in sorted(names):
            yield os.path.relpath(os.path.join(place, name), base)
