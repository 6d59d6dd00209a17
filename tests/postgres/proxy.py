"""A way to the server that can be cut: before the server hears something, after it has answered, or for a while."""

import contextlib
import socket
import threading
from urllib.parse import urlsplit

KEY = b"K\x00\x00\x00\x0c"  # the server: my process number, and a key
IDLE = b"Z\x00\x00\x00\x05I"  # the server: all is answered, and no transaction is open


class Proxy:
    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.lose_reply = False  # the next thing that the server says is not handed on, and the connection ends
        #: Every third COMMIT is done, and its reply is lost with the connection. With all of them lost for longer
        #: than a lease, a node gives up its session, and rightly.
        self.lose_commits = False
        self.lost_commits = self._commits = 0
        self.refuse = False  # new connections end at once
        self.pose_as_pooler = False  # who connects is told another process number than the server's
        self.hold_at: bytes | None = None  # hold from the moment at which somebody says this to the server
        self._flowing = threading.Event()
        self._flowing.set()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @classmethod
    def to(cls, url: str) -> "Proxy":
        split = urlsplit(url)
        assert split.hostname is not None
        assert split.port is not None
        return cls(split.hostname, split.port)

    def through(self, url: str, query: str = "") -> str:
        return f"postgresql://weft@127.0.0.1:{self.port}/{urlsplit(url).path[1:]}{query}"

    def hold(self) -> None:
        """Nothing arrives any more on either side, and nobody is told: as with a cable that is pulled."""
        self._flowing.clear()

    @property
    def holding(self) -> bool:
        return not self._flowing.is_set()

    def release(self) -> None:
        """What was under way arrives, late."""
        self._flowing.set()

    def cut(self) -> None:
        """All connections, now."""
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._open.clear()

    def close(self) -> None:
        self.refuse = True
        self._listening.close()
        self.cut()
        self.release()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            try:
                far = None if self.refuse else socket.create_connection(self._target)
            except OSError:
                far = None
            if far is None:
                near.close()
                continue
            self._open += [near, far]
            losing = threading.Event()  # a COMMIT went by whose reply shall be lost
            threading.Thread(target=self._carry, args=(near, far, False, losing), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, True, losing), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, from_server: bool, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.hold_at is not None and not from_server and self.hold_at in data:
                    self.hold_at = None
                    self.hold()
                self._flowing.wait()
                if from_server:
                    if self.lose_reply:
                        self.lose_reply = False
                        break
                    if losing.is_set():
                        if data.endswith(IDLE):
                            break
                        continue
                    if self.pose_as_pooler and (at := data.find(KEY)) >= 0:
                        data = data[: at + len(KEY)] + b"\0\0\0\1" + data[at + len(KEY) + 4 :]
                elif self.lose_commits and b"COMMIT\0" in data:
                    self._commits += 1
                    if self._commits % 3 == 0:
                        self.lost_commits += 1
                        losing.set()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
