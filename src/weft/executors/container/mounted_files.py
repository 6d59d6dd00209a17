"""The private directory of an attempt, which is mounted into its container: `$WEFT_OUTPUT`, `$WEFT_CONTEXT` and
`$WEFT_INPUT`, secrets that are given as files, and what a Python function needs.

On the host its parent can only be entered by the node's user. In the container every user can write to it, whatever
its number there. The directory outlives a node that is killed, as its container does if it may be adopted; the
adopting node, and those that remove the container, learn its path from a label.
"""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Container
from contextlib import suppress
from typing import Any, Final

import msgspec

from weft.executors.protocol import Launch

INSIDE: Final = "/run/weft"
LABEL: Final = "weft.files"  # names the directory on the host
_OLD_S = 3600.0
_CALL_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "call_function.py")


class UnsafeDirectory(OSError):
    """The directory for private files belongs to another user, or others may enter it."""


def parent_directory(root: str | None) -> str:
    """`root` must be a path that the engine sees, too; by default the directory for temporary files."""
    path = f"{root or tempfile.gettempdir()}/{_parent_name()}"
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise UnsafeDirectory(0, f"{path} must be a directory that only its owner, this user, can enter")
    return path


def _parent_name() -> str:
    return f"weft-containers-{os.getuid()}"


class MountedFiles:
    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def create(cls, parent: str, name: str, launch: Launch, secret_files: dict[str, str]) -> "MountedFiles":
        files = cls(tempfile.mkdtemp(prefix=f"{name}.", dir=parent))
        os.chmod(files.path, 0o777)
        spec = launch.spec
        if "function" in spec:
            call: dict[str, Any] = {"function": spec["function"], "with": spec.get("with") or {}, "root": launch.cwd}
            files._write("call.json", msgspec.json.encode(call))
            with open(_CALL_SCRIPT, "rb") as script:
                files._write("call_function.py", script.read())
        elif launch.input is not None:
            files._write("input", launch.input)
        if secret_files:
            os.mkdir(f"{files.path}/secrets")
            for secret, value in secret_files.items():
                files._write(f"secrets/{secret}", value.encode("utf-8", "surrogateescape"))
        return files

    def _write(self, name: str, data: bytes) -> None:
        with open(f"{self.path}/{name}", "xb") as file:
            os.fchmod(file.fileno(), 0o444)
            file.write(data)

    def answer(self, name: str) -> str:
        return f"{self.path}/{name}"

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def variables(launch: Launch, secret_files: Container[str] = ()) -> dict[str, str]:
    out = {"WEFT_OUTPUT": f"{INSIDE}/output", "WEFT_CONTEXT": f"{INSIDE}/context"}
    if launch.input is not None:
        out["WEFT_INPUT"] = f"{INSIDE}/input"
    for secret in launch.secrets:
        if secret in secret_files:
            out[f"{secret}_FILE"] = f"{INSIDE}/secrets/{secret}"
    return out


def remove_files(path: str | None) -> None:
    """Remove what a node that is dead has left of an attempt, if it is this user's to remove."""
    if path is not None and os.path.basename(os.path.dirname(path)) == _parent_name():
        MountedFiles(path).remove()


def remove_abandoned(parent: str, existing: Container[str]) -> None:
    """Remove directories whose containers are gone: a node that was killed has left them. `existing` are the names of
    containers. A directory is created before its container: young ones are left."""
    limit = time.time() - _OLD_S
    for entry in os.scandir(parent):
        with suppress(OSError):
            if entry.name.rpartition(".")[0] not in existing and entry.stat(follow_symlinks=False).st_mtime < limit:
                shutil.rmtree(entry.path, ignore_errors=True)
