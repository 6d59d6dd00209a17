"""Copies of a state that grows with its history, kept on the way: any moment is near one of them.

A copy of ten thousand tasks takes milliseconds and some megabytes: at most `most` are kept, evenly spread, and one
more before the moment that was looked at last, because its neighbours are looked at next.
"""

from typing import Final, Generic, Protocol, Self, TypeVar

COPIES_MAX: Final = 16
EVERY_MIN: Final = 256  # events between two copies
NEAR: Final = 64  # events before the moment that is looked at, where one more copy is kept


class Copied(Protocol):
    def copy(self) -> Self: ...


S = TypeVar("S", bound=Copied)


class Checkpoints(Generic[S]):
    def __init__(self, first: S, most: int | None = None) -> None:
        """`first` is the state before all events."""
        self._copies: list[tuple[int, S]] = [(0, first.copy())]
        self._near = self._copies[0]
        self._every = EVERY_MIN
        self._most = max(2, min(COPIES_MAX, COPIES_MAX if most is None else most))

    def offer(self, count: int, state: S) -> None:
        """The state after the first `count` events: copied if it is time for that."""
        if count - self._copies[-1][0] < self._every:
            return
        self._copies.append((count, state.copy()))
        if len(self._copies) > self._most:
            self._copies = self._copies[::2]
            self._every *= 2

    def before(self, count: int) -> tuple[int, S]:
        """(how many events are in it, the state to go on from)."""
        done, state = max((one for one in (*self._copies, self._near) if one[0] <= count), key=lambda one: one[0])
        return done, state.copy()

    def __len__(self) -> int:
        return len(self._copies)

    def passing(self, at: int, count: int, state: S) -> None:
        """On the way to `count`, after `at` events."""
        if at == count - NEAR:
            self._near = (at, state.copy())
