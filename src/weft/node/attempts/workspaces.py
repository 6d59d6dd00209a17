"""Workspaces: one directory per run on each machine, in which the tasks of the run start (`workspace: run`).

That of a run that failed or was cancelled stays until the run is pruned: a resume finds it. Every node looks now and
then which of the directories on its machine nobody needs any more.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from weft.executors.run_as import User
from weft.store.private_files import DIRECTORY_MODE

_GOING = "."  # the first character of what is being removed: no run's id begins with it


class WorkspaceError(Exception):
    """A workspace that cannot be made; the text says which and why."""


class Workspaces:
    """`states` gives the states of those of the runs that there are, by id; `user` is who the tasks run as."""

    def __init__(
        self, root: Path, states: Callable[[list[str]], Mapping[str, str]], user: User | None = None
    ) -> None:
        self.root = root
        self._states = states
        self._user = user

    def path(self, run_id: str) -> str:
        return f"{self.root}/{run_id}"

    def make(self, run_id: str) -> None:
        """There is one, made now or earlier."""
        path = self.path(run_id)
        if os.path.isdir(path):
            return
        try:
            os.makedirs(path, DIRECTORY_MODE, exist_ok=True)
            if self._user is not None:
                os.chown(path, self._user.uid, self._user.gid)
        except OSError as error:
            raise WorkspaceError(f"its workspace {path} cannot be made: {error.strerror}") from None

    def remove_ended(self) -> list[str]:
        """Remove those of runs that have succeeded or are not there any more; the ids of these runs."""
        try:
            names = os.listdir(self.root)
        except OSError:
            return []
        runs = sorted(name for name in names if not name.startswith(_GOING))
        states = self._states(runs) if runs else {}
        ended = [run_id for run_id in runs if states.get(run_id) in (None, "succeeded")]
        for run_id in ended:
            # Renamed first: a run that goes on at this moment finds all of it or nothing.
            going = self.root / f"{_GOING}{run_id}-{secrets.token_hex(4)}"
            os.rename(self.root / run_id, going)
            names.append(going.name)
        for name in names:
            if name.startswith(_GOING):
                shutil.rmtree(self.root / name, ignore_errors=True)
        return ended
