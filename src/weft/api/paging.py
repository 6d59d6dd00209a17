"""Where a list goes on: an opaque word that holds the keys of the last line, so that what is written meanwhile shifts
nothing. What a list's cursor holds is checked when it comes back: anybody may send anything."""

import base64
import binascii
from typing import Annotated, Any

import msgspec
from fastapi import Query

from weft.api.problems import Trouble

LIMIT_MAX = 1000
_KEY_MAX = 2**62

Cursor = Annotated[
    str | None,
    Query(alias="cursor", max_length=512, description="`next` of the page before; without it, the first page"),
]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="At most so many lines")]


def cursor(kind: str, *keys: int | str) -> str:
    text = msgspec.json.encode([kind, *keys])
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def keys(given: str | None, kind: str, *types: type) -> list[Any] | None:
    """The keys in a cursor of this kind; None: there is none."""
    if given is None:
        return None
    try:
        text = base64.b64decode(given.encode() + b"=" * (-len(given) % 4), altchars=b"-_", validate=True)
        found = msgspec.json.decode(text, type=list[int | str])
    except (binascii.Error, UnicodeEncodeError, msgspec.MsgspecError):
        found = []
    if found[:1] != [kind] or [type(key) for key in found[1:]] != list(types):
        raise Trouble(422, "cursor", "this is no cursor of this list", "take `next` of the page before as it is")
    if any(isinstance(key, int) and not 0 <= key <= _KEY_MAX for key in found):
        raise Trouble(422, "cursor", "this is no cursor of this list", "take `next` of the page before as it is")
    return found[1:]
