"""A plugin for Weft: the type of task `greeting`, which one async function does."""

import asyncio
from typing import Annotated, Any

import msgspec

from weft.plugins import AsyncAttempt, AsyncExecutor, AttemptFailed


class Greeting(msgspec.Struct):
    to: str
    times: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    pause_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class GreetingExecutor(AsyncExecutor):
    """tasks: {hello: {type: greeting, spec: {to: "World"}}}"""

    schema = Greeting

    async def run(self, spec: Greeting, attempt: AsyncAttempt) -> Any:
        if not spec.to.strip():
            raise AttemptFailed("there is nobody to greet", cause="nobody", retryable=False)
        for _ in range(spec.times):
            attempt.print(f"Hello, {spec.to}!")
            await asyncio.sleep(spec.pause_s)
        return {"greeted": spec.to, "times": spec.times}
