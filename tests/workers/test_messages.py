"""What a message may be, before anything is done about it."""

import pytest

from tests.workers.conftest import Served, bomb, plain
from weft.core import commands as c
from weft.node.workers import messages as m


def test_another_version_is_refused_with_what_to_do(served: Served) -> None:
    data = bytes((m.VERSION + 1,)) + m.encode(m.SessionCall("s"))[1:]
    with pytest.raises(
        m.BadMessage, match=rf"protocol {m.VERSION + 1}, and .* {m.VERSION} .* the same version of Weft"
    ):
        served.raw("leave", data)


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"", "empty"), (bytes((m.VERSION, 1)) + b"no zlib", "inflated"), (m.encode(["x" * 20_000])[:-9], "cut off"),
     (plain({"session": 7}), "Expected `str`"), (bytes((m.VERSION, 0)) + b"\xc1", "malformed|invalid")],
    ids=["empty", "not zlib", "cut off", "wrong type", "not msgpack"],
)  # fmt: skip
def test_what_cannot_be_read_is_said(served: Served, data: bytes, why: str) -> None:
    with pytest.raises(m.BadMessage, match=f"(?i){why}"):
        served.raw("leave", data)


def test_a_bomb_is_not_inflated(served: Served) -> None:
    data = bomb(40 * 2**20)
    assert len(data) < 2**20
    with pytest.raises(m.BadMessage, match="more than 25,165,824 bytes when it is inflated"):
        served.raw("exchange", data)


def test_large_messages_are_compressed_both_ways() -> None:
    ends = m.encode_answer([["x" * 100_000]])
    assert (ends[1], len(ends) < 5000) == (m.COMPRESSED, True)
    small = m.encode(m.SessionCall("s"))
    assert (small[1], len(small) < 100) == (m.PLAIN, True)
    reply = c.ExchangeReply([c.Claim(n, 1, 1, 0, -1, 1) for n in range(5000)], [], [], None, False)
    assert m.decode_answer("exchange", m.encode_answer(reply)) == reply
