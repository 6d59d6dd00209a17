"""An engine that answers as a test says, where a real one cannot be made to: Docker, slow pulls, registries."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

#: (method, path, headers, body) -> the status and the parts of the answer's body, each sent after a pause in seconds.
Answer = tuple[int, list[tuple[float, bytes]]]
Answers = Callable[[str, str, dict[str, str], Any], Answer]

DOCKER = {"Version": "29.0.0", "ApiVersion": "1.52", "MinAPIVersion": "1.44", "Components": [{"Name": "Engine"}]}


class FakeEngine:
    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.asked: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, path, _ = first.split(" ")
            path = re.sub("^/v1[.][0-9]+/", "/", path)
            self.asked.append((method, path))
            self.headers.append(headers)
            status, parts = self._answers(method, path, headers, json.loads(body) if body else None)
            writer.write(f"HTTP/1.1 {status} Said\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            for pause_s, part in parts:
                await writer.drain()
                await asyncio.sleep(pause_s)
                writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def fake_engine(path: Path, answers: Answers) -> AsyncIterator[FakeEngine]:
    engine = FakeEngine(answers)
    server = await asyncio.start_unix_server(engine.serve, str(path))
    try:
        yield engine
    finally:
        server.close()


def said(value: Any, status: int = 200) -> Answer:
    return status, [(0.0, json.dumps(value).encode())]
