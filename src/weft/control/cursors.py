"""Where a list goes on: an opaque word that holds the keys of the last line, so that what is written meanwhile shifts
nothing. To others it is opaque; our own client makes them, too."""

import base64
import binascii

import msgspec


def cursor(kind: str, *keys: int | str) -> str:
    text = msgspec.json.encode([kind, *keys])
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def keys_in(given: str) -> list[int | str]:
    """[kind, key, …]; empty if it is no cursor at all."""
    try:
        text = base64.b64decode(given.encode() + b"=" * (-len(given) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(text, type=list[int | str])
    except (binascii.Error, UnicodeEncodeError, msgspec.MsgspecError):
        return []
