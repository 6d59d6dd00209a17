"""The address of a replicated log: etcd://USER@a:2379,b:2379,c:2379/prefix, one entry for each member of etcd."""

import hashlib

SCHEME = "etcd://"
PORT = 2379
OPTIONS = ("tls", "ca", "cert", "key", "password_file")


class EtcdUrl(str):
    """With `?tls=on`, and then `ca`, `cert` and `key`: files in PEM. A user's password is in no address: it is in a
    variable or in `password_file`. ValueError where it is wrong."""

    has_password = False

    def __init__(self, text: str) -> None:
        from urllib.parse import parse_qsl, unquote  # not above: the command line reads its settings at every start

        rest, _, query = text.removeprefix(SCHEME).partition("?")
        where, _, prefix = rest.partition("/")
        user, _, where = where.rpartition("@")
        if ":" in user:
            raise ValueError(
                "an etcd address can be read by others on its machine: leave the password out of it, and put it into"
                " WEFT_ETCD_PASSWORD or into a file (?password_file=…)"
            )
        self.user = unquote(user)
        self.members = [_member(member) for member in where.split(",")]
        self.prefix = prefix.strip("/") or "weft"
        self.options = dict(parse_qsl(query, keep_blank_values=True))
        unknown = sorted(set(self.options) - set(OPTIONS))
        if unknown:
            raise ValueError(f"an etcd address has the options {', '.join(OPTIONS)}, not {unknown[0]!r}")
        if self.options.get("tls", "off") not in ("on", "off"):
            raise ValueError(f"tls is on or off, not {self.options['tls']!r}")
        files = [name for name in ("ca", "cert", "key") if not self.options.get(name)]
        if self.secure and files:
            raise ValueError(
                f"tls=on needs the files ca, cert and key, of which {', '.join(files)} is missing: nodes show each"
                " other their certificates, too"
            )
        if not self.secure and len(files) < 3:
            raise ValueError("ca, cert and key are for tls=on, which the address does not have")

    @property
    def secure(self) -> bool:
        return self.options.get("tls") == "on"

    @property
    def shown(self) -> str:
        where = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.members)
        return f"{SCHEME}{f'{self.user}@' if self.user else ''}{where}/{self.prefix}"

    @property
    def directory_name(self) -> str:
        """Of the replica, within a .weft: one for each log."""
        where = ",".join(sorted(f"{host}:{port}" for host, port in self.members))
        return "log-" + hashlib.sha256(f"{where}/{self.prefix}".encode()).hexdigest()[:12]

    def __repr__(self) -> str:
        return repr(self.shown)


def is_etcd(text: str) -> bool:
    return text.startswith(SCHEME)


def _member(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or "]" in port:
        host, port = text, str(PORT)
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"expected etcd://HOST:PORT,HOST:PORT,…/PREFIX, found the member {text!r}")
    return host, int(port)
