"""What stands on the command line, checked in one place: words are UTF-8, numbers fit into 64 bits."""

import os
from argparse import ArgumentTypeError
from collections.abc import Sequence

from weft.cli.exit_codes import BAD_INPUT, GiveUp

NUMBER_MAX = 2**63 - 1  # what a store can hold
DIGITS_MAX = 20
SHOWN_MAX = 60
USD_MAX = 1_000_000


def check_words(words: Sequence[str]) -> None:
    """Bytes that are not UTF-8 come as halves of surrogate pairs, which neither a store nor JSON can hold."""
    for word in words:
        if word.isascii():
            continue
        from weft.core.definition.problems import encodes

        if not encodes(word):
            fix = "write it in UTF-8; a file needs a name in UTF-8"
            raise GiveUp(BAD_INPUT, f"an argument is not UTF-8: {shown(word)}", fix)


def shown(text: str) -> str:
    """As much of it as helps to find it."""
    readable = os.fsencode(text).decode("utf-8", "backslashreplace")
    return readable if len(readable) <= SHOWN_MAX else f"{readable[:SHOWN_MAX]}…"


def whole(text: str) -> int:
    """For argparse: a whole number that a store can hold."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise ArgumentTypeError(f"expected a whole number, found {shown(text)!r}")
    if len(digits) > DIGITS_MAX or abs(int(text)) > NUMBER_MAX:
        raise ArgumentTypeError(f"expected a whole number of at most {NUMBER_MAX:,}, found {shown(text)}")
    return int(text)


def duration_ms(option: str, text: str) -> int:
    """A plain number counts seconds."""
    from weft.core.definition.field_types.text_formats import NotReadable, parse_duration_ms

    try:
        return parse_duration_ms(float(text) if text.isascii() and text.isdecimal() else text)
    except NotReadable as error:
        raise GiveUp(BAD_INPUT, f"{option}: {error}, found {shown(text)!r}", error.fix) from None


def dollars(text: str) -> float:
    """For argparse: an amount of money, such as 5 or 0.25."""
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount <= USD_MAX:
        raise ArgumentTypeError(f"expected an amount from 0 to {USD_MAX:,}, found {shown(text)!r}")
    return amount


def moment_given(option: str, text: str, now: int) -> int:
    """`10m` is ten minutes ago; everything else is a date and time, local unless it says otherwise."""
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        pass
    try:
        return now - duration_ms(option, text)
    except GiveUp:
        fix = "write 10m for ten minutes ago, or 2026-01-31T14:00"
        what = f"{option}: expected a duration or a date and time, found {shown(text)!r}"
        raise GiveUp(BAD_INPUT, what, fix) from None
