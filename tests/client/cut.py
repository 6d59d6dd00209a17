"""Between a client and its server: connections that a test cuts, and refuses for as long as it wants."""

import contextlib
import socket
import threading


class Cut:
    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self.refusing = False
        self.requests: list[bytes] = []  # the first line of each, with its Last-Event-ID
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def streams(self) -> list[bytes]:
        return [line for line in self.requests if b"/stream" in line]

    def cut(self) -> None:
        """All of them, in the middle of whatever they carry."""
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener has been shut down
            while True:
                here, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(here,), daemon=True).start()

    def _connect(self, here: socket.socket) -> None:
        with here, contextlib.suppress(OSError):
            if self.refusing:
                return
            with socket.create_connection(("127.0.0.1", self._to)) as there:
                with self._lock:
                    self._open += [here, there]
                back = threading.Thread(target=self._carry, args=(there, here, False), daemon=True)
                back.start()
                self._carry(here, there, True)
                back.join()

    def _carry(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if asks and data.startswith(b"GET "):
                    head = data.split(b"\r\n")
                    last = [line for line in head if line.lower().startswith(b"last-event-id")]
                    self.requests.append(b" ".join([head[0], *last]))
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._listener:
            self._listener.shutdown(socket.SHUT_RDWR)  # close alone would leave the thread in accept
        self.cut()
