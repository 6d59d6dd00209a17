"""HTTP and TLS of our own: answers in any pieces, servers that lie, break off or are not who they should be."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from weft.executors.remote.http_connection import BUFFERED_MAX, ApiConnection, Unreachable, connect

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def certificate(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts of a server, and of a client that trusts it."""
    key, crt = directory / "key.pem", directory / "crt.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", crt], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(crt, key)
    return server, ssl.create_default_context(cafile=str(crt))


def served(
    serve: Serve,
    story: Callable[[ApiConnection], Awaitable[None]],
    server_tls: ssl.SSLContext | None = None,
    client_tls: ssl.SSLContext | None = None,
    name: str | None = None,
) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=server_tls)
        async with server, asyncio.timeout(20):
            connection = await connect("127.0.0.1", server.sockets[0].getsockname()[1], client_tls, name)
            try:
                await story(connection)
            finally:
                connection.close()
                await asyncio.sleep(0.05)

    asyncio.run(main())


async def whole(connection: ApiConnection) -> bytes:
    out = []
    while data := await connection.read():
        out.append(data)
    return b"".join(out)


@pytest.mark.parametrize("secure", [False, True])
def test_an_answer_in_pieces_and_another_over_the_same_connection(tmp_path: Path, secure: bool) -> None:
    server, client = certificate(tmp_path) if secure else (None, None)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.001)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 2\r\nRetry-After: 3\r\n\r\nno")
        await writer.drain()
        await reader.read()

    async def story(connection: ApiConnection) -> None:
        assert await connection.send(REQUEST) == 200
        assert await whole(connection) == b"abcde"
        assert connection.usable
        assert await connection.send(REQUEST) == 404
        assert (await whole(connection), connection.headers["retry-after"]) == (b"no", "3")

    served(serve, story, server, client)


@pytest.mark.parametrize("secure", [False, True])
def test_little_is_kept_of_what_nobody_reads(tmp_path: Path, secure: bool) -> None:
    server, client = certificate(tmp_path) if secure else (None, None)
    size = 64 << 20
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536

    async def story(connection: ApiConnection) -> None:
        assert await connection.send(REQUEST) == 200
        await asyncio.sleep(0.5)
        assert sent < size // 2
        assert connection._buffered < 4 * BUFFERED_MAX
        assert len(await whole(connection)) == size

    served(serve, story, server, client)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nNOT A SIZE\r\n",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"",
        b"garbage",
    ],
)
def test_an_answer_that_breaks_off(tmp_path: Path, answer: bytes, secure: bool) -> None:
    server, client = certificate(tmp_path) if secure else (None, None)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    async def ask(connection: ApiConnection) -> None:
        await connection.send(REQUEST)
        await whole(connection)

    async def story(connection: ApiConnection) -> None:
        with pytest.raises(Unreachable):
            await ask(connection)
        assert not connection.usable

    served(serve, story, server, client)


def test_an_answer_that_ends_with_its_connection(tmp_path: Path) -> None:
    """Over TLS the server must say that it closes: else it may have been cut."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nabc")
        await writer.drain()

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        await asyncio.sleep(0.1)
        writer.transport.abort()

    async def story(connection: ApiConnection) -> None:
        await connection.send(REQUEST)
        assert await whole(connection) == b"abc"
        assert not connection.usable

    async def broken(connection: ApiConnection) -> None:
        await connection.send(REQUEST)
        with pytest.raises(Unreachable):
            await whole(connection)

    served(serve, story)
    served(serve, story, *certificate(tmp_path))
    served(cut, broken, *certificate(tmp_path))


def test_a_server_that_is_not_who_it_should_be(tmp_path: Path) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("a request was sent")

    server, client = certificate(tmp_path)
    with pytest.raises(Unreachable, match=r"its certificate: self.signed certificate"):
        served(never, never, server, ssl.create_default_context())
    with pytest.raises(Unreachable, match="its certificate: Hostname mismatch"):
        served(never, never, server, client, "another.example")


def test_without_the_extra_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['httptools'] = None; import weft.executors.kubernetes.executor"
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'weft[http]'" in done.stderr


def test_nobody_there() -> None:
    async def main() -> None:
        with pytest.raises(Unreachable, match=r"cannot connect to 127\.0\.0\.1:1: "):
            await connect("127.0.0.1", 1, None, None)

    asyncio.run(main())
