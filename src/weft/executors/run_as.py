"""The user that a node's tasks run as, where that is not the node's own (setting `run_as`)."""

import os
import pwd
from typing import NamedTuple


class BadUser(Exception):
    """Tasks cannot run as this user; the message says why, and what to do."""


class User(NamedTuple):
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def environment(self) -> dict[bytes, bytes]:
        """The variables by which a program knows its user."""
        home, name, shell = os.fsencode(self.home), os.fsencode(self.name), os.fsencode(self.shell)
        return {b"HOME": home, b"USER": name, b"LOGNAME": name, b"SHELL": shell}


#: Variables that name directories and sockets of the node's own user.
NOT_INHERITED = (
    b"XDG_RUNTIME_DIR",
    b"XDG_CONFIG_HOME",
    b"XDG_CACHE_HOME",
    b"XDG_DATA_HOME",
    b"MAIL",
    b"SSH_AUTH_SOCK",
)


def find_user(name: str) -> User:
    """By name or number, with its groups."""
    try:
        entry = pwd.getpwuid(int(name)) if name.isascii() and name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        raise BadUser(f"run_as: there is no user {name!r} on this machine") from None
    if os.geteuid() != 0:
        raise BadUser(f"run_as: only root can start tasks as {name}: start this node as root, or without run_as")
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, entry.pw_shell or "/bin/sh")
