"""JavaScript's view of text: strings are rows of UTF-16 code units, Python's are rows of code points.

The two agree except beyond U+FFFF. Everything that counts, cuts, searches or orders goes through here, with a
quick way out for ASCII, which is nearly all text. A string is kept in one form only: a pair of surrogates is
always one code point, half a pair stays as it is (and is refused when it would leave the expression).
"""

from typing import Final

#: What JavaScript calls white space and line ends; also what trim() removes.
WHITESPACE: Final = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
TRIMMED: Final = WHITESPACE.replace("\u2000-\u200a", "".join(map(chr, range(0x2000, 0x200B))))

_PLANE_OF_HIGH_BYTE: Final = bytes(0x10 if 0xD8 <= byte <= 0xDF else 0 for byte in range(256))


def encoded(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def combine_pairs(text: str) -> str:
    """Joins surrogates that stand side by side, as every JavaScript string does by itself."""
    return text if text.isascii() else encoded(text).decode("utf-16-le", "surrogatepass")


def length(text: str) -> int:
    return len(text) if text.isascii() else len(encoded(text)) >> 1


def units(text: str) -> str:
    """One Python character per UTF-16 code unit; the very same string if it has no surrogates.

    Halves of pairs are shown as U+10D800 … U+10DFFF, which cannot be there otherwise: Python would call a handler
    for each surrogate that it decodes, 100 times slower than the copying done here.
    """
    if text.isascii():
        return text
    raw = encoded(text)
    planes = raw[1::2].translate(_PLANE_OF_HIGH_BYTE)
    if b"\x10" not in planes:
        return text
    wide = bytearray(2 * len(raw))
    wide[0::4] = raw[0::2]
    wide[1::4] = raw[1::2]
    wide[2::4] = planes
    return wide.decode("utf-32-le")


def from_units(text: str) -> str:
    """What `units` took apart, or a piece of it."""
    if text.isascii():
        return text
    wide = text.encode("utf-32-le")
    raw = bytearray(len(wide) >> 1)
    raw[0::2] = wide[0::4]
    raw[1::2] = wide[1::4]
    return raw.decode("utf-16-le", "surrogatepass")


def less(left: str, right: str) -> bool:
    """Order by code units: U+1F600 (a surrogate pair) comes before U+FF5E."""
    if left.isascii() or right.isascii():
        return left < right
    return left.encode("utf-16-be", "surrogatepass") < right.encode("utf-16-be", "surrogatepass")


def concatenated(left: str, right: str) -> str:
    if left and right and "\ud800" <= left[-1] <= "\udbff" and "\udc00" <= right[0] <= "\udfff":
        return combine_pairs(left + right)
    return left + right


def is_whole(text: str) -> bool:
    """False if half a surrogate pair is in it, which no JSON document or environment can carry."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
