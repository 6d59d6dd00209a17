"""Submissions that come at once share a transaction: while one batch is committed, the next one gathers.

One thread builds the commands of all waiting requests and commits them batch; the requests wait on the event loop.
So a request costs no thread of its own, which is most of what a single submission used to cost. If a batch fails as a
whole, its submissions are committed one by one: no request pays for another's mistake. Each has a command id, so that
a second try applies nothing twice.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from weft.client.verbs import Connection
from weft.core.commands import Refused, Reply, Submit
from weft.operations.ids import new_id

BATCH_MAX = 100


class _Waiting:
    def __init__(self, make: Callable[[], Submit], command_id: str | None, actor: str | None) -> None:
        self._make = make
        self.actor = actor
        self.command_id = command_id or new_id(20)
        self.result: asyncio.Future[tuple[Submit, Reply]] = asyncio.get_running_loop().create_future()
        self.command: Submit | None = None
        self.reply: Reply | None = None
        self.error: Exception | None = None

    def make(self) -> None:
        try:
            self.command = self._make()
        except Exception as error:
            self.error = error

    def resolve(self) -> None:
        if self.result.cancelled():
            return
        if self.error is not None:
            self.result.set_exception(self.error)
        elif self.command is None or self.reply is None:
            self.result.set_exception(RuntimeError("the submission was not committed"))
        else:
            self.result.set_result((self.command, self.reply))


class SubmissionBatcher:
    """To be used on one event loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weft-submit")
        self._waiting: list[_Waiting] = []
        self._busy = False

    def submit(
        self, make: Callable[[], Submit], command_id: str | None = None, actor: str | None = None
    ) -> "asyncio.Future[tuple[Submit, Reply]]":
        """`make` is called in the thread; what it raises goes to the request that waits for this one."""
        own = _Waiting(make, command_id, actor)
        self._waiting.append(own)
        if not self._busy:
            self._begin()
        return own.result

    def close(self) -> None:
        self._thread.shutdown()

    def _begin(self) -> None:
        batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
        self._busy = True
        working = asyncio.get_running_loop().run_in_executor(self._thread, self._work, batch)
        working.add_done_callback(lambda done: self._resolve(batch))

    def _resolve(self, batch: list[_Waiting]) -> None:
        self._busy = False
        if self._waiting:
            self._begin()
        for one in batch:
            one.resolve()

    def _work(self, batch: list[_Waiting]) -> None:
        for one in batch:
            one.make()
        made = [(one, one.command) for one in batch if one.command is not None]
        for actor in dict.fromkeys(one.actor for one, _ in made):  # one actor for all of a transaction
            self._carry_out([(one, command) for one, command in made if one.actor == actor])

    def _carry_out(self, batch: list[tuple[_Waiting, Submit]]) -> None:
        if len(batch) > 1:
            try:
                ids = [one.command_id for one, _ in batch]
                connection = self._connection.for_request(None, batch[0][0].actor)
                replies = connection.submit_each([command for _, command in batch], ids)
            except Exception:
                pass  # one by one, then: each gets its own error
            else:
                for (one, _), reply in zip(batch, replies, strict=True):
                    one.reply, one.error = (None, reply) if isinstance(reply, Refused) else (reply, None)
                return
        for one, command in batch:
            try:
                one.reply = self._connection.for_request(one.command_id, one.actor).submit(command)
            except Exception as error:
                one.error = error
