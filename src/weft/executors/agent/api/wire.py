"""One request to an API whose answer is a stream of events (SSE), repeated within bounds while the API is overloaded.

A stream that breaks off is asked for again from its beginning: no tool has been called before an answer is whole.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Protocol

import httpx2
import msgspec

from weft.executors.agent.api.request import ApiFailure, ModelTurn

_TRIES_MAX: Final = 6
_DELAY_S: Final = 1.0
_DELAY_MAX_S: Final = 30.0
_RETRY_AFTER_MAX_S: Final = 60.0  # longer is left to the next attempt, which holds no place meanwhile
_OVERLOADED: Final = (408, 409, 425, 429, 500, 502, 503, 504, 529)
_EVENT_MAX: Final = 8 << 20
_ANSWER_MAX: Final = 64 << 20
_CONNECT_S: Final = 30.0
_SHOWN_MAX: Final = 300


class AnswerParser(Protocol):
    """Puts an answer together, event by event."""

    usage: dict[str, int]

    def event(self, data: Any) -> bool:
        """True: that was the last one. Raises ApiFailure for an event that says that it failed."""
        ...

    def turn(self) -> ModelTurn:
        """Raises ApiFailure if it is not whole."""
        ...


#: Says why a request is repeated, and after how many seconds.
Repeated = Callable[[ApiFailure, float], None]


class ApiClient:
    def __init__(self, url: str, headers: dict[str, str], idle_s: float) -> None:
        self._url = url
        timeout = httpx2.Timeout(idle_s, connect=min(idle_s, _CONNECT_S))
        self._http = httpx2.AsyncClient(headers=headers, timeout=timeout, follow_redirects=False)
        self._idle_s = idle_s

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        body: dict[str, Any],
        parser: Callable[[], AnswerParser],
        repeated: Repeated,
        lost: Callable[[dict[str, int]], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> ModelTurn:
        """`lost` gets the usage of answers that broke off. Raises ApiFailure."""
        for number in range(1, _TRIES_MAX + 1):
            answer = parser()
            try:
                return await self._once(body, answer)
            except ApiFailure as failure:
                if answer.usage:
                    lost(answer.usage)
                wait = failure.retry_after_s
                if not failure.again or number == _TRIES_MAX or (wait or 0) > _RETRY_AFTER_MAX_S:
                    raise
                if wait is None:
                    wait = min(_DELAY_MAX_S, _DELAY_S * 2 ** (number - 1)) * random.uniform(0.5, 1.0)
                repeated(failure, wait)
                await sleep(wait)
        raise AssertionError("the last try returns or raises")

    async def _once(self, body: dict[str, Any], answer: AnswerParser) -> ModelTurn:
        content = msgspec.json.encode(body)
        try:
            async with self._http.stream(
                "POST", self._url, content=content, headers={"content-type": "application/json"}
            ) as response:
                if response.status_code != 200:
                    raise await _refusal(response)
                async for event in _events(response):
                    if event == b"[DONE]":
                        break
                    if answer.event(_decoded(event)):
                        break
        except httpx2.TimeoutException:
            raise ApiFailure(f"the API was silent for {self._idle_s:g} s", again=True) from None
        except httpx2.InvalidURL as error:
            raise ApiFailure(f"no address of an API: {error}", again=False) from None
        except httpx2.HTTPError as error:
            message = f"the connection to the API failed: {_short(str(error)) or type(error).__name__}"
            raise ApiFailure(message, again=True) from None
        return answer.turn()


async def _refusal(response: httpx2.Response) -> ApiFailure:
    status = response.status_code
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > 64 * 1024:
            break
    again = status in _OVERLOADED
    after = _seconds(response.headers.get("retry-after", ""))
    message = f"the API answered {status}: {error_message(body)}"
    return ApiFailure(message, again=again, cause="overloaded" if again else None, retry_after_s=after)


def _seconds(text: str) -> float | None:
    """Of the header Retry-After. APIs of models send seconds; a date is left to the backoff."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e6 else None


def error_message(body: bytes) -> str:
    """Both kinds of API say `{"error": {"message": …}}`."""
    try:
        found = msgspec.json.decode(body)
        error = found.get("error", found)
        text = error if isinstance(error, str) else str(error.get("message"))
    except (msgspec.DecodeError, AttributeError, RecursionError):
        text = body.decode("utf-8", "replace")
    return _short(text)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_MAX else line[: _SHOWN_MAX - 1] + "…"


def _decoded(event: bytes) -> Any:
    try:
        return msgspec.json.decode(event)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiFailure(f"the API sent an event that is no JSON: {error}", again=True) from None


async def _events(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The data of each event of a stream; other fields and comments are not needed."""
    kind = response.headers.get("content-type", "")
    if not kind.startswith("text/event-stream"):
        raise ApiFailure(f"the API sent {kind or 'something without a type'} instead of a stream", again=True)
    pending, data, total = bytearray(), bytearray(), 0
    async for chunk in response.aiter_bytes():
        total += len(chunk)
        pending += chunk
        if total > _ANSWER_MAX or len(pending) > _EVENT_MAX:
            raise ApiFailure("the API sent an answer that is too large", again=False)
        *lines, rest = pending.split(b"\n")
        pending = rest
        for line in lines:
            line = line.rstrip(b"\r")
            if line.startswith(b"data:"):
                data += (b"\n" if data else b"") + line[5:].strip()
            elif not line and data:
                yield bytes(data)
                data = bytearray()
    if data:
        yield bytes(data)
