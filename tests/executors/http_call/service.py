"""A service on loopback that speaks real HTTP, byte by byte if a test wants so; and attempts that ask it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from weft.executors.http_call.addresses import AddressRules, Resolve, resolve
from weft.executors.http_call.client import HttpClient
from weft.executors.http_call.executor import HttpExecutor
from weft.executors.protocol import Launch, Outcome


class Asked(msgspec.Struct):
    """A request, as the service got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


#: Writes the answer; what it leaves open is closed.
Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


def said(
    status: int = 200, body: bytes | str | dict[str, Any] | list[Any] = b"", close: bool = True, **headers: str
) -> bytes:
    data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    lines = {"Content-Length": str(len(data)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    if isinstance(body, (dict, list)):
        lines.setdefault("Content-Type", "application/json")
    head = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in lines.items() if value)]
    return "\r\n".join([*head, "", ""]).encode() + data


class Service:
    """`answers`: what it writes, one after the other, the last one again and again; or a function."""

    def __init__(self, answers: list[bytes] | Answer) -> None:
        self._answers = answers
        self.asked: list[Asked] = []
        self.open = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
            asked = Asked(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))
            self.asked.append(asked)
            if callable(self._answers):
                await self._answers(asked, writer)
            else:
                writer.write(self._answers[min(len(self.asked), len(self._answers)) - 1])
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def serving(answers: list[bytes] | Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Service]:
    service = Service(answers)
    server = await asyncio.start_server(service.accept, "127.0.0.1", 0, ssl=tls)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()


class Caller:
    """An executor, and attempts with outcomes to wait for."""

    def __init__(self, directory: Path, rules: AddressRules, find: Resolve, tls: ssl.SSLContext | None) -> None:
        self.directory = directory
        self.executor = HttpExecutor(rules, HttpClient(rules, 512, find, tls))
        self._last = 0

    def begin(
        self, spec: dict[str, Any], secrets: dict[str, str] | None = None, attempt: int = 1
    ) -> tuple[Launch, "asyncio.Future[Outcome]"]:
        self._last += 1
        env = {"WEFT_IDEMPOTENCY_KEY": "r/t"}
        launch = Launch(
            self._last, attempt, "r", f"t{self._last}", "http", {"http": spec}, env, None,
            str(self.directory / "out"), 8 << 20, secrets=secrets or {},
        )  # fmt: skip
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.executor.start(launch, future.set_result)  # raises if it is reported twice
        return launch, future

    async def call(self, spec: dict[str, Any], secrets: dict[str, str] | None = None) -> Outcome:
        return await asyncio.wait_for(self.begin(spec, secrets)[1], 30)

    def stop(self, launch: Launch, reason: Any = "cancel", grace_s: float = 5.0) -> None:
        self.executor.stop(launch.task_id, launch.attempt, reason, grace_s)

    def output(self, launch: Launch | None = None, stream: str = "err") -> str:
        name = launch.task if launch is not None else f"t{self._last}"
        return (self.directory / "out" / f"{name}.1.{stream}").read_text()


ANYWHERE = AddressRules(private=True)


@asynccontextmanager
async def calling(
    directory: Path, rules: AddressRules = ANYWHERE, find: Resolve = resolve, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Caller]:
    caller = Caller(directory, rules, find, tls)
    await caller.executor.open()
    try:
        async with asyncio.timeout(60):
            yield caller
    finally:
        await caller.executor.close()


async def until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
