"""What an attempt printed, read by range: from the files that its node keeps beside the store, or from the store."""

import os
from typing import TYPE_CHECKING

from weft.executors.output import StreamName, output_path
from weft.operations.errors import NotFound
from weft.operations.reading.output.attempts import StoredOutput, open_output
from weft.operations.reading.runs import find_run, one_task
from weft.operations.replies import OutputPart
from weft.store.protocol import StoreUnusable

if TYPE_CHECKING:
    from weft.operations.access import StoreAccess

PART_MAX = 1 << 20


def read_output(
    access: "StoreAccess", ref: str, task: str, attempt: int, stream: StreamName, offset: int, limit: int
) -> OutputPart:
    """From `offset` on; negative: so many bytes before the end. What was cut out of the middle is skipped."""
    no, run_id = find_run(access, ref)
    info = one_task(access, run_id, task)
    if not 1 <= attempt <= info.attempt:
        raise NotFound(f"{info.name} has no attempt {attempt}; its last is {info.attempt}")
    # Asked before the file is read: an attempt that is over by then has written all it will.
    over = attempt < info.attempt or info.state != "running" or info.held is not None
    opened = open_output(access, no, run_id, info.name, attempt, stream)
    if isinstance(opened, StoredOutput):
        return _stored(opened, offset, limit, over)
    path = output_path(str(access.output_root / run_id), info.name, attempt, stream)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return OutputPart(data=b"", offset=0, next=0, size=0, ended=over)  # it wrote nothing
    try:
        size = os.fstat(fd).st_size
        at = max(0, size + offset) if offset < 0 else offset
        if at >= size:
            return OutputPart(data=b"", offset=at, next=at, size=size, ended=over)
        start, end = _kept(fd, at, size)
        data = os.pread(fd, min(limit, PART_MAX, end - start), start)
    finally:
        os.close(fd)
    return OutputPart(data=data, offset=start, next=start + len(data), size=size, ended=over)


def _stored(opened: StoredOutput, offset: int, limit: int, over: bool) -> OutputPart:
    size, all_there = opened.size()
    piece = opened.read(max(0, size + offset) if offset < 0 else offset, min(limit, PART_MAX))
    if piece.then == "away":
        where = f"its node ({piece.node})" if piece.node else "its node"
        raise StoreUnusable(
            f"no node that answers has the rest of this output: it is on {where}, or on one with a copy"
        )
    return OutputPart(
        data=piece.data, offset=piece.at, next=piece.next, size=max(size, piece.next), ended=over and all_there
    )


def _kept(fd: int, at: int, size: int) -> tuple[int, int]:
    try:
        start = os.lseek(fd, at, os.SEEK_DATA)
        return start, os.lseek(fd, start, os.SEEK_HOLE)
    except OSError:
        return at, size  # no holes known to this filesystem, or nothing but a hole is left
