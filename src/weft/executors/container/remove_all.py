"""A node's last will: remove the containers of a process that is dead, or past its trust, except those that may be
adopted. Run as a plain script by the spawner: `python -I -S remove_all.py ADDRESS API_VERSION PROCESS_ID…`.

It may import nothing but the standard library, and little of that: containers must be gone within seconds.
"""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_THREADS = 8
_SECONDS_MAX = 20.0
_TIMEOUT_S = 10.0
_LOOK_AGAIN_S = 0.5

Found = dict[str, Any]  # a container, as the engine lists it


class WillEngine:
    def __init__(self, address: str, api: str) -> None:
        self._address = address
        self._prefix = f"/v{api}" if api else ""

    def ask(self, method: str, path: str) -> tuple[int, bytes]:
        with self._connect() as connection:
            # HTTP/1.0: the answer has no chunks, and ends with the connection.
            head = f"{method} {self._prefix}{path} HTTP/1.0\r\nHost: localhost\r\n\r\n"
            connection.sendall(head.encode())
            parts = []
            while part := connection.recv(1 << 16):
                parts.append(part)
        first, _, body = b"".join(parts).partition(b"\r\n\r\n")
        return int(first.split(b" ", 2)[1]), body

    def _connect(self) -> socket.socket:
        if self._address.startswith("tcp://"):
            host, _, port = self._address.removeprefix("tcp://").rpartition(":")
            return socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_TIMEOUT_S)
        connection.connect(self._address.removeprefix("unix://"))
        return connection

    def containers(self, process: str) -> list[Found]:
        filters = json.dumps({"label": [f"weft.process={process}"]}, separators=(",", ":"))
        quoted = "".join(c if c.isalnum() else f"%{ord(c):02X}" for c in filters)
        status, body = self.ask("GET", f"/containers/json?all=1&filters={quoted}")
        if status != 200:
            raise OSError(f"status {status}")
        found: list[Found] = json.loads(body)
        return [one for one in found if (one.get("Labels") or {}).get("weft.adoptable") != "true"]

    def kill(self, one: Found) -> None:
        self.ask("POST", f"/containers/{one['Id']}/kill?signal=SIGKILL")

    def remove(self, one: Found) -> None:
        status, _ = self.ask("DELETE", f"/containers/{one['Id']}?force=1&v=1")
        if status < 300:
            remove_files(one["Labels"].get("weft.files") or "")


def remove_files(path: str) -> None:
    """Input, answers and secrets of the attempt."""
    if os.path.basename(os.path.dirname(path)) == f"weft-containers-{os.getuid()}":
        import shutil

        shutil.rmtree(path, ignore_errors=True)


def for_each(found: list[Found], action: Callable[[Found], None]) -> None:
    left = list(found)

    def work() -> None:
        while True:
            try:
                action(left.pop())
            except IndexError:
                return
            except (OSError, ValueError):
                continue  # the next round finds it again

    threads = [threading.Thread(target=work) for _ in range(min(_THREADS, len(found)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> int:
    address, api, *processes = sys.argv[1:]
    engine = WillEngine(address, api)
    end = time.monotonic() + _SECONDS_MAX
    looked = False
    while time.monotonic() < end:
        try:
            found = [one for process in processes for one in engine.containers(process)]
        except (OSError, ValueError, IndexError):
            time.sleep(0.2)
            continue
        if not found and looked:
            return 0
        looked = not found
        if looked:
            time.sleep(_LOOK_AGAIN_S)  # the engine may still be working on a request of the dead process
        for_each([one for one in found if one.get("State") in ("running", "paused")], engine.kill)
        for_each(found, engine.remove)
    return 1


if __name__ == "__main__":
    sys.exit(main())
