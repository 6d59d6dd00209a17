"""The loop of an agent over an API: it asks the model, calls the tools that the model asks for, and prints what
happens as claude does.

Bounded in turns, in tokens and in dollars: an answer may be as long as what is left of the budget pays for.
"""

import os
import sys
import time
from typing import Any, Final

import msgspec

from weft.executors.agent.api.anthropic_messages import (
    AnthropicAnswer,
    anthropic_body,
    anthropic_headers,
    anthropic_url,
)
from weft.executors.agent.api.chat_completions import ChatAnswer, chat_body, chat_headers, chat_url
from weft.executors.agent.api.conversation import ApiConversation, tool_result
from weft.executors.agent.api.request import ApiFailure, ApiRequest, ModelTurn
from weft.executors.agent.api.tool_servers import ToolServers
from weft.executors.agent.api.wire import ApiClient
from weft.executors.agent.usage import MILLION, SpendingLimit, UsageTally

_UNKNOWN_SESSION: Final = "No conversation found with session ID: {}"


class ApiAgent:
    def __init__(self, request: ApiRequest) -> None:
        self._request = request
        secrets = [os.environ[name] for name in request.masked if name in os.environ]
        self._conversation = ApiConversation(request.conversation, secrets)
        self._tally = UsageTally(request.prices)
        self._limit = SpendingLimit(request.usd, request.tokens)
        self._lost = 0
        self._turns = 0
        self._began = time.monotonic()
        key = None if request.key is None else os.environ.get(request.key)
        chat = request.api == "openai-compatible"
        url = chat_url(request.url) if chat else anthropic_url(request.url)
        self._client = ApiClient(url, chat_headers(key) if chat else anthropic_headers(key), request.idle_s)
        self._body = chat_body if chat else anthropic_body
        self._parser = ChatAnswer if chat else AnthropicAnswer

    async def run(self) -> int:
        session = self._request.session
        if session is not None and not self._conversation.resume(session):
            return self._result("error_during_execution", errors=[_UNKNOWN_SESSION.format(session)])
        if session is None:
            self._conversation.begin()
        try:
            async with ToolServers(self._request.mcp) as tools:
                self._begin(tools)
                return await self._talk(tools)
        except ApiFailure as failure:
            weft = {"retryable": failure.again, "cause": failure.cause, "retry_after_s": failure.retry_after_s}
            return self._result("error_during_execution", errors=[str(failure)], weft=weft)
        finally:
            await self._client.close()

    def _begin(self, tools: ToolServers) -> None:
        servers = [{"name": name, "status": "connected"} for name in self._request.mcp]
        self._line({
            "type": "system", "subtype": "init", "cwd": os.getcwd(), "model": self._request.model,
            "tools": [tool["name"] for tool in tools.described], "mcp_servers": servers,
        })  # fmt: skip

    async def _talk(self, tools: ToolServers) -> int:
        self._conversation.add("user", [{"type": "text", "text": self._request.prompt}])
        while True:
            room = self._room()
            if room < 1:
                return self._result("error_max_budget_usd", errors=["the next request could pass the budget"])
            turn = await self._ask(tools, room)
            self._turns += 1
            self._tally.message(turn.id or None, turn.usage)
            self._conversation.add("assistant", turn.content)
            self._line({"type": "assistant", "message": _message(turn), "parent_tool_use_id": None})
            if turn.stop_reason != "tool_use":
                return self._last(turn, room)
            if self._turns >= self._request.max_turns:
                return self._result("error_max_turns", errors=[f"{self._turns} turns"])
            await self._call_tools(turn, tools)

    async def _ask(self, tools: ToolServers, room: int) -> ModelTurn:
        body = self._body(self._request, self._conversation.messages, tools.described, room)
        return await self._client.ask(body, self._parser, self._repeated, self._count_lost)

    async def _call_tools(self, turn: ModelTurn, tools: ToolServers) -> None:
        results = []
        for block in turn.content:
            if block.get("type") == "tool_use":
                text, is_error = await tools.call(block["name"], block["input"])
                results.append(tool_result(block["id"], text, is_error))
        self._conversation.add("user", results)
        self._line({"type": "user", "message": self._conversation.messages[-1], "parent_tool_use_id": None})

    def _last(self, turn: ModelTurn, room: int) -> int:
        text = "".join(block["text"] for block in turn.content if block["type"] == "text")
        if turn.stop_reason == "refusal":
            weft = {"cause": "refused", "retryable": False}
            return self._result("error_during_execution", errors=[f"the model refused: {text}"], weft=weft)
        if turn.stop_reason in ("max_tokens", "model_context_window_exceeded"):
            if room < self._request.max_tokens and turn.stop_reason == "max_tokens":
                return self._result("error_max_budget_usd", errors=["its budget ended within an answer"])
            message = f"its answer was cut off: {turn.stop_reason} ({room:,} tokens)"
            return self._result("error_during_execution", errors=[message])
        return self._result("success", result=text)

    def _room(self) -> int:
        """The most tokens that the next answer may have."""
        room = self._request.max_tokens
        if self._limit.tokens is not None:
            room = min(room, self._limit.tokens - self._tally.tokens)
        if self._limit.usd is not None and self._request.prices is not None:
            left = self._limit.usd - (self._tally.usd or 0)
            room = min(room, int(left / self._request.prices["output"]) if self._request.prices["output"] else room)
            room = room if left > 0 else 0
        return room

    def _repeated(self, failure: ApiFailure, seconds: float) -> None:
        self._line({
            "type": "system", "subtype": "api_retry", "error": str(failure), "retry_delay_ms": round(seconds * 1000),
        })  # fmt: skip

    def _count_lost(self, usage: dict[str, int]) -> None:
        """An answer that broke off was paid for all the same."""
        self._lost += 1
        self._tally.message(f"lost {self._lost}", usage)

    def _result(self, subtype: str, **more: Any) -> int:
        usd = {} if self._tally.usd is None else {"total_cost_usd": self._tally.usd / MILLION}
        self._line({
            "type": "result", "subtype": subtype, "is_error": subtype != "success", "num_turns": self._turns,
            "duration_ms": round((time.monotonic() - self._began) * 1000), "usage": self._tally.by_kind, **usd,
            **more,
        })  # fmt: skip
        return 0 if subtype == "success" else 1

    def _line(self, message: dict[str, Any]) -> None:
        data = msgspec.json.encode({**message, "session_id": self._conversation.session}) + b"\n"
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _message(turn: ModelTurn) -> dict[str, Any]:
    return {
        "id": turn.id, "type": "message", "role": "assistant", "model": turn.model, "content": turn.content,
        "stop_reason": turn.stop_reason, "usage": turn.usage,
    }  # fmt: skip
