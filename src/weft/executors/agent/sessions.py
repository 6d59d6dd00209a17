"""What this machine keeps of an agent's conversation between the attempts of a task: the session's id and how the
last attempt ended, in a small private file beside the run's output; and the conversation itself, where Weft asks an
API. Both go when the task has succeeded, or with the run."""

import os
from contextlib import suppress
from typing import Final

import msgspec

_MODE: Final = 0o600
_PROBLEM_MAX: Final = 2000


class KeptSession(msgspec.Struct, omit_defaults=True):
    session: str | None = None
    problem: str | None = None
    rejected: bool = False  # the answer did not match the schema


class TaskConversation:
    """Of one task: `output_dir` is that of its run, `task` its name."""

    def __init__(self, output_dir: str, task: str) -> None:
        self._directory = output_dir
        self._session = f"{output_dir}/{task}.session"
        self._conversation = f"{output_dir}/{task}.conversation"

    def read(self) -> KeptSession:
        """What cannot be read is as good as nothing: the agent begins anew."""
        try:
            with open(self._session, "rb") as file:
                return msgspec.json.decode(file.read(), type=KeptSession)
        except (OSError, msgspec.DecodeError, msgspec.ValidationError):
            return KeptSession()

    def write(self, kept: KeptSession) -> None:
        """It appears whole, or not at all."""
        if kept.problem is not None:
            kept.problem = kept.problem[:_PROBLEM_MAX]
        new = f"{self._session}.new"
        with suppress(OSError):
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(kept))
            os.replace(new, self._session)

    def open_conversation(self, *, fresh: bool) -> int:
        os.makedirs(self._directory, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._conversation, flags | (os.O_TRUNC if fresh else 0), _MODE)

    def open_messages(self, attempt_stem: str) -> int:
        """Where the program's messages are kept as they come."""
        path = f"{self._directory}/{attempt_stem}.jsonl"
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)

    def remove(self) -> None:
        for path in (self._session, self._conversation):
            with suppress(OSError):
                os.unlink(path)
