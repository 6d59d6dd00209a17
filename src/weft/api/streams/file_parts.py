"""A file that never changes, or one range of it, sent as fast as its reader takes it: a part at a time in memory."""

import asyncio
import json
import re
from typing import BinaryIO

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from weft.core.artifacts import ArtifactReference
from weft.operations.errors import ApiError

PART = 256 * 1024
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class FileParts(Response):
    """Closes the file. A range that is none, or several of them, are answered with all of it, as RFC 9110 lets us."""

    def __init__(
        self, file: BinaryIO, reference: ArtifactReference, wanted: str | None, if_range: str | None
    ) -> None:
        self._file = file
        size, tag = reference.bytes, f'"{reference.sha256}"'
        try:
            found = None if if_range not in (None, tag) else range_of(wanted, size)
        except ApiError:
            file.close()
            raise
        begin, end = found or (0, size)
        self._left = end - begin
        file.seek(begin)
        headers = {
            "ETag": tag, "Accept-Ranges": "bytes", "Content-Length": str(self._left),
            "Weft-Artifact": _in_ascii(reference),
        }  # fmt: skip
        if found is not None:
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        super().__init__(
            status_code=200 if found is None else 206, media_type="application/octet-stream", headers=headers
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while self._left > 0:
                data = await asyncio.to_thread(self._file.read, min(PART, self._left))
                if not data:
                    return  # it was cut meanwhile: the reader lacks bytes, and notices
                self._left -= len(data)
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._file.close()


def range_of(wanted: str | None, size: int) -> tuple[int, int] | None:
    """(first byte, one after the last); None: all of it."""
    found = None if wanted is None else _RANGE.fullmatch(wanted.strip())
    if found is None or found.groups() == ("", "") or size == 0:
        return None
    first, last = found.groups()
    begin = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if first and last and int(last) < int(first):
        return None
    if begin >= size:
        headers = {"Content-Range": f"bytes */{size}"}
        raise ApiError("range", f"it has {size:,} bytes", "ask for a range within them", headers=headers)
    return begin, end


def _in_ascii(reference: ArtifactReference) -> str:
    """Headers hold nothing else; JSON can say everything in it."""
    return json.dumps(msgspec.to_builtins(reference))
