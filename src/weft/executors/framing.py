"""Frames: how a node and its own processes (spawners, Python runners) send each other messages over a socket pair.

A frame is a length of four bytes and a marshalled list of messages, each as its type's position in the protocol's
list of types and its fields. Both ends are on the same machine and no other process can reach the socket, so marshal
(the fastest to write and read, by a factor of three over JSON here) is safe. A runner may be another version of
Python: version 4 of marshal's format is read by all of them.

The spawner imports this module, so it may import nothing but the standard library, and little of that.
"""

import marshal
from _operator import itemgetter

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than the rest of a spawner's start
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["MARSHAL_VERSION", "AnyMessage", "FrameReader", "Message", "MessageTypes"]

_LENGTH_BYTES = 4
MARSHAL_VERSION = 4

if TYPE_CHECKING:
    from typing import NamedTuple as Message
else:

    class Message(tuple):
        """A message with named fields, created with positional arguments.

        It is typing.NamedTuple for type checkers. A real NamedTuple takes 350 µs to define, which would add 2.5 ms to
        the start of every spawner and 4 ms to that of every runner; this takes 13 µs.
        """

        __slots__ = ()

        def __new__(cls, *fields):
            return tuple.__new__(cls, fields)

        def __init_subclass__(cls):
            for position, name in enumerate(cls.__annotations__):
                setattr(cls, name, property(itemgetter(position)))


if TYPE_CHECKING:
    AnyMessage = tuple[Any, ...]  # an object of any subclass of Message
else:
    AnyMessage = tuple


class MessageTypes:
    """All message types of one protocol."""

    def __init__(self, *types: "type[AnyMessage]") -> None:
        self._types = types
        self._numbers = {message_type: number for number, message_type in enumerate(types)}

    def frame(self, messages: "Sequence[AnyMessage]") -> bytes:
        numbers = self._numbers
        body = marshal.dumps([(numbers[type(message)], tuple(message)) for message in messages], MARSHAL_VERSION)
        return len(body).to_bytes(_LENGTH_BYTES, "little") + body

    def decode(self, body: bytes | bytearray) -> "list[Any]":
        types = self._types
        return [tuple.__new__(types[number], fields) for number, fields in marshal.loads(body)]


class FrameReader:
    """Decodes frames from a byte stream that is read in chunks of any size."""

    def __init__(self, types: MessageTypes) -> None:
        self._types = types
        self._unread = bytearray()

    def feed(self, data: bytes) -> "list[Any]":
        """The messages of all frames that are complete."""
        unread = self._unread
        unread += data
        messages: list[Any] = []
        start = 0
        while len(unread) - start >= _LENGTH_BYTES:
            body = start + _LENGTH_BYTES
            end = body + int.from_bytes(unread[start:body], "little")
            if len(unread) < end:
                break
            messages += self._types.decode(unread[body:end])
            start = end
        if start:
            del unread[:start]
        return messages
