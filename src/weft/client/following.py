"""A run, or the whole cluster, followed from somewhere on: what happens, what attempts print, a wait for either.

A store is looked at again and again; a server tells of it (client/server_following.py).
"""

import time
from typing import TYPE_CHECKING, Any, Protocol

from weft.executors.output import StreamName
from weft.operations.reading.attempt_output import AttemptOutput
from weft.operations.replies import EventInfo

if TYPE_CHECKING:
    from weft.client.local import LocalControl


class Followed(Protocol):
    """For one thread. Of a run, unless it is the cluster's: that has no output to be opened."""

    def events(self, limit: int) -> list[EventInfo]:
        """The next ones, each of them once; none: there are no more by now."""
        ...

    def open_output(self, task: str, attempt: int, stream: StreamName) -> AttemptOutput: ...

    def wait(self, pace_s: float, most_s: float) -> None:
        """For news: so long at the most, or, where nobody would tell of them, until it is time to look."""
        ...

    def catch_up(self) -> None:
        """Until the next wait, `events` are all that have happened, not only those that were told of."""
        ...

    def close(self) -> None: ...


class LookedAt:
    """In a store."""

    def __init__(self, control: "LocalControl", run_id: str | None, after: int, filters: dict[str, Any]) -> None:
        self._control = control
        self._run_id = run_id
        self._at = after
        self._filters = filters

    def events(self, limit: int) -> list[EventInfo]:
        found = self._control.events(self._run_id, after=self._at, limit=limit, **self._filters)
        if found:
            self._at = found[-1].seq
        return found

    def open_output(self, task: str, attempt: int, stream: StreamName) -> AttemptOutput:
        assert self._run_id is not None
        return self._control.open_output(self._run_id, task, attempt, stream)

    def wait(self, pace_s: float, most_s: float) -> None:
        time.sleep(pace_s)

    def catch_up(self) -> None:
        pass

    def close(self) -> None:
        pass
