"""Types of request fields that several operations share: names, cursors, limits and filters."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta

from weft.core.states import RunState, TaskState
from weft.core.workflow import MICROS

T = TypeVar("T")
_PAIR: Final = r"^[^=\x00]{1,64}=[^\x00]*$"
PAIR_MAX: Final = 4096
PAIRS_MAX: Final = 20
Pairs = Annotated[list[Annotated[str, Meta(pattern=_PAIR, max_length=PAIR_MAX)]], Meta(max_length=PAIRS_MAX)]
LIMIT_MAX: Final = 1000
TIME_MAX: Final = 2**53
ID_MAX: Final = 2**62
TASK_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}(\.[0-9]{1,9})?$"
RUN_PATTERN: Final = r"^[0-9a-z-]{1,64}$"
NODE_PATTERN: Final = r"^[^/\x00-\x1f\x7f]{1,64}$"

RunRef = Annotated[str, Meta(pattern=RUN_PATTERN, description="A run's id, a unique beginning of one, or `last`")]
TaskRef = Annotated[
    str,
    Meta(pattern=TASK_PATTERN, description="A task's name, or that of an element of a mapped task (`transform.3`)"),
]
NodeRef = Annotated[
    str, Meta(pattern=NODE_PATTERN, description="A node's name, its session, or a unique beginning of the session")
]
WorkflowName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,128}$", description="A workflow's name")]
TriggerName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="A trigger's name in its workflow")]
PoolName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$", description="A pool's name")]
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{4,64}$", description="A version's hash, or a unique beginning of it")]
WholeHash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", description="A version's hash")]
TokenId = Annotated[str, Meta(pattern=r"^[0-9a-f]{4,16}$", description="A token's id, or a unique beginning of it")]

#: Where a list goes on: the keys of the last line that was shown, so that new lines shift nothing. The first letter
#: is the list's: a cursor of another list is refused.
_NEXT: Final = "`next` of the page before; without it, the first page"
_NUMBER: Final = "(0|[1-9][0-9]{0,17})$"
_MOMENT: Final = "(0|[1-9][0-9]{0,15})-[0-9a-z-]{1,64}$"
RunCursor = Annotated[str, Meta(pattern=f"^r{_NUMBER}", description=_NEXT)]
FamilyCursor = Annotated[str, Meta(pattern=f"^f{_NUMBER}", description=_NEXT)]
TaskCursor = Annotated[str, Meta(pattern=f"^t{_NUMBER}", description=_NEXT)]
DeadCursor = Annotated[str, Meta(pattern=f"^d{_NUMBER}", description=_NEXT)]
EventCursor = Annotated[str, Meta(pattern=f"^e{_NUMBER}", description=_NEXT)]
VersionCursor = Annotated[str, Meta(pattern=f"^v{_MOMENT}", description=_NEXT)]
NodeCursor = Annotated[str, Meta(pattern=f"^n{_MOMENT}", description=_NEXT)]
TokenCursor = Annotated[str, Meta(pattern=f"^k{_MOMENT}", description=_NEXT)]
WorkflowCursor = Annotated[str, Meta(pattern=r"^w\.[A-Za-z0-9_.-]{1,128}$", description=_NEXT)]
AppliedCursor = Annotated[str, Meta(pattern=r"^a\.[A-Za-z0-9_.-]{1,128}$", description=_NEXT)]
TriggerCursor = Annotated[str, Meta(pattern=r"^g\.[A-Za-z0-9_./-]{1,200}$", description=_NEXT)]
PoolCursor = Annotated[str, Meta(pattern=r"^p\.[A-Za-z_][A-Za-z0-9_-]{0,63}$", description=_NEXT)]
NotificationCursor = Annotated[str, Meta(pattern=f"^o{_MOMENT}", description=_NEXT)]
NotificationId = Annotated[str, Meta(pattern=r"^[0-9a-f]{20}$", description="A notification's id")]
RunLate = Annotated[bool, Meta(description="Only runs with a deadline that was not met")]
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="At most so many lines")]
Moment = Annotated[int, Meta(ge=0, le=TIME_MAX, description="A moment of the store's clock, in ms since 1970")]
RunTrigger = Annotated[str, Meta(max_length=200, description="Only runs that this trigger made: workflow/name")]
RunText = Annotated[
    str, Meta(min_length=1, max_length=256, description="Only runs with this in id, name, labels, inputs or reason")
]
RunStates = Annotated[list[RunState], Meta(description="Only runs in this state; may be repeated")]
TaskStates = Annotated[list[TaskState], Meta(description="Only tasks in this state; may be repeated")]
EventNumber = Annotated[
    int, Meta(ge=0, le=ID_MAX, description="As it was after this event: the last one of the run that is not later")
]
Reason = Annotated[str, Meta(max_length=1000, description="Kept in the history")]
BudgetUsd = Annotated[float, Meta(ge=0, le=1_000_000, description="US dollars that may be spent")]
BudgetTokens = Annotated[int, Meta(ge=0, le=10**12, description="Tokens that may be spent, of input and output")]
AttemptNumber = Annotated[int, Meta(ge=1, le=1_000_000, description="Of this attempt, not of the last")]


def page_of(found: Iterable[T], key: Callable[[T], Any], after: Any, limit: int) -> tuple[list[T], T | None]:
    """A page of a list that is read whole, in the order of `key`: (its lines after this key, the last of them if more
    follow)."""
    rest = sorted((one for one in found if key(one) > after), key=key)
    return rest[:limit], rest[limit - 1] if len(rest) > limit else None


def number_in(cursor: str | None, otherwise: int = 0) -> int:
    return otherwise if cursor is None else int(cursor[1:])


def moment_in(cursor: str | None) -> tuple[int, str]:
    """(a moment, an id); before all of them without a cursor."""
    if cursor is None:
        return -1, ""
    at, _, key = cursor[1:].partition("-")
    return int(at), key


def name_in(cursor: str | None) -> str:
    return "" if cursor is None else cursor[2:]


def micros(usd: float | None) -> int | None:
    """The unit in which money is counted."""
    return None if usd is None else round(usd * MICROS)
