"""What the program for APIs is asked to do, and what it says when that fails."""

from typing import Any, Final, Literal

import msgspec

MAX_TURNS: Final = 50
MAX_TOKENS: Final = 8192
IDLE_S: Final = 120.0  # APIs that stream send pings meanwhile


class ApiRequest(msgspec.Struct, kw_only=True):
    api: Literal["anthropic", "openai-compatible"]
    model: str
    prompt: str
    system: str | None = None
    url: str | None = None
    key: str | None = None  # the variable that holds it
    max_turns: int = MAX_TURNS
    max_tokens: int = MAX_TOKENS
    prices: dict[str, float] | None = None
    usd: int | None = None  # the most that it may spend, in millionths
    tokens: int | None = None
    idle_s: float = IDLE_S
    mcp: dict[str, dict[str, Any]] = {}
    session: str | None = None  # of the conversation that it goes on with
    conversation: int | None = None  # the descriptor of the file that keeps it
    masked: list[str] = []  # variables whose values that file must not hold


class ModelTurn(msgspec.Struct):
    """One answer of the model, in the form of the Messages API."""

    id: str
    model: str
    content: list[dict[str, Any]]
    stop_reason: str
    usage: dict[str, int]


class ApiFailure(Exception):
    """The API did not answer, or not with an answer."""

    def __init__(
        self, message: str, *, again: bool, cause: str | None = None, retry_after_s: float | None = None
    ) -> None:
        """`again`: the same request may do better later."""
        super().__init__(message)
        self.again = again
        self.cause = cause
        self.retry_after_s = retry_after_s
