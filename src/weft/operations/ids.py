"""Ids of runs and commands."""

import hashlib
import secrets

_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: ids are read aloud and typed


def new_id(length: int = 12) -> str:
    return _text(secrets.randbits(5 * length), length)


def id_from(text: str, length: int = 12) -> str:
    """An id that follows from a text: a request that is sent twice under one command id gets the same."""
    return _text(int.from_bytes(hashlib.sha256(text.encode()).digest(), "big"), length)


def _text(number: int, length: int) -> str:
    return "".join([_LETTERS[number >> 5 * at & 31] for at in range(length)])
