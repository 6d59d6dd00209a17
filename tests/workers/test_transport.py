"""The way to several servers: one that refuses, one that never answers, one that says no."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from weft.node.ports import LinkLost
from weft.node.workers.http_transport import HttpTransport
from weft.node.workers.messages import Rejected
from weft.node.workers.remote_link import TokenRefused

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
TIMEOUT_S = 0.5


async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            status = body.decode() if body.isdigit() else "200"
            answer = b"%s answered %s" % (head.split(b" ")[1], body)
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(answer)}\r\n\r\n".encode() + answer)
            await writer.drain()
    writer.close()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.close()


class Story:
    """A transport to servers of these kinds, and how often it has changed between them."""

    def __init__(self) -> None:
        self.changes = 0
        self.servers: list[asyncio.Server] = []

    async def open(self, *kinds: Serve | None) -> HttpTransport:
        urls = []
        for kind in kinds:
            server = await asyncio.start_server(kind or silent, "127.0.0.1", 0)
            urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            self.servers.append(server)
            if kind is None:
                server.close()
        transport = HttpTransport(urls, "token", lambda message, fields: None)
        transport.changed(self._changed)
        return transport

    def _changed(self) -> None:
        self.changes += 1


def play(story: Callable[[Story], Awaitable[None]]) -> None:
    async def bounded() -> None:
        told = Story()
        async with asyncio.timeout(30):
            await story(told)
        for server in told.servers:
            server.close()
        await asyncio.sleep(0.05)  # until what is left of their connections has ended

    asyncio.run(bounded())


@pytest.mark.parametrize("first", [None, silent], ids=["refuses", "silent"])
def test_the_next_server_is_asked_and_kept(first: Serve | None) -> None:
    async def story(story: Story) -> None:
        transport = await story.open(first, answering)
        with pytest.raises(LinkLost):
            await transport.send("leave", b"a", TIMEOUT_S)
        for body in (b"b", b"c"):
            assert await transport.send("leave", body, 20) == b"/v1/workers/leave answered " + body
        assert story.changes == 1
        await transport.close()

    play(story)


def test_calls_that_fail_together_lead_elsewhere_once() -> None:
    async def story(story: Story) -> None:
        transport = await story.open(silent, answering)
        calls = [transport.send("leave", b"x", TIMEOUT_S) for _ in range(5)]
        failed = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(one, LinkLost) for one in failed)
        assert story.changes == 1
        assert b"answered" in await transport.send("leave", b"y", 20)
        await transport.close()

    play(story)


def test_what_a_server_says_no_to() -> None:
    async def story(story: Story) -> None:
        transport = await story.open(answering, answering)
        with pytest.raises(TokenRefused, match="answered leave with 401"):
            await transport.send("leave", b"401", 20)
        with pytest.raises(Rejected, match="413"):
            await transport.send("leave", b"413", 20)
        assert story.changes == 0, "another server would say the same"
        with pytest.raises(LinkLost, match="503"):
            await transport.send("leave", b"503", 20)
        assert story.changes == 1
        await transport.close()

    play(story)


def test_a_connection_that_was_closed_meanwhile_is_made_anew() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(1)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    async def story(story: Story) -> None:
        transport = await story.open(once)
        for _ in range(3):
            assert await transport.send("leave", b"x", 20) == b"ok"
        await transport.close()

    play(story)
