"""Real servers on loopback that take notifications: one speaks HTTP, one speaks SMTP."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hook:
    """What a webhook was sent. `answers`: statuses, one for each request, then 200; 0 answers nothing for a while."""

    def __init__(self, answers: list[int]) -> None:
        self.answers = answers
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.hung = threading.Event()
        self.url = ""


@contextmanager
def webhook(*answers: int) -> Iterator[Hook]:
    hook = Hook(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.paths.append(self.path)
            hook.headers.append({name.lower(): value for name, value in self.headers.items()})
            status = hook.answers.pop(0) if hook.answers else 200
            hook.bodies.append(json.loads(body))
            if status == 0:
                hook.hung.wait(30)
                return
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.hung.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Mailbox:
    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers  # to RCPT, one for each, then 250
        self.mails: list[Message] = []
        self.recipients: list[str] = []
        self.logins: list[str] = []
        self.port = 0


@contextmanager
def smtp_server(*answers: bytes) -> Iterator[Mailbox]:
    """Speaks RFC 5321 as far as a client that sends mail needs it, with AUTH PLAIN."""
    box = Mailbox(list(answers))
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        done = asyncio.Event()
        server = await asyncio.start_server(lambda reader, writer: _session(box, reader, writer), "127.0.0.1", 0)
        box.port = server.sockets[0].getsockname()[1]
        stop.append(lambda: loop.call_soon_threadsafe(done.set))
        ready.set()
        async with server:
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield box
    finally:
        stop[0]()
        thread.join()
        loop.close()


async def _session(box: Mailbox, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example ESMTP\r\n")
    while line := await reader.readline():
        verb = line.split()[0].upper() if line.split() else b""
        if verb == b"EHLO":
            writer.write(b"250-mail.example\r\n250-AUTH PLAIN\r\n250 8BITMIME\r\n")
        elif verb == b"AUTH":
            box.logins.append(line.split()[2].decode())
            writer.write(b"235 2.7.0 ok\r\n")
        elif verb == b"RCPT":
            answer = box.answers.pop(0) if box.answers else b"250 ok"
            if answer.startswith(b"250"):
                box.recipients.append(line.decode().strip())
            writer.write(answer + b"\r\n")
        elif verb == b"DATA":
            writer.write(b"354 go on\r\n")
            await writer.drain()
            data = b""
            while (part := await reader.readline()) != b".\r\n":
                data += part[1:] if part.startswith(b".") else part
            box.mails.append(message_from_bytes(data))
            writer.write(b"250 taken\r\n")
        elif verb == b"QUIT":
            writer.write(b"221 bye\r\n")
            await writer.drain()
            break
        else:
            writer.write(b"250 ok\r\n")
        await writer.drain()
    writer.close()
