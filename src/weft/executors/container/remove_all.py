"""A node's last will: remove the containers of a process that is dead, or past its trust, except those that may be
adopted. Run as a plain script by the spawner: `python -I -S remove_all.py ADDRESS PROCESS_ID…`.

It may import nothing but the standard library, and little of that: containers must be gone within seconds.
"""

import json
import os
import socket
import sys
import threading
import time
from typing import Any

_THREADS = 8
_SECONDS_MAX = 20.0
_TIMEOUT_S = 10.0
_LOOK_AGAIN_S = 0.5


def ask(address: str, method: str, path: str) -> tuple[int, bytes]:
    if address.startswith("tcp://"):
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        connection = socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S)
    else:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_TIMEOUT_S)
        connection.connect(address.removeprefix("unix://"))
    with connection:
        # HTTP/1.0: the answer has no chunks, and ends with the connection.
        connection.sendall(f"{method} /v1.41{path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), body


def containers(address: str, process: str) -> list[dict[str, Any]]:
    filters = json.dumps({"label": [f"weft.process={process}"]}, separators=(",", ":"))
    quoted = "".join(c if c.isalnum() else f"%{ord(c):02X}" for c in filters)
    status, body = ask(address, "GET", f"/containers/json?all=1&filters={quoted}")
    if status != 200:
        raise OSError(f"status {status}")
    found: list[dict[str, Any]] = json.loads(body)
    return [one for one in found if (one.get("Labels") or {}).get("weft.adoptable") != "true"]


def remove(address: str, found: list[dict[str, Any]]) -> None:
    while found:
        try:
            one = found.pop()
            ask(address, "POST", f"/containers/{one['Id']}/kill?signal=SIGKILL")
            status, _ = ask(address, "DELETE", f"/containers/{one['Id']}?force=1&v=1")
            if status < 300:
                remove_files(one["Labels"].get("weft.files") or "")
        except (OSError, ValueError, IndexError):
            continue  # the next round finds it again


def remove_files(path: str) -> None:
    """Input, answers and secrets of the attempt."""
    if os.path.basename(os.path.dirname(path)) == f"weft-containers-{os.getuid()}":
        import shutil

        shutil.rmtree(path, ignore_errors=True)


def main() -> int:
    address, *processes = sys.argv[1:]
    end = time.monotonic() + _SECONDS_MAX
    looked = False
    while time.monotonic() < end:
        try:
            found = [one for process in processes for one in containers(address, process)]
        except (OSError, ValueError, IndexError):
            time.sleep(0.2)
            continue
        if not found:
            if looked:
                return 0
            looked = True
            time.sleep(_LOOK_AGAIN_S)  # the engine may still be working on a request of the dead process
            continue
        looked = False
        threads = [threading.Thread(target=remove, args=(address, found)) for _ in range(min(_THREADS, len(found)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return 1


if __name__ == "__main__":
    sys.exit(main())
