"""The messages between a node and its spawner.

A frame is a length of four bytes and a marshalled list of messages; a message is a tuple whose first item
says what it is. Both ends are the same Python on the same machine and nobody else can reach the socket, so
marshal (the quickest to write and read, by a factor of three over JSON here) is safe.

node -> spawner
    (HELLO, base environment, token prefix, node's pid, (name, user id, group id, [group ids]) or None)
                                                                 once, first; the user that attempts run as
    (START, id, argv, search PATH, environment on top, cwd, output directory, file stem, cap,
            variables of the base environment that it must not see, what to mask in its output,
            whether a descriptor comes with it: its standard input, which is /dev/null otherwise)
    (STOP, id, reason, grace in seconds)
    (TRUST, CLOCK_BOOTTIME until which attempts may live)
    (CLOSE,)                                                     kill all, report all, exit
spawner -> node
    (PIDS, {id: pid of the leader}, [pids of orphans])           of what outlives a sweep
    (ENDED, id, wait status or None, started or None, ended, stop reason or None, processes killed,
            error or None, exit code if it never started, startable, stdout, stderr)
        a stream is (bytes written, head kept, tail kept)

The environment of attempts and their secrets travel in these messages alone: the spawner's own, which is there for
every process of its user to read, has none of them.

Strings that reach the kernel are bytes, so that no locale has a say in them.
"""

import marshal
from typing import Any

HELLO, START, STOP, TRUST, CLOSE, PIDS, ENDED = range(7)

#: The variable by which whatever an attempt leaves behind is known as its own. (WEFT_TOKEN is a token of a server's,
#: which a task may need.)
TOKEN = b"WEFT_SPAWNED"

Message = tuple[Any, ...]

#: Who attempts run as: name, user id, group id, all group ids.
AsUser = tuple[str, int, int, tuple[int, ...]]


def frame(messages: list[Message]) -> bytes:
    body = marshal.dumps(messages)
    return len(body).to_bytes(4, "little") + body


class Unframer:
    """Turns bytes, as they come, into messages."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        pending = self._pending
        pending += data
        messages: list[Message] = []
        at = 0
        while len(pending) - at >= 4:
            end = at + 4 + int.from_bytes(pending[at : at + 4], "little")
            if len(pending) < end:
                break
            messages += marshal.loads(pending[at + 4 : end])
            at = end
        if at:
            del pending[:at]
        return messages
