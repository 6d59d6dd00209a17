"""Secrets out of whatever an attempt leaves: bytes as they stream by, and values on their way to the store.

A secret is looked for as it is and in the forms that programs commonly give it: base64 at all three alignments,
URL-encoded, and with the escapes of JSON, Python and the shell. What was found becomes `***`. A program that wants to
hide a secret from this can (it may reverse it, say): masking is against accidents, not against the task itself.

It is imported by the spawner, for the first attempt with secrets: only the standard library, and little of that.
"""

import base64
import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

MASK = b"***"
MASK_TEXT = "***"
#: What is shorter is everywhere: masking it would destroy the output and still tell where it stood.
LENGTH_MIN = 4
_LINE_MIN = 8  # of a secret with several lines, each line that is at least so long
_WRAPPED_AT = (76, 64)  # where `base64` and PEM break their lines
_OPENING = 4  # bytes that tell most places apart from the beginning of a secret


def needles(values: Iterable[str]) -> tuple[bytes, ...]:
    """Every form of these secrets that is masked, each once, the longest first."""
    found: dict[bytes, None] = {}
    for value in values:
        raw = value.encode("utf-8", "surrogateescape")
        if len(raw) < LENGTH_MIN:
            continue
        found.update(dict.fromkeys(_forms(raw)))
        lines = raw.splitlines()
        if len(lines) > 1:
            for line in lines:
                if len(line.strip()) >= _LINE_MIN:
                    found.update(dict.fromkeys(_texts(line.strip())))
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _forms(raw: bytes) -> list[bytes]:
    return [*_texts(raw), *_base64(raw)]


def _texts(raw: bytes) -> list[bytes]:
    """As it is, URL-encoded in four ways, and as JSON, Python and the shell write it inside quotes."""
    encoded = [quote(raw, safe=""), quote(raw), quote_plus(raw)]
    encoded += [re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), one) for one in encoded]
    out = [raw, *(one.encode() for one in encoded)]
    text = raw.decode("utf-8", "surrogateescape")
    quoted = [repr(text)[1:-1], text.replace("'", "'\\''"), text.replace("'", "'\"'\"'")]
    for ascii_only in (True, False):
        escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        quoted += [escaped, escaped.replace("/", "\\/")]
    out += [one.encode("utf-8", "surrogateescape") for one in quoted]
    return [form for form in out if len(form) >= LENGTH_MIN]


def _base64(raw: bytes) -> list[bytes]:
    """Whatever stands before it and after it in the same base64 text: the letters that depend on it alone."""
    out = []
    for before in range(3):
        whole = base64.b64encode(bytes(before) + raw)
        first = -(-before * 8 // 6)
        last = (before + len(raw)) * 8 // 6
        out.append(whole[first:last])
        if before == 0:
            out.append(whole)  # with what pads it
            for width in _WRAPPED_AT:
                lines = [whole[at : at + width] for at in range(0, len(whole), width)]
                out += [line for line in lines[: len(lines) if len(lines) > 1 else 0] if len(line) >= _LINE_MIN]
    out += [form.translate(_URL_SAFE) for form in out]
    return [form for form in out if len(form) >= LENGTH_MIN]


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Masker:
    """For whole values. Immutable, so one serves all that an attempt leaves."""

    def __init__(self, forms: tuple[bytes, ...]) -> None:
        """`forms` are what `needles` gives."""
        self.pattern = pattern_of(forms)

    def data(self, data: bytes) -> bytes:
        return self.pattern.sub(MASK, data)

    def text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        masked = self.pattern.sub(MASK, data)
        # A secret may be part of a character's bytes only if it is no text itself.
        return text if masked == data else masked.decode("utf-8", "replace")

    def value(self, value: Any) -> Any:
        """A JSON value. A number or a truth value that has a secret in it becomes the mask."""
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
    """For bytes as they come: what may be the beginning of a secret is held back until it is known.

    The result is that of masking everything at once, the leftmost match first and the longest of those, however the
    bytes were cut into chunks. It holds back less than the longest form.
    """

    def __init__(self, forms: tuple[bytes, ...]) -> None:
        self._forms = forms
        self._pattern = pattern_of(forms)
        self._first = re.compile(b"[" + b"".join(sorted({re.escape(form[:1]) for form in forms})) + b"]")
        self._openings = frozenset(form[:_OPENING] for form in forms)
        self._longest = len(forms[0])
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What can be told by now."""
        data = self._held + data
        out: list[bytes] = []
        at = 0
        undecided = self._undecided(data, len(data) - self._longest + 1)
        while True:
            if at > undecided:
                undecided = self._undecided(data, at)
            found = self._pattern.search(data, at)
            if found is None or found.start() >= undecided:
                out.append(data[at:undecided])
                self._held = data[undecided:]
                return b"".join(out)
            out += (data[at : found.start()], MASK)
            at = found.end()

    def end(self) -> bytes:
        """Nothing more will come."""
        rest, self._held = self._held, b""
        return self._pattern.sub(MASK, rest)

    def _undecided(self, data: bytes, start: int) -> int:
        """The first place from which on the data could become a secret, or a longer one than it is; else its end."""
        for found in self._first.finditer(data, max(start, 0)):
            at = found.start()
            if at + _OPENING <= len(data) and data[at : at + _OPENING] not in self._openings:
                continue
            rest = data[at:]
            if any(len(form) > len(rest) and form.startswith(rest) for form in self._forms):
                return at
        return len(data)


def pattern_of(forms: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """The longest form first: so of those that begin at one place it is found."""
    return re.compile(b"|".join(map(re.escape, forms)) or b"(?!)")
