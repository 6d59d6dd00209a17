"""Submissions that come at once share a transaction: while one is on its way, the next ones gather.

One thread of its own makes the commands of all that wait and commits them together; whoever asked waits on the event
loop. So a request costs no thread of its own, which is most of what a single submission used to cost. What goes wrong
with all of them together is tried one by one: nobody pays for somebody else's mistake. Each has an id, so that a
second try applies nothing twice.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from weft.control.protocol import Control
from weft.control.submission import new_id
from weft.core.commands import Refused, Reply, Submit

TOGETHER_MAX = 100


class _Waiting:
    def __init__(self, make: Callable[[], Submit], command_id: str | None, actor: str | None) -> None:
        self._make = make
        self.actor = actor
        self.command_id = command_id or new_id(20)
        self.told: asyncio.Future[tuple[Submit, Reply]] = asyncio.get_running_loop().create_future()
        self.command: Submit | None = None
        self.reply: Reply | None = None
        self.error: Exception | None = None

    def make(self) -> None:
        try:
            self.command = self._make()
        except Exception as error:
            self.error = error

    def tell(self) -> None:
        if self.told.cancelled():
            return
        if self.error is not None:
            self.told.set_exception(self.error)
        elif self.command is None or self.reply is None:
            self.told.set_exception(RuntimeError("the submission was not carried out"))
        else:
            self.told.set_result((self.command, self.reply))


class Gathering:
    """To be used on one event loop."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weft-submit")
        self._waiting: list[_Waiting] = []
        self._busy = False

    def submit(
        self, make: Callable[[], Submit], command_id: str | None = None, actor: str | None = None
    ) -> "asyncio.Future[tuple[Submit, Reply]]":
        """`make` is called in the thread; what it raises is told to whoever waits for this one."""
        own = _Waiting(make, command_id, actor)
        self._waiting.append(own)
        if not self._busy:
            self._begin()
        return own.told

    def close(self) -> None:
        self._thread.shutdown()

    def _begin(self) -> None:
        together, self._waiting = self._waiting[:TOGETHER_MAX], self._waiting[TOGETHER_MAX:]
        self._busy = True
        working = asyncio.get_running_loop().run_in_executor(self._thread, self._work, together)
        working.add_done_callback(lambda done: self._tell(together))

    def _tell(self, together: list[_Waiting]) -> None:
        self._busy = False
        if self._waiting:
            self._begin()
        for one in together:
            one.tell()

    def _work(self, together: list[_Waiting]) -> None:
        for one in together:
            one.make()
        made = [(one, one.command) for one in together if one.command is not None]
        for actor in dict.fromkeys(one.actor for one, _ in made):  # one name stands for all of a transaction
            self._carry_out([(one, command) for one, command in made if one.actor == actor])

    def _carry_out(self, together: list[tuple[_Waiting, Submit]]) -> None:
        if len(together) > 1:
            try:
                ids = [one.command_id for one, _ in together]
                asking = self._control.on_behalf(None, together[0][0].actor)
                replies = asking.submit_each([command for _, command in together], ids)
            except Exception:
                pass  # one by one, then: whose fault it was shows by itself
            else:
                for (one, _), reply in zip(together, replies, strict=True):
                    one.reply, one.error = (None, reply) if isinstance(reply, Refused) else (reply, None)
                return
        for one, command in together:
            try:
                one.reply = self._control.on_behalf(one.command_id, one.actor).submit(command)
            except Exception as error:
                one.error = error
