"""The Messages API of Anthropic (version 2023-06-01), streamed."""

from typing import Any, Final

import msgspec

from weft.executors.agent.api.request import ApiFailure, ApiRequest, ModelTurn
from weft.executors.agent.usage import counts

_URL: Final = "https://api.anthropic.com"
_PATH: Final = "/v1/messages"
_LASTING: Final = ("invalid_request_error", "authentication_error", "permission_error", "not_found_error",
                   "billing_error", "request_too_large")  # fmt: skip


def anthropic_url(url: str | None) -> str:
    base = (url or _URL).rstrip("/")
    return base if base.endswith("/messages") else base.removesuffix("/v1") + _PATH


def anthropic_headers(key: str | None) -> dict[str, str]:
    headers = {"anthropic-version": "2023-06-01"}
    return headers if key is None else {**headers, "x-api-key": key}


def anthropic_body(
    request: ApiRequest, messages: list[dict[str, Any]], tools: list[dict[str, Any]], max_tokens: int
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": request.model, "max_tokens": max_tokens, "messages": messages, "stream": True,
    }  # fmt: skip
    if request.system is not None:
        body["system"] = request.system
    if tools:
        body["tools"] = tools
    return body


class AnthropicAnswer:
    """Puts the answer together from message_start, content_block_* and message_delta, until message_stop."""

    def __init__(self) -> None:
        self.usage: dict[str, int] = {}
        self._message: dict[str, Any] | None = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._stop_reason: str | None = None
        self._whole = False

    def event(self, data: Any) -> bool:
        try:
            return self._event(data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ApiFailure(f"the API sent an event that is none of its own: {error!r}", again=True) from None

    def _event(self, data: dict[str, Any]) -> bool:
        match data["type"]:
            case "message_start":
                self._message = data["message"]
                self.usage |= counts(data["message"].get("usage"))
            case "content_block_start":
                self._blocks[data["index"]] = dict(data["content_block"])
            case "content_block_delta":
                self._delta(data["index"], data["delta"])
            case "message_delta":
                self._stop_reason = data["delta"].get("stop_reason") or self._stop_reason
                self.usage |= counts(data.get("usage"))
            case "message_stop":
                self._whole = True
            case "error":
                error = data["error"]
                again = error.get("type") not in _LASTING
                raise ApiFailure(
                    f"the API broke off: {error.get('message') or error.get('type')}", again=again,
                    cause="overloaded" if again else None,
                )  # fmt: skip
        return self._whole

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        block = self._blocks[index]
        match delta["type"]:
            case "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
            case "input_json_delta":
                self._inputs.setdefault(index, []).append(delta["partial_json"])
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
            case "signature_delta":
                block["signature"] = block.get("signature", "") + delta["signature"]

    def turn(self) -> ModelTurn:
        if not self._whole or self._message is None:
            raise ApiFailure("the API's stream ended before the answer was whole", again=True)
        for index, parts in self._inputs.items():
            self._blocks[index]["input"] = parsed_input("".join(parts))
        message = self._message
        content = [block for _, block in sorted(self._blocks.items()) if block.get("type") != "text" or block["text"]]
        return ModelTurn(
            str(message.get("id")), str(message.get("model")), content, self._stop_reason or "end_turn", self.usage
        )


def parsed_input(text: str) -> dict[str, Any]:
    """A tool's input; what is no object is kept as `not_json`, so that the model can be told."""
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {"not_json": text}
    return value if isinstance(value, dict) else {"not_json": text}
