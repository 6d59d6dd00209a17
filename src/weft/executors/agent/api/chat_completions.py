"""Chat completions, as OpenAI and many others offer them, streamed. Conversations have the form of the Messages API
and are translated here."""

from typing import Any, Final

import msgspec

from weft.executors.agent.api.anthropic_messages import parsed_input
from weft.executors.agent.api.request import ApiFailure, ApiRequest, ModelTurn

_URL: Final = "https://api.openai.com/v1"
_PATH: Final = "/chat/completions"
_STOP_REASONS: Final = {
    "stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal",
}  # fmt: skip


def chat_url(url: str | None) -> str:
    base = (url or _URL).rstrip("/")
    return base if base.endswith(_PATH) else base + _PATH


def chat_headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


def chat_body(
    request: ApiRequest, messages: list[dict[str, Any]], tools: list[dict[str, Any]], max_tokens: int
) -> dict[str, Any]:
    translated = [{"role": "system", "content": request.system}] if request.system is not None else []
    for message in messages:
        translated += _translated(message)
    # Other servers know max_tokens best, OpenAI's own models do not take it any more.
    limit = "max_completion_tokens" if request.url is None else "max_tokens"
    body: dict[str, Any] = {
        "model": request.model, "messages": translated, limit: max_tokens, "stream": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    if tools:
        body["tools"] = [
            {"type": "function", "function": {
                "name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}}
            for tool in tools
        ]  # fmt: skip
    return body


def _translated(message: dict[str, Any]) -> list[dict[str, Any]]:
    """One message as one or more: each result of a tool is a message of its own there."""
    blocks = message["content"]
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    if message["role"] == "assistant":
        calls = [
            {"id": block["id"], "type": "function", "function": {
                "name": block["name"], "arguments": msgspec.json.encode(block["input"]).decode()}}
            for block in blocks if block["type"] == "tool_use"
        ]  # fmt: skip
        out: dict[str, Any] = {"role": "assistant", "content": text or None}
        return [{**out, "tool_calls": calls} if calls else out]
    found: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": block["tool_use_id"], "content": block["content"]}
        for block in blocks
        if block["type"] == "tool_result"
    ]
    return [*found, {"role": "user", "content": text}] if text else found


class ChatAnswer:
    """Puts the answer together from chunks: `choices[0].delta`, and `usage` in the last one."""

    def __init__(self) -> None:
        self.usage: dict[str, int] = {}
        self._id = ""
        self._model = ""
        self._text: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._finished: str | None = None
        self._refused = False

    def event(self, data: Any) -> bool:
        try:
            self._chunk(data)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ApiFailure(f"the API sent an event that is none of its own: {error!r}", again=True) from None
        return False  # [DONE] is the end: the usage comes after the finish

    def _chunk(self, data: dict[str, Any]) -> None:
        if data.get("error"):
            error = data["error"]
            message = error.get("message") if isinstance(error, dict) else error
            raise ApiFailure(f"the API broke off: {message}", again=True, cause="overloaded")
        self._id = data.get("id") or self._id
        self._model = data.get("model") or self._model
        if isinstance(data.get("usage"), dict):
            self._count(data["usage"])
        for choice in data.get("choices") or ():
            delta = choice.get("delta") or {}
            self._text.append(delta.get("content") or "")
            self._refused = self._refused or bool(delta.get("refusal"))
            self._text.append(delta.get("refusal") or "")
            for call in delta.get("tool_calls") or ():
                self._call(call)
            self._finished = choice.get("finish_reason") or self._finished

    def _call(self, part: dict[str, Any]) -> None:
        call = self._calls.setdefault(part.get("index", 0), {"id": "", "name": "", "arguments": ""})
        call["id"] = part.get("id") or call["id"]
        function = part.get("function") or {}
        call["name"] = function.get("name") or call["name"]
        call["arguments"] += function.get("arguments") or ""

    def _count(self, usage: dict[str, Any]) -> None:
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        self.usage = {
            "input_tokens": max(0, int(usage.get("prompt_tokens") or 0) - cached),
            "output_tokens": int(usage.get("completion_tokens") or 0),
        }
        if cached:
            self.usage["cache_read_input_tokens"] = cached

    def turn(self) -> ModelTurn:
        if self._finished is None:
            raise ApiFailure("the API's stream ended before the answer was whole", again=True)
        text = "".join(self._text)
        content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        for number, call in sorted(self._calls.items()):
            id = call["id"] or f"call_{number}"
            content.append(
                {"type": "tool_use", "id": id, "name": call["name"], "input": parsed_input(call["arguments"])}
            )
        reason = "refusal" if self._refused else _STOP_REASONS.get(self._finished, self._finished)
        if self._calls and reason == "end_turn":
            reason = "tool_use"  # some servers finish with stop all the same
        return ModelTurn(self._id, self._model, content, reason, self.usage)
