"""A spawner starts quickly: it imports little, and nothing that is heavy."""

import socket
import subprocess
import sys
from pathlib import Path

import weft.executors.spawner

SCRIPT = Path(weft.executors.spawner.__file__).parent / "__main__.py"
HEAVY = {
    "collections",
    "contextlib",
    "enum",
    "functools",
    "inspect",
    "json",
    "msgspec",
    "re",
    "signal",
    "socket",
    "typing",
}


def test_the_spawner_imports_nothing_heavy() -> None:
    node, spawner = socket.socketpair()
    with spawner:
        node.close()  # so the spawner ends at once
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-X", "importtime", str(SCRIPT), str(spawner.fileno())],
            pass_fds=(spawner.fileno(),), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
        )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "weft.executors.spawner.loop" in imported
    assert not imported & HEAVY, "`python -X importtime` says which module imports them"
