"""Wake-ups between nodes: one connection per process that LISTENs and sends NOTIFY, in a thread of its own.

A hint only: whoever misses it finds the work by polling. NOTIFY is sent outside of the transactions that matter (it
takes a lock of the whole server at COMMIT), at most one in 5 ms. The connection hears its own words too: if it does
not within 5 s, a pooler stands between: it says so once, and polling remains. A lost connection is made anew.
Where a pooler is known to stand between, it does not LISTEN at all: that would stay behind on a server connection
that others use next, and would hear nothing or, worse, sometimes something. NOTIFY goes through poolers.
"""

import asyncio
import contextlib
import os
import secrets
import select
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from weft.store.protocol import StoreError

CHANNEL = "weft"
APART_S = 0.005
TEST_EVERY_S = 10.0
HEARD_WITHIN_S = 5.0
RETRY_S = (0.1, 0.5, 1.0, 2.0, 5.0)


class Notifier:
    def __init__(
        self, connect: Callable[[], "psycopg.Connection[Any]"], say: Callable[[str], None], *, listens: bool = True
    ) -> None:
        self._listens = listens
        self._connect = connect
        self._say = say
        self._token = secrets.token_hex(6)
        self._listeners: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []
        self._wanted = threading.Event()  # somebody has to be told
        self._closing = False
        self._deaf = False  # it has been said that wake-ups do not arrive
        self._pipe: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.heard = 0  # of our own words, and of others'

    # -- any thread --------------------------------------------------------------------------------------

    def tell_others(self) -> None:
        """After COMMIT: other processes."""
        if not self._wanted.is_set():
            self._wanted.set()
            self._start()
            if self._pipe is not None:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._pipe[1], b"w")

    def tell_all(self) -> None:
        """After COMMIT: other processes, and the nodes in this one."""
        self.tell_others()
        self._wake_listeners()

    def listen(self, woken: Callable[[], None]) -> Callable[[], None]:
        entry = (asyncio.get_running_loop(), woken)
        self._listeners.append(entry)
        self._start()
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

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closing:
                self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
                self._thread = threading.Thread(target=self._run, name="weft-signals", daemon=True)
                self._thread.start()

    def _wake_listeners(self) -> None:
        for loop, woken in list(self._listeners):
            with contextlib.suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(woken)

    # -- the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        tries = 0
        while not self._closing or (self._wanted.is_set() and tries == 0):
            try:
                connection = self._connect()
            except StoreError:
                self._pause(RETRY_S[min(tries, len(RETRY_S) - 1)])
                tries += 1
                continue
            began = time.monotonic()
            try:
                self._serve(connection)
            except (psycopg.Error, OSError):
                tries = 0 if time.monotonic() - began > TEST_EVERY_S else tries + 1
                self._wake_listeners()  # whatever was said meanwhile was not heard
                self._pause(RETRY_S[min(tries, len(RETRY_S) - 1)])
            finally:
                connection.close()

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

    def _serve(self, connection: "psycopg.Connection[Any]") -> None:
        assert self._pipe is not None
        pg = connection.pgconn
        pg.notify_handler = self._notified
        self._heard_own = not self._listens
        if self._listens:
            connection.execute(f"LISTEN {CHANNEL}")
            self._notify(connection, f"{self._token}?")
        tested, told = time.monotonic(), float("-inf")
        while True:
            now = time.monotonic()
            if self._wanted.is_set() and (self._closing or now - told >= APART_S):
                self._wanted.clear()
                self._notify(connection, self._token)
                told = now
            if self._closing:
                return
            if not self._listens and self._listeners:
                self._not_heard()
            if not self._heard_own and now - tested > HEARD_WITHIN_S:
                self._not_heard()
                tested, self._heard_own = now, True  # asked again with the next test
            if self._listens and now - tested > TEST_EVERY_S:
                self._heard_own, tested = False, now
                self._notify(connection, f"{self._token}?")
            wait_s = max(0.0, told + APART_S - now) if self._wanted.is_set() else 1.0
            ready, _, _ = select.select([pg.socket, self._pipe[0]], [], [], wait_s)
            if self._pipe[0] in ready:
                self._drain()
            if pg.socket in ready:
                pg.consume_input()
                while (notify := pg.notifies()) is not None:
                    self._notified(notify)

    def _notify(self, connection: "psycopg.Connection[Any]", text: str) -> None:
        connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, text), prepare=False)

    def _notified(self, notify: Any) -> None:
        text = notify.extra.decode()
        self.heard += 1
        if text == f"{self._token}?":
            self._heard_own = True
            self._deaf = False
        elif text != self._token and not text.endswith("?"):
            self._wake_listeners()

    def _not_heard(self) -> None:
        if not self._deaf:
            self._deaf = True
            self._say("wake-ups do not arrive from PostgreSQL (a pooler stands between?): polling instead")
