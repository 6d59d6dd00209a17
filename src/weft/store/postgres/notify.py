"""Wake-ups between nodes: LISTEN and NOTIFY on the connection that renewals use, in a thread of their own.

A hint only: what a node misses it finds by polling. NOTIFY is sent outside of the transactions that matter (it takes
a lock of the whole server at COMMIT), at most one in 5 ms. A process that listens hears its own words too: if it does
not within 5 s, a pooler stands between: it says so once, and polling remains. A lost connection is made anew.
Where a pooler is known to stand between, it does not LISTEN at all: that would stay behind on a server connection
that others use next, and would hear nothing or, worse, sometimes something. NOTIFY goes through poolers.

The words, after the process's token:

    (nothing)  every node must look
    ?          a test, which also says that this process listens
    +n         n tasks can be claimed
    .          a run has ended
    -n         n tasks that nodes were woken for have been claimed

One task must not bring all idle nodes to the database. Told of n tasks, about n + 1 nodes look at once; the others
follow in groups of that size, 20 ms apart, in an order that each node works out for itself and that is another one
each time. When the tasks have been claimed, the rest of them stay where they are.
"""

import asyncio
import contextlib
import os
import random
import re
import secrets
import select
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager

from weft.core.decision.draft import Hint
from weft.store.postgres.statements import Statement
from weft.store.postgres.wire import Wire
from weft.store.protocol import EVERYONE, StoreError, Woken

CHANNEL = "weft"
APART_S = 0.005
TEST_EVERY_S = 60.0
HEARD_WITHIN_S = 5.0
KNOWN_S = 2.5 * TEST_EVERY_S  # how long a process that listens counts without a word of it
ANSWER_S = 5.0  # within this time a process that begins to listen hears of those that do
GROUP_S = 0.02
NOTIFIED_MAX_S = 1.0  # tasks that nodes were woken for this long ago have been claimed, or are found by polling
RETRY_S = (0.1, 0.5, 1.0, 2.0)
_LISTEN = Statement(f"LISTEN {CHANNEL}")
#: Nothing of it has to survive a crash: a wake-up that waits for the disk comes a third of a millisecond later.
_NOTIFY = Statement(
    f"SELECT set_config('synchronous_commit', 'off', true), pg_notify('{CHANNEL}', $1::text)", ("text",)
)
_WORDS = re.compile(r"([0-9a-f]+)(\?)?(?:\+(\d+))?(\.)?(?:-(\d+))?")


class Notifier:
    """`connection` lends the connection for one round trip."""

    def __init__(
        self,
        connection: Callable[[], AbstractContextManager[Wire]],
        log: Callable[[str], None],
        *,
        listens: bool = True,
    ) -> None:
        self._may_listen = listens
        self._connection = connection
        self._log = log
        self._token = secrets.token_hex(6)
        self._listeners: list[tuple[asyncio.AbstractEventLoop, Woken]] = []
        self._lock = threading.Lock()
        self._hint = Hint()  # what others have to know
        self._taken = 0  # how many tasks were claimed here of those that others were woken for
        self._closing = False
        self._deaf = False  # it has been said that wake-ups do not arrive
        self._pipe: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None
        self._known: dict[str, float] = {}  # processes that listen, and when they were heard last
        self._open = 0  # tasks that nodes were woken for, and that were not claimed yet as far as is known
        self._notified_at = 0.0
        self._wake_at: float | None = None  # when it is our turn to look for them
        self._test_at = 0.0
        self.hears = False  # what others say is known to arrive
        self.heard = 0  # of our own words, and of others'

    # -- any thread --------------------------------------------------------------------------------------

    def wake_others(self, hint: Hint = EVERYONE) -> None:
        """After COMMIT: other processes."""
        with self._lock:
            first, self._hint = not self._hint, self._hint | hint
        if first:
            self._poke()

    def wake_all(self, hint: Hint = EVERYONE) -> None:
        """After COMMIT: other processes, and the nodes in this one."""
        self.wake_others(hint)
        self._wake_listeners(hint)

    def taken(self, tasks: int) -> None:
        with self._lock:
            if not self._open:
                return
            self._open = max(0, self._open - tasks)
            self._taken += tasks
        self._poke()

    def listen(self, woken: Woken) -> Callable[[], None]:
        entry = (asyncio.get_running_loop(), woken)
        self._listeners.append(entry)
        self._poke()
        return lambda: self._listeners.remove(entry)

    def close(self) -> None:
        """What is still to be said is said first."""
        self._closing = True
        if self._thread is not None and self._pipe is not None:
            os.write(self._pipe[1], b"c")
            self._thread.join(HEARD_WITHIN_S)
        if self._pipe is not None and (self._thread is None or not self._thread.is_alive()):
            for fd in self._pipe:
                os.close(fd)
            self._pipe = None

    def _poke(self) -> None:
        """Let the thread look around; it is started when it is first needed."""
        with self._lock:
            if self._thread is None and not self._closing:
                self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
                self._thread = threading.Thread(target=self._run, name="weft-signals", daemon=True)
                self._thread.start()
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):
                os.write(self._pipe[1], b"w")

    def _wake_listeners(self, hint: Hint) -> None:
        for loop, woken in list(self._listeners):
            with contextlib.suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(woken, hint)

    # -- the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        tries = 0
        while not self._closing or (self._hint and tries == 0):
            began = time.monotonic()
            try:
                self._serve()
            except (StoreError, OSError):
                self.hears = False
                tries = 0 if time.monotonic() - began > HEARD_WITHIN_S else tries + 1
                self._wake_listeners(EVERYONE)  # whatever was said meanwhile was not heard
                self._pause(RETRY_S[min(tries, len(RETRY_S) - 1)])

    def _pause(self, seconds: float) -> None:
        assert self._pipe is not None
        until = time.monotonic() + seconds
        while not self._closing and (left := until - time.monotonic()) > 0:
            select.select([self._pipe[0]], [], [], left)
            self._drain()

    def _drain(self) -> None:
        assert self._pipe is not None
        with contextlib.suppress(BlockingIOError):
            os.read(self._pipe[0], 4096)

    def _serve(self) -> None:
        """Until it is closed, or the connection is lost."""
        assert self._pipe is not None
        listening: Wire | None = None  # renewals may have made the connection anew
        tested = said = float("-inf")
        self._test_at = float("-inf")
        heard = True
        while True:
            now = time.monotonic()
            listens = self._may_listen and bool(self._listeners)
            if (self._listeners and not self._may_listen) or (not heard and now - tested > HEARD_WITHIN_S):
                self._not_heard()
                heard = True  # asked again with the next test
            with self._connection() as wire:
                if listens and wire is not listening:
                    wire.ask(_LISTEN)
                    listening, self._test_at = wire, now
                if listens and now >= self._test_at:
                    wire.ask(_NOTIFY, f"{self._token}?")
                    tested, heard, self._test_at = now, False, now + TEST_EVERY_S
                if self._closing or now - said >= APART_S:
                    text = self._words()
                    if text:
                        wire.ask(_NOTIFY, text)
                        said = now
                for text in wire.notifies():
                    heard |= self._notified(text, now)
                socket = wire.socket
            if self._closing:
                return
            if self._wake_at is not None and now >= self._wake_at:
                self._wake_at = None
                self._wake_listeners(Hint(queued=self._open))
            waits = [1.0, max(0.0, self._test_at - now)] if listens else [1.0]
            if self._hint or self._taken:
                waits.append(max(0.0, said + APART_S - now))
            if self._wake_at is not None:
                waits.append(self._wake_at - now)
            ready, _, _ = select.select([socket, self._pipe[0]] if listens else [self._pipe[0]], [], [], min(waits))
            if self._pipe[0] in ready:
                self._drain()

    def _words(self) -> str:
        """What there is to say to others."""
        with self._lock:
            hint, self._hint = self._hint, Hint()
            taken, self._taken = self._taken, 0
        if hint.everyone:
            return self._token
        parts = [f"+{hint.queued}" if hint.queued else "", "." if hint.ended else "", f"-{taken}" if taken else ""]
        return self._token + "".join(parts) if any(parts) else ""

    def _notified(self, text: str, now: float) -> bool:
        """True: it is our own test."""
        self.heard += 1
        words = _WORDS.fullmatch(text)
        if words is None:  # of a version to come
            self._wake_listeners(EVERYONE)
            return False
        token, test, queued, ended, taken = words.groups()
        if test:
            if token not in self._known and token != self._token:  # it should know of us, too
                self._test_at = min(self._test_at, now + random.uniform(0, ANSWER_S))
            self._known[token] = now
        if token == self._token:
            if test:
                self.hears, self._deaf = True, False
            return bool(test)
        if taken:
            self._were_taken(int(taken))
        if queued:
            self._queued(int(queued), text, now)
        if ended:
            self._wake_listeners(Hint(ended=True))
        if text == token:
            self._wake_listeners(EVERYONE)
        return False

    def _queued(self, tasks: int, text: str, now: float) -> None:
        """Wake our nodes now, or when it is their turn."""
        with self._lock:
            self._open = tasks + (self._open if now - self._notified_at < NOTIFIED_MAX_S else 0)
        self._notified_at = now
        for token in [token for token, at in self._known.items() if now - at > KNOWN_S]:
            del self._known[token]
        place = zlib.crc32(f"{self._token} {text} {int(now / KNOWN_S)}".encode()) / 2**32 * len(self._known)
        group = int(place / (tasks + 1))
        if not group:
            self._wake_listeners(Hint(queued=tasks))
        elif self._wake_at is None:
            self._wake_at = now + group * GROUP_S

    def _were_taken(self, tasks: int) -> None:
        with self._lock:
            self._open = max(0, self._open - tasks)
        if not self._open:
            self._wake_at = None

    def _not_heard(self) -> None:
        self.hears = False
        if not self._deaf:
            self._deaf = True
            self._log("wake-ups do not arrive from PostgreSQL (a pooler stands between?): polling instead")
