"""Masking against its dumb twin, and every form of a secret that is looked for."""

import base64
import json
import shlex
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.executors.masking import MASK, Masker, StreamMasker, pattern_of, secret_forms

#: Few letters, so that forms overlap, begin like each other and end like each other begins.
letters = st.binary(min_size=1, max_size=6).map(lambda data: bytes(b"ab\\]^-"[byte % 6] for byte in data))
forms = st.lists(letters, min_size=1, max_size=4, unique=True).map(
    lambda found: tuple(sorted(found, key=lambda form: (-len(form), form)))
)


def dumb(found: tuple[bytes, ...], data: bytes) -> bytes:
    """Place by place, the longest form that stands there."""
    out, at = b"", 0
    while at < len(data):
        form = next((form for form in found if data.startswith(form, at)), None)
        out += data[at : at + 1] if form is None else MASK
        at += 1 if form is None else len(form)
    return out


@given(forms, st.lists(letters, max_size=30))
def test_a_stream_is_masked_as_the_whole_is_however_it_is_cut(found: tuple[bytes, ...], chunks: list[bytes]) -> None:
    masker = StreamMasker(found)
    out = b""
    for chunk in chunks:
        out += masker.feed(chunk)
        assert len(masker._held) < len(found[0])
    assert out + masker.end() == dumb(found, b"".join(chunks)) == pattern_of(found).sub(MASK, b"".join(chunks))


secret_texts = st.text(min_size=4, max_size=40).filter(lambda text: "\0" not in text and len(text.strip()) >= 4)


@given(secret_texts, st.binary(max_size=5), st.binary(max_size=5))
def test_base64_at_every_alignment(secret: str, before: bytes, after: bytes) -> None:
    encoded = base64.b64encode(before + secret.encode() + after)
    for text in (encoded, encoded.translate(bytes.maketrans(b"+/", b"-_"))):
        masked = Masker(secret_forms([secret])).data(text)
        assert MASK in masked
        # At most the letters at both ends that depend on the neighbours, too, and what surrounds it, are left.
        assert len(masked.replace(MASK, b"", 1)) <= -(-len(before) * 4 // 3) + -(-len(after) * 4 // 3) + 8


@given(secret_texts)
def test_every_form_is_masked(secret: str) -> None:
    masker = Masker(secret_forms([secret]))
    for text in (
        secret, quote(secret, safe=""), quote(secret), quote_plus(secret), json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1], base64.b64encode(secret.encode()).decode(),
    ):  # fmt: skip
        assert masker.text(f"<{text}>") == "<***>", text
    assert "***" in masker.text(shlex.quote(secret))


def test_what_wraps_its_lines() -> None:
    key = "-----BEGIN KEY-----\n" + "\n".join(letter * 64 for letter in "ABCDEFGH") + "\n-----END KEY-----"
    masker = Masker(secret_forms([key]))
    for line in key.splitlines():
        assert masker.text(f"> {line} <") == "> *** <"
    wrapped = base64.encodebytes(key.encode())
    assert all(line == MASK for line in masker.data(wrapped).splitlines())


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ("a 12345678 b", "a *** b"),
        (12345678, "***"),
        (912345678.5, "***"),
        (True, True),
        (None, None),
        (7, 7),
        ({"12345678": ["x", {"y": "12345678"}]}, {"***": ["x", {"y": "***"}]}),
        (("12345678",), ["***"]),
    ],
)
def test_values_are_masked_through_and_through(value: Any, masked: Any) -> None:
    assert Masker(secret_forms(["12345678"])).value(value) == masked


def test_what_is_too_short_is_left_alone() -> None:
    assert secret_forms(["abc", ""]) == ()
    assert Masker(secret_forms(["abc"])).text("abc") == "abc"
