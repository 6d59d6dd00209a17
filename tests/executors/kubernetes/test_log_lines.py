"""Timestamps are taken off, and a log that is read again goes on where it ended."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from tests.kubernetes_cluster.kubelet import Log, stamp
from weft.executors.kubernetes.log_lines import LogLines

SECOND = 10**9
START = 1_800_000_000 * SECOND


async def _read(log: Log, since: str | None) -> bytes:
    return b"".join([data async for data in log.read(since, False, True)])


def _log(lines: list[tuple[int, bytes]], ended: bytes = b"") -> Log:
    log = Log()
    when = START
    for step, text in lines:
        when += step
        log.lines.append((when, text + b"\n"))
    if ended:
        log.lines.append((when, ended))
    return log


LINES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, SECOND // 3, SECOND, 3 * SECOND]),
        st.binary(max_size=5).map(lambda data: data.replace(b"\n", b"")),
    ),
    max_size=20,
)


@given(
    lines=LINES, rest=st.binary(max_size=3).map(lambda data: data.replace(b"\n", b"")), data=st.data()
)  # fmt: skip
def test_wherever_it_breaks_off_nothing_is_lost_or_doubled(
    lines: list[tuple[int, bytes]], rest: bytes, data: st.DataObject
) -> None:
    log = _log(lines, rest)
    reader = LogLines()
    out = b""
    for _ in range(data.draw(st.integers(0, 5))):
        whole = asyncio.run(_read(log, reader.since))
        reader.resume()
        cut = data.draw(st.integers(0, len(whole)))
        at = 0
        while at < cut:
            size = data.draw(st.sampled_from([1, 7, 31, 40, 100, 1000]))
            out += reader.feed(whole[at : min(at + size, cut)])
            at += size
    reader.resume()
    out += reader.feed(asyncio.run(_read(log, reader.since)))
    assert out == b"".join(text + b"\n" for _, text in lines) + rest
    assert reader.gaps == 0


def test_other_forms_of_a_timestamp() -> None:
    reader = LogLines()
    assert reader.feed(b"2026-01-02T03:04:05Z a\n2026-01-02T03:04:05.5Z b\n") == b"a\nb\n"
    assert reader.since == "2026-01-02T03:04:05Z"
    reader.resume()
    again = b"2026-01-02T03:04:05Z a\n2026-01-02T03:04:05.5Z b\n2026-01-02T03:04:05.25Z old\n"
    assert reader.feed(again + b"2026-01-02T03:04:05.51Z c\n") == b"c\n"
    reader = LogLines()
    assert reader.feed(b"2026-01-02T05:04:05.000000001+02:00 a\n") == b"a\n"
    assert reader.since == "2026-01-02T05:04:05+02:00"
    reader.resume()
    assert reader.feed(b"2026-01-02T03:04:05.000000001Z a\n2026-01-02T03:04:05.000000002Z b\n") == b"b\n"


def test_what_is_not_the_containers_is_dropped() -> None:
    reader = LogLines()
    text = (
        b"unable to retrieve container logs\n"
        + stamp(START)
        + b" a\nfailed\n"
        + b"x" * 100
        + b"\n"
        + stamp(START)
        + b" b"
    )
    assert reader.feed(text) == b"a\nb"


def test_a_rotated_log_has_a_gap() -> None:
    reader = LogLines()
    assert reader.feed(stamp(START) + b" a\n") == b"a\n"
    reader.resume()
    assert reader.feed(stamp(START + 2) + b" c\n") == b"c\n"
    assert reader.gaps == 1
