"""A stream of server-sent events to one reader.

A comment is sent when nothing else was for a while, so that a broken connection is noticed. The last message says why
it ends: `event: end`.
"""

import asyncio
import contextlib

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from weft.api.app_state import AppState
from weft.api.streams.followed_runs import sent
from weft.api.streams.topic_reader import Followed, TopicReader
from weft.operations.resources.streams import EVENT_STREAM


class EventStream(Response):
    def __init__(self, request: Request, state: AppState, followed: Followed) -> None:
        super().__init__(media_type=EVENT_STREAM, headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._reader = TopicReader(state, request, followed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        reader = self._reader
        gone = asyncio.create_task(_gone(receive, reader))
        try:
            async with contextlib.aclosing(reader.portions()) as portions:
                async for portion in portions:
                    await send(_body(b"".join(piece.data for piece in portion) or b":\n\n"))
        finally:
            gone.cancel()
        if reader.ended is not None:
            data = {"reason": reader.ended, "last": ".".join(map(str, reader.at))}
            await send(_body(sent(data["last"], data, "end")))
        await send({"type": "http.response.body", "body": b""})


def _body(data: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": True}


async def _gone(receive: Receive, reader: TopicReader) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.leave()
