"""Reads what an agent's program prints, line by line, and makes of it what people read: text, and one short line for
each call of a tool.

The format is that of `claude -p --output-format stream-json` (Claude Code 2.1): JSON objects, one a line, of type
system, assistant, user or result. Lines that are none of them are shown as they are.
"""

from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from weft.executors.agent.messages import AgentEnded
from weft.executors.agent.usage import MILLION, UsageTally

_SHOWN_MAX: Final = 160
_UNKNOWN_SESSION: Final = "No conversation found"
#: Errors of an assistant message that another attempt would meet again.
_LASTING: Final = ("authentication_failed", "billing_error", "invalid_request", "model_not_found")
_SUBTYPES: Final = {
    "error_max_turns": "it used all its turns",
    "error_max_budget_usd": "it used up its budget",
    "error_max_structured_output_retries": "its answers did not match output_schema",
    "error_during_execution": "it failed",
}


class OutputReader(Protocol):
    tally: UsageTally
    session: str | None
    over: bool  # the program has said its last word

    def read(self, line: bytes) -> Iterator[str]:
        """What people see of a line, without newlines at the end."""
        ...

    def ended(self, exit_code: int, last_words: str) -> AgentEnded:
        """How it ended, but for the schema; `last_words` stand at the end of its standard error."""
        ...


class TextReader:
    """Of a program that prints its answer."""

    def __init__(self, answer_max: int) -> None:
        self.tally = UsageTally()
        self.session: str | None = None
        self.over = False
        self._kept: list[bytes] = []
        self._size = 0
        self._max = answer_max

    def read(self, line: bytes) -> Iterator[str]:
        self._size += len(line) + 1
        if self._size <= self._max:
            self._kept.append(line)
        yield line.decode("utf-8", "replace")

    def ended(self, exit_code: int, last_words: str) -> AgentEnded:
        if exit_code:
            return AgentEnded(error=_exit_error(exit_code, last_words))
        if self._size > self._max:
            return AgentEnded(error=f"its answer has {self._size:,} bytes, more than the {self._max:,} that it may")
        return AgentEnded(text=b"\n".join(self._kept).decode("utf-8", "replace").strip())


class ClaudeReader:
    """Of a program that prints messages as claude does."""

    def __init__(self, prices: dict[str, float] | None = None) -> None:
        self.tally = UsageTally(prices)
        self.session: str | None = None
        self.over = False
        self._model: str | None = None
        self._turns = 0
        self._spoke = False
        self._error: str | None = None  # of the last assistant message
        self._result: dict[str, Any] | None = None

    def read(self, line: bytes) -> Iterator[str]:
        if not line.strip():
            return
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            message = None
        if not isinstance(message, dict):
            yield line.decode("utf-8", "replace")
            return
        session = message.get("session_id")
        if isinstance(session, str) and 0 < len(session) <= 200 and not self._unknown_session(message):
            self.session = session
        match message.get("type"):
            case "system":
                yield from self._system(message)
            case "assistant":
                yield from self._assistant(message)
            case "user":
                yield from _tool_errors(message)
            case "result":
                yield from self._read_result(message)

    @property
    def unknown_session(self) -> bool:
        """It knows no such conversation, and has done nothing."""
        return not self._spoke and self._result is not None and self._unknown_session(self._result)

    def _unknown_session(self, message: dict[str, Any]) -> bool:
        return any(_UNKNOWN_SESSION in str(error) for error in _list(message.get("errors")))

    def _system(self, message: dict[str, Any]) -> Iterator[str]:
        if message.get("subtype") == "init":
            model = message.get("model")
            self._model = model if isinstance(model, str) else None
            yield f"· model {self._model}, session {self.session}"
        elif message.get("subtype") == "api_retry":
            delay = message.get("retry_delay_ms")
            wait = f" in {delay / 1000:.1f} s" if isinstance(delay, (int, float)) else ""
            yield _short(f"· the API answered {message.get('error_status') or message.get('error')}: again{wait}")

    def _assistant(self, message: dict[str, Any]) -> Iterator[str]:
        self._spoke = True
        body = message.get("message")
        body = body if isinstance(body, dict) else {}
        self.tally.message(body.get("id"), body.get("usage"))
        error = message.get("error")
        self._error = error if isinstance(error, str) else None
        for block in _list(body.get("content")):
            if not isinstance(block, dict):
                continue
            if block.get("type") == "text" and isinstance(block.get("text"), str):
                yield block["text"]
            elif block.get("type") == "tool_use":
                yield _short(f"→ {block.get('name')} {_compact(block.get('input'))}")

    def _read_result(self, message: dict[str, Any]) -> Iterator[str]:
        self._result = message
        self.over = True
        self.tally.result(message)
        turns = message.get("num_turns")
        self._turns = turns if type(turns) is int else 0
        cost = "" if self.tally.usd is None else f", ${self.tally.usd / MILLION:.4f}"
        denied = dict.fromkeys(
            str(one.get("tool_name")) for one in _list(message.get("permission_denials")) if isinstance(one, dict)
        )
        if denied:
            yield _short(f"· not allowed to use: {', '.join(denied)}; `tools` allows them")
        yield f"· {self._turns} turns, {self.tally.tokens:,} tokens{cost}"

    def ended(self, exit_code: int, last_words: str) -> AgentEnded:
        result = self._result
        if result is None:
            error = _exit_error(exit_code, last_words) if exit_code else "it ended without a result"
            return self._with_figures(AgentEnded(error=error))
        own = result.get("weft")
        extra: dict[str, Any] = own if isinstance(own, dict) else {}
        text = result.get("result")
        text = text if isinstance(text, str) else ""
        subtype = result.get("subtype")
        if subtype == "success" and not result.get("is_error"):
            ended = AgentEnded(error=f"exit code {exit_code} after its answer" if exit_code else None, text=text)
            if "structured_output" in result:
                ended.value = result["structured_output"]
            return self._with_figures(ended)
        return self._with_figures(self._failure(str(subtype), text, extra))

    def _failure(self, subtype: str, text: str, extra: dict[str, Any]) -> AgentEnded:
        assert self._result is not None
        said = "; ".join(str(error) for error in _list(self._result.get("errors"))) or text
        error = _SUBTYPES.get(subtype, "it failed") + (f": {_short(said, 1000)}" if said else "")
        causes = {"error_max_budget_usd": "budget", "error_max_structured_output_retries": "schema"}
        cause = extra.get("cause", causes.get(subtype))
        after = extra.get("retry_after_s")
        retryable = cause != "budget" and self._error not in _LASTING and extra.get("retryable") is not False
        return AgentEnded(
            error=error, cause=cause if isinstance(cause, str) else None, retryable=retryable, text=text,
            retry_after_s=float(after) if isinstance(after, (int, float)) else None,
        )  # fmt: skip

    def _with_figures(self, ended: AgentEnded) -> AgentEnded:
        ended.usage = self.tally.described()
        ended.turns, ended.model, ended.session = self._turns, self._model, self.session
        return ended


def _tool_errors(message: dict[str, Any]) -> Iterator[str]:
    body = message.get("message")
    for block in _list(body.get("content") if isinstance(body, dict) else None):
        if isinstance(block, dict) and block.get("type") == "tool_result" and block.get("is_error"):
            yield _short(f"← error: {_plain(block.get('content'))}")


def _plain(content: Any) -> str:
    """A result of a tool as text: it is text, or a list of blocks."""
    if isinstance(content, str):
        return content
    return " ".join(str(block.get("text", "")) for block in _list(content) if isinstance(block, dict))


def _compact(value: Any) -> str:
    """A tool's input; of the usual ones, the only thing that matters."""
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _short(text: str, most: int = _SHOWN_MAX) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _exit_error(code: int, last_words: str) -> str:
    lines = [line for line in last_words.splitlines() if line.strip()]
    return f"exit code {code}" + (f": {_short(lines[-1], 500)}" if lines else "")
