"""What an answer says: its value, whether it is what was expected, and how what was only accepted goes on."""

import contextlib
import email.utils
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from weft.executors.http_call.client import HttpAnswer
from weft.executors.output import as_text

RETRY_AFTER_MAX_S = 24 * 3600.0
_RETRYABLE = (408, 425, 429)
_SHOWN_CHARS = 200
#: Of the answer's headers, those that a result keeps.
KEPT_HEADERS = ("content-type", "location", "etag", "last-modified", "retry-after", "x-request-id")
MISSING: Any = object()


class Judgement(msgspec.Struct):
    """Of one answer. Neither done nor a failure: what was asked for is under way."""

    done: bool = False
    failure: str | None = None
    cause: int | str | None = None
    retryable: bool = True


def value_of(answer: HttpAnswer) -> Any:
    """JSON if the answer says that it is, or says nothing and is, else text; UNSET if it is empty. Raises ValueError
    if it is not what it says."""
    if not answer.body:
        return msgspec.UNSET
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _json(answer)
    if not kind:
        with contextlib.suppress(ValueError):
            return _json(answer)
    return as_text(answer.body)[0]


def _json(answer: HttpAnswer) -> Any:
    try:
        return msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the answer of {answer.url.shown} is not JSON: {error}") from None


def at_pointer(value: Any, pointer: str) -> Any:
    """RFC 6901; MISSING if there is nothing."""
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(part, MISSING)
        elif isinstance(value, list) and part.isascii() and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


def pointed_text(answer: HttpAnswer, pointer: str) -> str | None:
    """The text at a place in the answer's JSON, if there is one."""
    try:
        value = at_pointer(_json(answer), pointer)
    except ValueError:
        return None
    if value is MISSING or value is None:
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def is_retryable(status: int) -> bool:
    return status in _RETRYABLE or status >= 500


def judge(answer: HttpAnswer, spec: Mapping[str, Any]) -> Judgement:
    expect, poll = spec.get("expect", {}), spec.get("poll")
    if poll is not None and answer.status == 202 and "state_at" not in poll:
        return Judgement()
    if not _matches(answer.status, expect.get("status", ["2xx"])) and not (poll is not None and answer.status == 202):
        return _failed(answer, f"HTTP {answer.status} from {answer.url.shown}{_said(answer)}")
    if poll is not None and "state_at" in poll:
        state = pointed_text(answer, poll["state_at"])
        if state in poll.get("failed", ()):
            return Judgement(failure=f"{answer.url.shown} says {state}{_said(answer)}", cause=state)
        if state not in poll.get("done", ()):
            return Judgement()
    for pointer, wanted in expect.get("json", {}).items():
        try:
            found = at_pointer(_json(answer), pointer)
        except ValueError as error:
            return _failed(answer, str(error))
        if found is MISSING or type(found) is not type(wanted) or found != wanted:
            shown = "nothing" if found is MISSING else msgspec.json.encode(found).decode()[:_SHOWN_CHARS]
            wanted_text = msgspec.json.encode(wanted).decode()[:_SHOWN_CHARS]
            text = f"{answer.url.shown} has {shown} at {pointer or 'the root'}, and {wanted_text} was expected"
            return Judgement(failure=text, cause=answer.status)
    return Judgement(done=True)


def _failed(answer: HttpAnswer, text: str) -> Judgement:
    return Judgement(failure=text, cause=answer.status, retryable=is_retryable(answer.status))


def _matches(status: int, expected: list[int | str]) -> bool:
    return any(status == one or f"{status // 100}xx" == one for one in expected)


def _said(answer: HttpAnswer) -> str:
    text = " ".join(as_text(answer.body[: 4 * _SHOWN_CHARS])[0].split())
    return f": {text[:_SHOWN_CHARS]}{'…' if len(text) > _SHOWN_CHARS else ''}" if text else ""


def retry_after_s(answer: HttpAnswer, now: float | None = None) -> float | None:
    """What the header Retry-After asks for: seconds, or a date."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return min(float(text), RETRY_AFTER_MAX_S)
    try:
        at = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return min(max(0.0, at.timestamp() - (time.time() if now is None else now)), RETRY_AFTER_MAX_S)
