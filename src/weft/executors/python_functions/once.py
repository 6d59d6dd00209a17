"""weft.once: an effect that later attempts of the task do not repeat.

The store keeps `pending` before the function is called and `completed`, with the value, once it has returned; both
are committed under the attempt's fence before the call goes on. Whether a function that was interrupted in between
had its effect cannot be known: see docs/guides/durability.md.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar, overload

from weft.executors.python_functions.attempt_context import Ask, RunningAttempt, running_attempt
from weft.executors.python_functions.json_values import WrongValue, encode_value
from weft.executors.python_functions.load import is_async

T = TypeVar("T")

KEY_MAX = 256
VALUE_MAX = 1 << 20


class OutcomeUnknown(Exception):
    """Raised by `weft.once(…, unknown="raise")`: an earlier attempt started this effect and was interrupted, so that
    it may have happened, or not."""

    __module__ = "weft"


class AttemptOver(Exception):
    """Raised by `weft.once`: this attempt is no longer the current one. Its node lost the lease, and another node may
    have taken the task over."""

    __module__ = "weft"


@overload
def once(
    key: str, function: Callable[[], Coroutine[Any, Any, T]], /, *, unknown: Literal["call", "raise"] = ...
) -> Coroutine[Any, Any, T]: ...
@overload
def once(key: str, function: Callable[[], T], /, *, unknown: Literal["call", "raise"] = ...) -> T: ...
def once(key: str, function: Callable[[], Any], /, *, unknown: Literal["call", "raise"] = "call") -> Any:
    """Call the function, unless an earlier attempt of this task has done so: then return the value that it kept.

    `await weft.once(key, function)` if the function is async. `key` names the effect within the task; an element of a
    mapped task has its own. The value that the function returns is kept as JSON, and is returned as the type of its
    return annotation, or as JSON without one. If the function raises, the next attempt calls it again. If an earlier
    attempt was interrupted in between, it is unknown whether the effect happened: the function is called again, or
    with unknown="raise" OutcomeUnknown is raised. Outside a task, and within `weft.fake_attempt`, the function is
    just called.

    >>> import weft
    >>> def charge() -> dict[str, str]:
    ...     return {"receipt": "r-17"}
    >>> weft.once("charge", charge)
    {'receipt': 'r-17'}
    """
    _check(key, function, unknown)
    if is_async(function):
        return _once_async(key, function, unknown)
    attempt = running_attempt()
    if attempt is None or attempt.stands_in:
        return _decode(_encode(function()), function)
    if attempt.ask is None:
        raise RuntimeError(
            "an inline function shares its node's event loop: give once() an async function, and await it"
        )
    return _once_plain(attempt, attempt.ask, key, function, unknown)


def _once_plain(attempt: RunningAttempt, ask: Ask, key: str, function: Callable[[], Any], unknown: str) -> Any:
    with _Running(attempt, key):
        is_kept, value = _kept_value(key, ask(attempt.id, key, None, None, unknown == "call"), function)
        if is_kept:
            return value
        try:
            result = function()
        except Exception as error:
            ask(attempt.id, key, "failed", _error_json(error), True)
            raise
        text = _encode(result)
        _check_kept(key, ask(attempt.id, key, "completed", text, True))
        return _decode(text, function)


async def _once_async(key: str, function: Callable[[], Coroutine[Any, Any, Any]], unknown: str) -> Any:
    attempt = running_attempt()
    if attempt is None or attempt.stands_in:
        return _decode(_encode(await function()), function)
    with _Running(attempt, key):
        is_kept, value = _kept_value(key, await attempt.ask_async(key, None, None, unknown == "call"), function)
        if is_kept:
            return value
        try:
            result = await function()
        except Exception as error:
            await attempt.ask_async(key, "failed", _error_json(error), True)
            raise
        text = _encode(result)
        _check_kept(key, await attempt.ask_async(key, "completed", text, True))
        return _decode(text, function)


class _Running:
    """Allows one call for a key at a time: a concurrent second one would find `pending`, and repeat the effect."""

    def __init__(self, attempt: RunningAttempt, key: str) -> None:
        self._attempt = attempt
        self._key = key

    def __enter__(self) -> None:
        effects = self._attempt.effects
        if effects is None:
            effects = self._attempt.effects = {}
        if self._key in effects:
            raise RuntimeError(f"once({self._key!r}) is already running in this task: give each effect its own key")
        effects[self._key] = None

    def __exit__(self, *error: object) -> None:
        assert self._attempt.effects is not None
        del self._attempt.effects[self._key]


def _check(key: str, function: Callable[[], Any], unknown: str) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= KEY_MAX:
        raise ValueError(f"once() takes a key of 1 to {KEY_MAX} characters, not {key!r:.100}")
    if not callable(function):
        raise TypeError(f"once() calls a function; leave the call to it: once({key!r}, lambda: …)")
    if unknown not in ("call", "raise"):
        raise ValueError(f"unknown={unknown!r}: write 'call' or 'raise'")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise ValueError("once() got a key with half a surrogate pair in it") from None


def _kept_value(key: str, answer: tuple[str, str | None], function: Callable[[], Any]) -> tuple[bool, Any]:
    """(True, the kept value), or (False, None): call the function."""
    status, value = answer
    if status == "completed":
        return True, _decode(value, function)
    if status == "unknown":
        raise OutcomeUnknown(f"once({key!r}): {value}")
    if status != "call":
        raise AttemptOver(f"once({key!r}) was not started: {value}")
    return False, None


def _check_kept(key: str, answer: tuple[str, str | None]) -> None:
    status, value = answer
    if status != "kept":
        raise AttemptOver(f"once({key!r}) has run, but its result was not kept: {value}")


def _encode(value: Any) -> str:
    if hasattr(value, "__await__"):
        if hasattr(value, "close"):
            value.close()
        raise WrongValue(
            "once() called a function that is not async itself and returned an awaitable: pass the async function,"
            " with functools.partial if it takes arguments"
        )
    return encode_value(value, VALUE_MAX, "once() called a function that returned").decode()


def _decode(text: str | None, function: Callable[[], Any]) -> Any:
    """As the type of the function's return annotation; as JSON without one."""
    import json

    from weft.executors.python_functions.annotations import hints_of
    from weft.executors.python_functions.typed_values import TypeMismatch, convert_value

    value = None if text is None else json.loads(text)
    try:
        return convert_value(hints_of(function).get("return", Any), value)
    except TypeMismatch as mismatch:
        raise WrongValue(f"once() called a function whose value does not match its annotation: {mismatch}") from None


def _error_json(error: Exception) -> str:
    import json

    return json.dumps(f"{type(error).__name__}: {error}"[:2000])
