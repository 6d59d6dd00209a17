"""Secrets, as this node has them: from files of one directory, else from its own environment.

They are looked up when an attempt starts, on the node that runs it, and reach nothing but that attempt. Files win,
because somebody put them there for this purpose, where a variable may be inherited by accident; and they are read
anew each time, so that a secret can be changed while the node runs.
"""

import os
import stat
from collections.abc import Callable, Mapping
from typing import Any

from weft.core.workflow import Workflow
from weft.executors.masking import LENGTH_MIN

VALUE_BYTES_MAX = 96 * 1024  # an environment string of 128 KiB is refused by Linux

Log = Callable[[str, dict[str, Any]], None]


class MissingSecret(Exception):
    """It is not there, or cannot be used. Trying again would not change that."""


class Secrets:
    def __init__(
        self,
        environment: Mapping[str, str],
        directory: str | None = None,
        log: Log = lambda message, fields: None,
    ) -> None:
        self._environment = environment
        self._directory = directory
        self._log = log
        self._declared: dict[str, None] = {}
        self._warned: dict[str, None] = {}
        self.hidden: tuple[str, ...] = ()
        self.learn(())

    def learn(self, names: tuple[str, ...]) -> None:
        """Secrets that some workflow declares: no task that does not list them may have them from the environment."""
        new = [name for name in (*names, *self._files()) if name not in self._declared]
        if new:
            self._declared.update(dict.fromkeys(new))
            self.hidden = tuple(name for name in sorted(self._declared) if name in self._environment)

    def hidden_from(self, workflow: Workflow) -> tuple[str, ...]:
        """The variables that an attempt of this workflow must not inherit from the node."""
        if workflow.secrets and not all(name in self._declared for name in workflow.secrets):
            self.learn(workflow.secrets)
        return self.hidden

    def values(self, names: tuple[str, ...]) -> dict[str, str]:
        return {name: self._value(name) for name in names}

    def _value(self, name: str) -> str:
        value = self._from_file(name)
        place = f"{self._directory}/{name}"
        if value is None:
            value, place = self._environment.get(name), f"the node's variable {name}"
        if value is None:
            looked = "secrets_dir is not set" if self._directory is None else f"there is no file {name} in it"
            where = "in the node's environment" + ("" if self._directory is None else f" and in {self._directory}")
            raise MissingSecret(f"the secret {name} is missing: looked {where} ({looked})")
        if not value:
            raise MissingSecret(f"the secret {name} is empty ({place})")
        if "\0" in value:
            raise MissingSecret(f"the secret {name} holds a NUL, which no variable can ({place})")
        size = len(value.encode("utf-8", "surrogateescape"))
        if size > VALUE_BYTES_MAX:
            raise MissingSecret(
                f"the secret {name} has {size:,} bytes; {VALUE_BYTES_MAX:,} fit into a variable ({place})"
            )
        if size < LENGTH_MIN and name not in self._warned:
            self._warned[name] = None
            self._log("a secret is too short to be masked", {"secret": name, "characters_min": LENGTH_MIN})
        return value

    def _from_file(self, name: str) -> str | None:
        """One newline at its end belongs to the file, not to the secret."""
        if self._directory is None:
            return None
        path = os.path.join(self._directory, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MissingSecret(f"the secret {name} cannot be read: {path}: {error.strerror}") from None
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise MissingSecret(f"the secret {name} cannot be read: {path} is no file")
            data = file.read(VALUE_BYTES_MAX + 2)
        for end in (b"\r\n", b"\n"):
            if data.endswith(end):
                data = data[: -len(end)]
                break
        return os.fsdecode(data)

    def _files(self) -> list[str]:
        if self._directory is None:
            return []
        try:
            return sorted(entry.name for entry in os.scandir(self._directory) if entry.is_file())
        except OSError as error:
            self._log("secrets_dir cannot be read", {"directory": self._directory, "error": error.strerror})
            return []
