"""Services that are slow, break off, lie about their length, send too much, or send somewhere else."""

import asyncio
import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.executors.http_call.service import Answer, Asked, Service, calling, said, serving
from tests.executors.remote.test_http_connection import certificate
from weft.executors.http_call.secret_references import marked
from weft.executors.protocol import Outcome


def outcome_of(directory: Path, answers: list[bytes] | Answer, **spec: Any) -> tuple[Outcome, Service]:
    async def main() -> tuple[Outcome, Service]:
        async with serving(answers) as service, calling(directory) as caller:
            return await caller.call({"url": f"{service.url}/start", **spec}), service

    return asyncio.run(main())


BROKEN = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
    "a broken chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n",
    "a missing chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_answers_that_break_off_are_retryable_failures(tmp_path: Path, answer: bytes) -> None:
    outcome, _ = outcome_of(tmp_path, [answer], timeout="5s")
    assert (outcome.ok, outcome.retryable, outcome.cause) == (False, True, None), outcome
    assert "cannot be reached" in (outcome.error or "")


def test_nobody_listens(tmp_path: Path) -> None:
    async def main() -> Outcome:
        async with serving([]) as service:
            url = service.url
        async with calling(tmp_path) as caller:
            return await caller.call({"url": url})

    outcome = asyncio.run(main())
    assert (outcome.ok, outcome.retryable) == (False, True)
    assert "onnect" in (outcome.error or "")


def test_a_slow_answer_is_given_up(tmp_path: Path) -> None:
    """Byte after byte: what counts is the whole request."""

    async def slowly(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    outcome, _ = outcome_of(tmp_path, slowly, timeout="500ms")
    assert (outcome.ok, outcome.cause, outcome.retryable, outcome.stopped) == (False, "timeout", True, None)
    assert "within 0.5 s" in (outcome.error or "")


def test_an_early_hint_is_not_the_answer(tmp_path: Path) -> None:
    outcome, _ = outcome_of(tmp_path, [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + said(200, "end", ETag="e")])
    assert (outcome.ok, outcome.output) == (True, "end")
    assert outcome.result is not None
    assert outcome.result["status"] == 200


def test_too_much_is_a_failure_and_is_not_read(tmp_path: Path) -> None:
    sent = 0

    async def flood(asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while sent < 256 << 20:
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536

    tracemalloc.start()
    try:
        outcome, _ = outcome_of(tmp_path, flood)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (outcome.ok, outcome.retryable) == (False, False)
    assert "more than max_bytes, 1,048,576 bytes" in (outcome.error or "")
    assert sent < 64 << 20
    assert peak < 16 << 20


def test_a_head_without_end_is_not_read(tmp_path: Path) -> None:
    async def heads(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(4096):
            writer.write(b"y" * 65536)
            await writer.drain()

    outcome, _ = outcome_of(tmp_path, heads)
    assert "the head of its answer does not end" in (outcome.error or "")


def test_compressed_answers_are_not_unpacked(tmp_path: Path) -> None:
    """A bomb stays small: nobody asked for it."""
    bomb = gzip.compress(bytes(64 << 20))
    outcome, _ = outcome_of(tmp_path, [said(200, bomb, Content_Encoding="gzip")])
    assert (outcome.ok, outcome.retryable) == (False, False)
    assert "Content-Encoding gzip, which was not asked for" in (outcome.error or "")


# -- redirects -----------------------------------------------------------------------------------------------


def test_redirects_are_off(tmp_path: Path) -> None:
    outcome, service = outcome_of(tmp_path, [said(302, Location="/x")])
    assert (outcome.ok, outcome.cause, len(service.asked)) == (False, 302, 1)


def test_redirects_are_followed_if_asked_for(tmp_path: Path) -> None:
    outcome, service = outcome_of(
        tmp_path, [said(302, Location="/b?c#d"), said(308, Location="e"), said(200, "end")],
        redirects=True, json={}, headers={"Authorization": "x"},
    )  # fmt: skip
    assert outcome.output == "end"
    assert [(asked.method, asked.target) for asked in service.asked] == [
        ("POST", "/start"), ("GET", "/b?c"), ("GET", "/e")
    ]  # fmt: skip
    assert service.asked[2].headers["authorization"] == "x"


def test_307_sends_the_same_again(tmp_path: Path) -> None:
    outcome, service = outcome_of(tmp_path, [said(307, Location="/b"), said(200)], redirects=True, json={"a": 1})
    assert outcome.ok
    assert [asked.method for asked in service.asked] == ["POST", "POST"]
    assert service.asked[1].body == b'{"a":1}'
    assert service.asked[1].headers["idempotency-key"] == "r/t"


def test_a_loop_ends(tmp_path: Path) -> None:
    outcome, service = outcome_of(tmp_path, [said(302, Location="/x")], redirects=True)
    assert "more than 5 redirects" in (outcome.error or "")
    assert (outcome.retryable, len(service.asked)) == (False, 6)


def test_another_host_gets_neither_credentials_nor_a_secret_body(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving([said(200, "end")]) as other:
            there = f"http://localhost:{other.port}/"
            async with serving([said(307, Location=there)]) as service, calling(tmp_path) as caller:
                spec = marked(
                    {"url": service.url, "redirects": True, "headers": {"X-Key": "$TOKEN"}, "method": "GET"},
                    ("TOKEN",),
                )
                assert (await caller.call(spec, {"TOKEN": "s3cret"})).output == "end"
                assert "x-key" not in other.asked[0].headers
                spec = marked({"url": service.url, "redirects": True, "json": {"a": "$TOKEN"}}, ("TOKEN",))
                outcome = await caller.call(spec, {"TOKEN": "s3cret"})
                assert "and what is sent holds a secret" in (outcome.error or "")
                assert len(other.asked) == 1

    asyncio.run(main())


def test_never_from_https_to_http(tmp_path: Path) -> None:
    server, client = certificate(tmp_path)

    async def main(status: int, **spec: Any) -> Outcome:
        async with serving([said(200)]) as plain:
            start = [said(status, Location=f"{plain.url}/x")]
            async with serving(start, server) as service, calling(tmp_path, tls=client) as caller:
                outcome = await caller.call({"url": f"https://127.0.0.1:{service.port}/", **spec})
                assert plain.asked == []
                return outcome

    for outcome in (asyncio.run(main(302, redirects=True)), asyncio.run(main(202, poll={"every": "100ms"}))):
        assert (outcome.ok, outcome.retryable) == (False, False)
        assert "which is not encrypted" in (outcome.error or "")
