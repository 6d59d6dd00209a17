"""A conversation with an API, in memory and in a file: a line for its id, then a line for each message.

A line is written when its message is whole, so a killed attempt loses at most what it was about to hear. A line that
is cut off, and all that follows, is ignored.
"""

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from weft.executors.masking import Masker, secret_forms


class ApiConversation:
    def __init__(self, fd: int | None, secrets: Iterable[str]) -> None:
        self._fd = fd
        self._masker = Masker(secret_forms(secrets))
        self.messages: list[dict[str, Any]] = []
        self.session = str(uuid.uuid4())

    def resume(self, session: str) -> bool:
        """Go on with what the file holds. False: it holds no such conversation."""
        if self._fd is None:
            return False
        data = os.pread(self._fd, os.fstat(self._fd).st_size, 0)
        lines: list[Any] = []
        for line in data.split(b"\n")[:-1]:
            try:
                lines.append(msgspec.json.decode(line))
            except msgspec.DecodeError:
                break
        if not lines or lines[0] != {"session": session}:
            return False
        self.session = session
        self.messages = [line for line in lines[1:] if isinstance(line, dict) and "role" in line]
        self._close_open_calls()
        return True

    def begin(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            self._write({"session": self.session})

    def _close_open_calls(self) -> None:
        """An attempt that ended while tools ran left calls without results, which APIs refuse."""
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == "assistant":
            calls = [block["id"] for block in last["content"] if block.get("type") == "tool_use"]
            if calls:
                self.add("user", [tool_result(id, "it was interrupted", True) for id in calls])

    def add(self, role: str, content: list[dict[str, Any]]) -> None:
        message = {"role": role, "content": content}
        self.messages.append(message)
        self._write(self._masker.value(message))

    def _write(self, line: dict[str, Any]) -> None:
        if self._fd is None:
            return
        data = msgspec.json.encode(line) + b"\n"
        with suppress(OSError):  # without the file, a later attempt begins anew
            while data:
                data = data[os.write(self._fd, data) :]


def tool_result(id: str, content: str, is_error: bool) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error}
