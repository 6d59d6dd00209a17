"""The owner's token: a file beside the store that its user alone can read. A server makes it at its first start.

The owner's own tools read it by themselves, so that the owner need not know of it. They send it to servers of this
machine only, and only to a port that the file's owner (or root) listens on: another user who took the port while the
server was down would otherwise be given it.
"""

import ipaddress
import os
import re
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from weft import config as settings
from weft.client.opening import STORE_DIRECTORY, make_home
from weft.store.private_files import create_private, tighten
from weft.store.urls import StoreUrl

FILE = "token"
_TOKEN = re.compile(r"[\x21-\x7e]{16,256}")
_LISTENING = "0A"
_SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def is_loopback(host: str) -> bool:
    """Only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def server_token(home: Path) -> tuple[str, Path]:
    """For a server whose files are there: (the token, its file), made if there is none yet."""
    path = home / FILE
    try:
        make_home(home)
        if not path.exists():
            create_private(path, f"weft_local_{secrets.token_hex(32)}\n")
        tighten(path)
        owner = path.stat().st_uid
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise settings.BadSetting(f"the server's token cannot be kept in {path}: {error}; set WEFT_TOKEN") from None
    if owner != os.geteuid():
        raise settings.BadSetting(f"{path} belongs to another user; remove it, or set WEFT_TOKEN")
    if _TOKEN.fullmatch(token) is None:
        raise settings.BadSetting(f"{path} holds no token; remove it, and the next start makes a new one")
    return token, path


def token_for(url: str, config: settings.Config, directory: Path) -> str | None:
    """What the owner's tools send to this server: WEFT_TOKEN, else the file's token if it is one of this machine."""
    given = os.environ.get("WEFT_TOKEN")
    if given:
        return given
    parts = urlsplit(url)
    if not is_loopback(parts.hostname or ""):
        return None
    path = _file(config, directory)
    if path is None:
        return None
    try:
        owner = path.stat().st_uid
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None  # it is another user's
    strangers = _listeners(parts.port or (443 if parts.scheme == "https" else 80)) - {owner, 0}
    return token if not strangers and _TOKEN.fullmatch(token) is not None else None


def _file(config: settings.Config, directory: Path) -> Path | None:
    """Beside the store that is set, else in the nearest .weft upward that has one."""
    place = config.store
    if place is not None and not isinstance(place, StoreUrl):
        beside = (place if place.is_dir() else place.parent) / FILE
        if beside.is_file():
            return beside
    return settings.find_upward(directory, f"{STORE_DIRECTORY}/{FILE}")


def _listeners(port: int) -> set[int]:
    """The users who listen on this port, where the system says so (Linux)."""
    found = set()
    for path in _SOCKETS:
        try:
            lines = path.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:  # sl local_address rem_address st queues timer retransmits uid …
            words = line.split()
            if words[3] == _LISTENING and int(words[1].rpartition(":")[2], 16) == port:
                found.add(int(words[7]))
    return found
