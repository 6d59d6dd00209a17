"""Masks secrets in the output of an attempt, as a stream of bytes, and in its values, before they are stored.

A secret is masked as it is and in the forms that programs commonly give it: base64 at all three alignments,
URL-encoded, and with the escapes of JSON, Python and the shell. Each match becomes `***`. A program that wants to
evade masking can (it may reverse the secret, for example): masking prevents accidents, not deliberate disclosure.

The spawner imports this module for the first attempt with secrets: only the standard library, and little of that.
"""

import base64
import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

MASK = b"***"
MASK_TEXT = "***"
#: Shorter secrets match by chance: masking them would destroy the output and still show where they are.
LENGTH_MIN = 4
_LINE_MIN = 8  # lines of a multi-line secret that are masked on their own
_WRAPPED_AT = (76, 64)  # where `base64` and PEM wrap their lines
_PREFIX_BYTES = 4  # enough to rule out most positions as the start of a secret


def secret_forms(values: Iterable[str]) -> tuple[bytes, ...]:
    """Every form of these secrets that is masked, without duplicates, the longest first."""
    forms: dict[bytes, None] = {}
    for value in values:
        raw = value.encode("utf-8", "surrogateescape")
        if len(raw) < LENGTH_MIN:
            continue
        forms.update(dict.fromkeys([*_text_forms(raw), *_base64_forms(raw)]))
        lines = raw.splitlines()
        if len(lines) > 1:
            for line in lines:
                if len(line.strip()) >= _LINE_MIN:
                    forms.update(dict.fromkeys(_text_forms(line.strip())))
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _text_forms(raw: bytes) -> list[bytes]:
    """The secret as it is, URL-encoded, and escaped as JSON, Python and the shell do inside quotes."""
    encoded = [quote(raw, safe=""), quote(raw), quote_plus(raw)]
    encoded += [re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), one) for one in encoded]
    out = [raw, *(one.encode() for one in encoded)]
    text = raw.decode("utf-8", "surrogateescape")
    quoted = [repr(text)[1:-1], text.replace("'", "'\\''"), text.replace("'", "'\"'\"'")]
    for ascii_only in (True, False):
        escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        quoted += [escaped, escaped.replace("/", "\\/")]
    out += [one.encode("utf-8", "surrogateescape") for one in quoted]
    return [form for form in out if len(form) >= LENGTH_MIN]


def _base64_forms(raw: bytes) -> list[bytes]:
    """At each alignment, the base64 characters that depend on the secret alone and not on the bytes around it."""
    out = []
    for before in range(3):
        whole = base64.b64encode(bytes(before) + raw)
        first = -(-before * 8 // 6)
        last = (before + len(raw)) * 8 // 6
        out.append(whole[first:last])
        if before == 0:
            out.append(whole)  # with its padding
            for width in _WRAPPED_AT:
                lines = [whole[at : at + width] for at in range(0, len(whole), width)]
                out += [line for line in lines[: len(lines) if len(lines) > 1 else 0] if len(line) >= _LINE_MIN]
    out += [form.translate(_URL_SAFE) for form in out]
    return [form for form in out if len(form) >= LENGTH_MIN]


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Masker:
    """Masks whole values. It keeps no state, so one serves all values of an attempt."""

    def __init__(self, forms: tuple[bytes, ...]) -> None:
        """`forms` is the result of `secret_forms`."""
        self.pattern = pattern_of(forms)

    def data(self, data: bytes) -> bytes:
        return self.pattern.sub(MASK, data)

    def text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        masked = self.pattern.sub(MASK, data)
        # Only a secret that is not valid UTF-8 itself can match a part of a character.
        return text if masked == data else masked.decode("utf-8", "replace")

    def value(self, value: Any) -> Any:
        """A JSON value. A number or a boolean that contains a secret becomes the mask."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        if isinstance(value, (int, float)):
            return MASK_TEXT if self.pattern.search(json.dumps(value).encode()) else value
        return value


class StreamMasker:
    """Masks a stream of bytes: bytes that may be the start of a secret are held back until the next ones decide.

    The result is that of masking everything at once, the leftmost match first and the longest of those, however the
    bytes are split into chunks. Fewer bytes are held back than the longest form has.
    """

    def __init__(self, forms: tuple[bytes, ...]) -> None:
        self._forms = forms
        self._pattern = pattern_of(forms)
        self._first_byte = re.compile(b"[" + b"".join(sorted({re.escape(form[:1]) for form in forms})) + b"]")
        self._prefixes = frozenset(form[:_PREFIX_BYTES] for form in forms)
        self._longest = len(forms[0])
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """The masked bytes up to the first undecided position."""
        data = self._held + data
        out: list[bytes] = []
        at = 0
        undecided = self._undecided(data, len(data) - self._longest + 1)
        while True:
            if at > undecided:
                undecided = self._undecided(data, at)
            match = self._pattern.search(data, at)
            if match is None or match.start() >= undecided:
                out.append(data[at:undecided])
                self._held = data[undecided:]
                return b"".join(out)
            out += (data[at : match.start()], MASK)
            at = match.end()

    def end(self) -> bytes:
        """The masked rest of the stream, which has ended."""
        rest, self._held = self._held, b""
        return self._pattern.sub(MASK, rest)

    def _undecided(self, data: bytes, start: int) -> int:
        """The first position at which more data could complete a secret, or a longer one; else the end of the
        data."""
        for match in self._first_byte.finditer(data, max(start, 0)):
            at = match.start()
            if at + _PREFIX_BYTES <= len(data) and data[at : at + _PREFIX_BYTES] not in self._prefixes:
                continue
            rest = data[at:]
            if any(len(form) > len(rest) and form.startswith(rest) for form in self._forms):
                return at
        return len(data)


def pattern_of(forms: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """The longest form first, so that it wins among those that match at the same position."""
    return re.compile(b"|".join(map(re.escape, forms)) or b"(?!)")
