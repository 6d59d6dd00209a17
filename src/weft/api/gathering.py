"""Submissions that come at once share a transaction: while one is on its way, the next ones gather.

A thread that finds nobody at it takes all that wait, its own included; what has come meanwhile is the next thread's,
so that no request stays behind to serve the others. What goes wrong with all of them together is tried one by one:
nobody pays for somebody else's mistake. Each has an id, so that a second try applies nothing twice.
"""

import threading

from weft.control.protocol import Control
from weft.control.submission import new_id
from weft.core.commands import Refused, Reply, Submit

TOGETHER_MAX = 100


class _Waiting:
    def __init__(self, command: Submit, command_id: str, actor: str | None) -> None:
        self.command = command
        self.actor = actor
        self.command_id = command_id
        self.told = threading.Event()
        self.reply: Reply | None = None
        self.error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.reply is not None or self.error is not None


class Gathering:
    def __init__(self, control: Control) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._busy = False

    def submit(self, command: Submit, command_id: str | None = None, actor: str | None = None) -> Reply:
        own = _Waiting(command, command_id or new_id(20), actor)
        with self._lock:
            self._waiting.append(own)
            ours = not self._busy
            self._busy = True
        if not ours:
            own.told.wait()
        if not own.done:
            self._work()
        if own.error is not None:
            raise own.error
        assert own.reply is not None
        return own.reply

    def _work(self) -> None:
        with self._lock:
            together, self._waiting = self._waiting[:TOGETHER_MAX], self._waiting[TOGETHER_MAX:]
        try:
            for actor in dict.fromkeys(one.actor for one in together):  # one name stands for all of a transaction
                self._carry_out([one for one in together if one.actor == actor])
        finally:
            with self._lock:
                self._busy = bool(self._waiting)
                following = [*together, *self._waiting[:1]]
            for waiting in following:
                waiting.told.set()

    def _carry_out(self, together: list[_Waiting]) -> None:
        if len(together) > 1:
            try:
                ids = [one.command_id for one in together]
                asking = self._control.on_behalf(None, together[0].actor)
                replies = asking.submit_each([one.command for one in together], ids)
            except Exception:
                pass  # one by one, then: whose fault it was shows by itself
            else:
                for one, reply in zip(together, replies, strict=True):
                    one.reply, one.error = (None, reply) if isinstance(reply, Refused) else (reply, None)
                return
        for one in together:
            try:
                one.reply = self._control.on_behalf(one.command_id, one.actor).submit(one.command)
            except Exception as error:
                one.error = error
