"""Where the container engine listens, and which engine it is."""

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

_MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_PODMAN_SOCKET = "podman/podman.sock"
_DOCKER_SOCKET = "/var/run/docker.sock"
_API_LEAST = "1.24"
_API_KNOWN = "1.47"
_STREAM_LIMIT = 1 << 16  # bytes that are read ahead of what was taken


class BadAddress(Exception):
    """The engine's address cannot be used; the message says why."""


class EngineAddress(NamedTuple):
    """A Unix socket, or a host and port of another machine's engine."""

    path: str | None
    host: str = ""
    port: int = 0

    @property
    def remote(self) -> bool:
        """Paths of this machine mean nothing to the engine."""
        return self.path is None

    def __str__(self) -> str:
        return f"tcp://{self.host}:{self.port}" if self.path is None else f"unix://{self.path}"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.path is not None:
            return await asyncio.open_unix_connection(self.path, limit=_STREAM_LIMIT)
        return await asyncio.open_connection(self.host, self.port, limit=_STREAM_LIMIT)


def parse_address(text: str) -> EngineAddress:
    scheme, separator, rest = text.partition("://")
    if not separator:
        return EngineAddress(os.path.abspath(text))
    if scheme == "unix":
        return EngineAddress(os.path.abspath(rest))
    if scheme in ("tcp", "http"):
        host, _, port = rest.rstrip("/").rpartition(":")
        if host and port.isdecimal():
            return EngineAddress(None, host.strip("[]"), int(port))
        raise BadAddress(f"{text}: write tcp://HOST:PORT")
    raise BadAddress(f"{text}: only unix:// and tcp:// (without TLS) addresses of container engines can be used")


def find_address(chosen: str | None, environment: Mapping[str, str]) -> EngineAddress | None:
    """The first of: the chosen one, DOCKER_HOST, Podman's socket of root, Podman's of this user, Docker's. The first
    two are used even if nothing listens there; None: no socket was found. Raises BadAddress."""
    named = chosen or environment.get("DOCKER_HOST")
    if named:
        if not chosen and environment.get("DOCKER_TLS_VERIFY"):
            raise BadAddress("DOCKER_TLS_VERIFY is set, and TLS to a container engine is not supported")
        return parse_address(named)
    candidates = [f"/run/{_PODMAN_SOCKET}"]
    if environment.get("XDG_RUNTIME_DIR"):
        candidates.append(f"{environment['XDG_RUNTIME_DIR']}/{_PODMAN_SOCKET}")
    for path in (*candidates, _DOCKER_SOCKET):
        if os.access(path, os.R_OK | os.W_OK):
            return EngineAddress(path)
    return None


class EngineFacts(NamedTuple):
    """What an engine says about itself."""

    flavor: str  # "docker" or "podman"
    version: tuple[int, ...]
    identity: str  # the same on every node that reaches it


def choose_api(version: Mapping[str, Any]) -> str:
    """The version of the API to speak: the engine's, or the newest that is known here, if the engine still speaks it.
    Docker 20.10 and Podman 3 have 1.41; Docker 29 has 1.44 and newer."""
    newest = str(version.get("ApiVersion") or _API_LEAST)
    oldest = str(version.get("MinAPIVersion") or _API_LEAST)
    if oldest.count(".") != 1:
        oldest = _API_LEAST  # Podman gives the version of another API here
    return max(min(newest, _API_KNOWN, key=_numbers), oldest, key=_numbers)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("-")[0].split(".") if part.isdecimal())


def read_facts(address: EngineAddress, version: Mapping[str, Any], info: Mapping[str, Any] | None) -> EngineFacts:
    """From the answers of /version and, of Docker, /info. Docker has an id that it keeps; Podman makes up a new one
    for each answer, so that the machine and the socket say which one it is."""
    components = version.get("Components") or []
    podman = any("podman" in str(part.get("Name", "")).lower() for part in components)
    numbers = _numbers(str(version.get("Version", "")))
    if not podman and info is not None and info.get("ID"):
        return EngineFacts("docker", numbers, f"docker:{info['ID']}")
    return EngineFacts("podman" if podman else "docker", numbers, place_identity(address))


def place_identity(address: EngineAddress) -> str:
    if address.path is None:
        return f"engine:{address}"
    return f"engine:{_machine_id()}:{os.path.realpath(address.path)}"


def _machine_id() -> str:
    for path in _MACHINE_ID_FILES:
        try:
            with open(path) as file:
                if found := file.read().strip():
                    return found
        except OSError:
            continue
    return socket.gethostname()
