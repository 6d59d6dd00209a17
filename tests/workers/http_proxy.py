"""A way to a server that knows where requests begin and end: it delays them, and delivers some of them twice."""

import contextlib
import itertools
import random
import socket
import threading
from typing import BinaryIO

DELAYS_S = (0.0, 0.0, 0.02, 0.3)  # of a request, and of its answer
LATE_S = (0.0, 0.1, 1.5)  # after the request: its copy, long after it was answered


class HttpProxy:
    """Every `twice`-th request arrives a second time, on a connection of its own; its sender hears nothing."""

    def __init__(self, port: int, twice: int = 3, seed: int = 1) -> None:
        self._target = ("127.0.0.1", port)
        self._twice = twice
        self._random = random.Random(seed)
        self._numbers = itertools.count(1)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.doubled = self.delayed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with contextlib.suppress(OSError), near, socket.create_connection(self._target) as far:
            requests, answers = near.makefile("rb"), far.makefile("rb")
            while request := message(requests):
                if next(self._numbers) % self._twice == 0:
                    self.doubled += 1
                    again = threading.Timer(self._random.choice(LATE_S), self._deliver_again, (request,))
                    again.daemon = True
                    again.start()
                self._delay()
                far.sendall(request)
                answer = message(answers)
                self._delay()
                near.sendall(answer)

    def _delay(self) -> None:
        delay_s = self._random.choice(DELAYS_S)
        if delay_s:
            self.delayed += 1
            threading.Event().wait(delay_s)

    def _deliver_again(self, request: bytes) -> None:
        with contextlib.suppress(OSError), socket.create_connection(self._target) as far:
            far.sendall(request)
            message(far.makefile("rb"))


def message(source: BinaryIO) -> bytes:
    """The next request or answer; empty: there is none."""
    head, length = b"", 0
    for line in source:
        head += line
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        if line == b"\r\n":
            return head + source.read(length)
    return b""
