"""Follows the events of a run, or of the whole cluster, and the output of a run's attempts.

One follower with two sources: a store is polled; a server sends events (client/server_following.py) and is polled
while no stream of it is read. The position is the number of the last event that was returned: so whatever a source
loses or repeats, each event is returned once, in order.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from weft.executors.output import StreamName
from weft.operations.reading.output.attempts import AttemptOutput
from weft.operations.replies import EventInfo

if TYPE_CHECKING:
    from weft.client.verbs import Connection

PAGE: Final = 500
POLL_S: Final = 0.02  # after news; then less and less often, down to the `poll_max_s` of the source
POLL_BACKOFF: Final = 1.2
NOTIFIED_WAIT_MAX_S: Final = 5.0
ALL: Final = 1 << 62


class PollingSource:
    """Of a store, and the part of a server's source that needs no stream."""

    poll_max_s = 0.1

    def __init__(self, connection: "Connection", run_id: str | None) -> None:
        self._connection = connection
        self._run_id = run_id

    def received(self, after: int, limit: int) -> list[EventInfo] | None:
        """Events that were sent here; None: they have to be asked for."""
        return None

    def open_output(self, task: str, attempt: int, stream: StreamName) -> AttemptOutput:
        assert self._run_id is not None
        return self._connection.open_output(self._run_id, task, attempt, stream)

    def wait(self, after: int, poll_s: float, most_s: float) -> None:
        """Until there may be news: `most_s` at the most where they are sent, `poll_s` where they are not."""
        time.sleep(poll_s)

    def close(self) -> None:
        pass


class EventFollower:
    """For one thread. Without a run it follows the whole cluster, which has no output to be opened."""

    def __init__(
        self, connection: "Connection", source: PollingSource, run_id: str | None, after: int, filters: dict[str, Any]
    ) -> None:
        self._connection = connection
        self._source = source
        self._run_id = run_id
        self._filters = filters
        self._asks = False
        self._poll_s = POLL_S
        self.seq = after  # of the last event that was returned

    def events(self, limit: int = PAGE) -> list[EventInfo]:
        """The next events; none: there are no more by now."""
        found = None if self._asks else self._source.received(self.seq, limit)
        if found is None:
            found = self._connection.events(self._run_id, after=self.seq, limit=limit, **self._filters)
        if found:
            self.seq = found[-1].seq
            self._poll_s = POLL_S
        return found

    def pages(self, ended: Callable[[], bool], limit: int = ALL) -> Iterator[list[EventInfo]]:
        """Pages of at most `limit` events in all, and an empty one whenever there are no more by now: until `ended`,
        and everything that happened before was returned."""
        over = False
        while limit > 0:
            page = self.events(min(PAGE, limit))
            yield page
            limit -= len(page)
            if page:
                over = False
            elif over:
                return
            elif over := ended():
                self.catch_up()
            else:
                self.wait(NOTIFIED_WAIT_MAX_S)

    def open_output(self, task: str, attempt: int, stream: StreamName) -> AttemptOutput:
        return self._source.open_output(task, attempt, stream)

    def wait(self, most_s: float) -> None:
        """For news: so long at the most, or, where they are not sent, until it is time to ask."""
        self._asks = False
        self._source.wait(self.seq, min(self._poll_s, most_s), most_s)
        self._poll_s = min(self._source.poll_max_s, self._poll_s * POLL_BACKOFF)

    def catch_up(self) -> None:
        """Until the next wait, `events` are all that have happened, not only those that were sent."""
        self._asks = True

    def close(self) -> None:
        self._source.close()
