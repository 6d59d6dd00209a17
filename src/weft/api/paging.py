"""Pages of lists. What a cursor holds is checked when it comes back: anybody may send anything."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from fastapi import Query

from weft.api.problems import Trouble
from weft.control.cursors import cursor as cursor
from weft.control.cursors import keys_in

T = TypeVar("T")
LIMIT_MAX = 1000
_KEY_MAX = 2**62

Cursor = Annotated[
    str | None,
    Query(alias="cursor", max_length=512, description="`next` of the page before; without it, the first page"),
]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="At most so many lines")]


def keys(given: str | None, kind: str, *types: type) -> list[Any] | None:
    """The keys in a cursor of this kind; None: there is none."""
    if given is None:
        return None
    found = keys_in(given)
    if found[:1] != [kind] or [type(key) for key in found[1:]] != list(types):
        raise Trouble(422, "cursor", "this is no cursor of this list", "take `next` of the page before as it is")
    if any(isinstance(key, int) and not 0 <= key <= _KEY_MAX for key in found):
        raise Trouble(422, "cursor", "this is no cursor of this list", "take `next` of the page before as it is")
    return found[1:]


def page_of(
    found: Iterable[T], kind: str, key: Callable[[T], tuple[int | str, ...]], given: str | None, limit: int,
    *types: type,
) -> tuple[list[T], str | None]:  # fmt: skip
    """(a page, where the list goes on), of a list that is read whole: in the order of keys that its lines
    have for good. `types` are those of a key."""
    after = keys(given, kind, *types)
    ordered = sorted(found, key=key)
    if after is not None:
        ordered = [one for one in ordered if key(one) > tuple(after)]
    more = len(ordered) > limit
    return ordered[:limit], cursor(kind, *key(ordered[limit - 1])) if more else None
