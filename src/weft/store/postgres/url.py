"""A store's address. What is printed of it never has the password."""

SCHEMES = ("postgresql://", "postgres://")


class PostgresUrl(str):
    """postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with libpq's parameters and `prepare=off`."""

    @property
    def shown(self) -> str:
        """Without its password and its parameters."""
        from urllib.parse import urlsplit, urlunsplit  # not above: the command line reads its settings at every start

        try:
            parts = urlsplit(self)
            user, where = parts.username, parts.netloc.rpartition("@")[2]
        except ValueError:
            return "the PostgreSQL store"
        return urlunsplit(("postgresql", f"{user}@{where}" if user else where, parts.path, "", ""))

    @property
    def has_password(self) -> bool:
        from urllib.parse import parse_qs, urlsplit

        try:
            parts = urlsplit(self)
            return bool(parts.password) or "password" in parse_qs(parts.query)
        except ValueError:
            return False

    def __repr__(self) -> str:
        return repr(self.shown)

    def for_libpq(self) -> tuple[str, bool | None]:
        """The URL without what is ours, and whether statements may be prepared (None: not said). ValueError: neither
        on nor off."""
        from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

        try:
            parts = urlsplit(self)
            pairs = parse_qsl(parts.query, keep_blank_values=True)
        except ValueError:
            return str(self), None  # libpq will say what is wrong with it
        prepare = dict(pairs).get("prepare")
        if prepare is None:
            return str(self), None
        if prepare not in ("on", "off"):
            raise ValueError(f"prepare must be on or off, found {prepare!r}")
        rest = urlencode([(name, value) for name, value in pairs if name != "prepare"])
        return urlunsplit(parts._replace(query=rest)), prepare == "on"


def is_postgres(text: str) -> bool:
    return text.startswith(SCHEMES)
