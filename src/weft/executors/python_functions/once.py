"""weft.once: an effect that later attempts of the task do not repeat.

Its record says `pending` before the function is called and `completed`, with the value, once it has returned; both
are committed under the attempt's fence before anything goes on. What no record can tell is whether a function that
was cut off in between had its effect: see docs/guides/durability.md.
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
    """An earlier attempt began this effect and was cut off: it may have happened, or not."""


class AttemptOver(Exception):
    """This attempt is no longer the one that counts: its node lost it, and another may have taken it over."""


@overload
def once(
    key: str, function: Callable[[], Coroutine[Any, Any, T]], /, *, unknown: Literal["call", "raise"] = ...
) -> Coroutine[Any, Any, T]: ...
@overload
def once(key: str, function: Callable[[], T], /, *, unknown: Literal["call", "raise"] = ...) -> T: ...
def once(key: str, function: Callable[[], Any], /, *, unknown: Literal["call", "raise"] = "call") -> Any:
    """Calls the function, unless an earlier attempt of this task has: then its value is given back.

    `await weft.once(key, function)` if the function is async. `key` names the effect within the task; an element of a
    mapped task has its own. What the function returns is kept as JSON, and given back as its return annotation says,
    or as JSON has it. If it raises, the next attempt calls it again. If an earlier attempt was cut off in between,
    nobody knows whether the effect happened: it is called again, or with unknown="raise" OutcomeUnknown is raised.
    Outside a task, and within `weft.fake_attempt`, the function is just called.

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
    with _UnderWay(attempt, key):
        known, value = _begun(key, ask(attempt.id, key, None, None, unknown == "call"), function)
        if known:
            return value
        try:
            result = function()
        except Exception as error:
            ask(attempt.id, key, "failed", _why(error), True)
            raise
        text = _encode(result)
        _kept(key, ask(attempt.id, key, "completed", text, True))
        return _decode(text, function)


async def _once_async(key: str, function: Callable[[], Coroutine[Any, Any, Any]], unknown: str) -> Any:
    attempt = running_attempt()
    if attempt is None or attempt.stands_in:
        return _decode(_encode(await function()), function)
    with _UnderWay(attempt, key):
        known, value = _begun(key, await attempt.ask_async(key, None, None, unknown == "call"), function)
        if known:
            return value
        try:
            result = await function()
        except Exception as error:
            await attempt.ask_async(key, "failed", _why(error), True)
            raise
        text = _encode(result)
        _kept(key, await attempt.ask_async(key, "completed", text, True))
        return _decode(text, function)


class _UnderWay:
    """One call for a key at a time: a second one beside it would find `pending`, and do the effect twice."""

    def __init__(self, attempt: RunningAttempt, key: str) -> None:
        self._attempt = attempt
        self._key = key

    def __enter__(self) -> None:
        under_way = self._attempt.under_way
        if under_way is None:
            under_way = self._attempt.under_way = {}
        if self._key in under_way:
            raise RuntimeError(f"once({self._key!r}) is under way in this task already: give each effect its own key")
        under_way[self._key] = None

    def __exit__(self, *error: object) -> None:
        assert self._attempt.under_way is not None
        del self._attempt.under_way[self._key]


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


def _begun(key: str, answer: tuple[str, str | None], function: Callable[[], Any]) -> tuple[bool, Any]:
    """(True, the value that is there already), or (False, None): go on."""
    status, value = answer
    if status == "completed":
        return True, _decode(value, function)
    if status == "unknown":
        raise OutcomeUnknown(f"once({key!r}): {value}")
    if status != "call":
        raise AttemptOver(f"once({key!r}) was not begun: {value}")
    return False, None


def _kept(key: str, answer: tuple[str, str | None]) -> None:
    status, value = answer
    if status != "kept":
        raise AttemptOver(f"once({key!r}) has been done, but its record was not kept: {value}")


def _encode(value: Any) -> str:
    if hasattr(value, "__await__"):
        if hasattr(value, "close"):
            value.close()
        raise WrongValue(
            "once() called a function that is not async itself and gave back something to await: give it the async"
            " function, with functools.partial where it takes arguments"
        )
    return encode_value(value, VALUE_MAX, "once() called a function that returned").decode()


def _decode(text: str | None, function: Callable[[], Any]) -> Any:
    """As what the function's return annotation says; as JSON has it, if there is none."""
    import json

    from weft.executors.python_functions.typed_values import Misfit, hints_of, read_as

    value = None if text is None else json.loads(text)
    try:
        return read_as(hints_of(function).get("return", Any), value)
    except Misfit as misfit:
        raise WrongValue(f"once() called a function whose value does not fit its annotation: {misfit}") from None


def _why(error: Exception) -> str:
    import json

    return json.dumps(f"{type(error).__name__}: {error}"[:2000])
