"""Numbered migrations, forward and back, the same numbers in both dialects; and which stores this version can use."""

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from weft.store.protocol import StoreUnusable

_FILE = re.compile(r"^(\d{4})_\w+\.(up|down)\.sql$")
_COMMENT = re.compile(r"--[^\n]*")


@cache
def migrations(dialect: str) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for file in (Path(__file__).parent / dialect / "migrations").iterdir():
        match = _FILE.match(file.name)
        if match:
            found.setdefault(int(match[1]), {})[match[2]] = file.read_text(encoding="utf-8")
    return dict(sorted(found.items()))


def latest(dialect: str) -> int:
    return max(migrations(dialect))


@cache
def origin(dialect: str) -> str:
    """Tells which first migration created a store. It changes while Weft is developed, under the same number; once it
    is released it never changes again."""
    text = " ".join(_COMMENT.sub("", migrations(dialect)[1]["up"]).split())
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def scripts(dialect: str, have: int, target: int) -> Iterator[str]:
    """The SQL that leads from one schema to the other."""
    known = migrations(dialect)
    for number in range(have + 1, target + 1):
        yield known[number]["up"]
        if number == 1:
            yield f"INSERT INTO meta (key, value) VALUES ('origin', '{origin(dialect)}')"
    for number in range(have, target, -1):
        yield known[number]["down"]


def refuse_unknown(dialect: str, name: str, have: int, created_by: str | None) -> None:
    """Raises for a store whose tables are not those that this version expects under its number."""
    if have and created_by != origin(dialect):
        raise StoreUnusable(
            f"{name} was created by an earlier development version of Weft (schema {have}, first migration"
            f" {created_by or 'unnamed'}; this version has {origin(dialect)}). Let its runs end with that"
            " version, and use a new store (--store): docs/guides/upgrade.md"
        )
    if have > latest(dialect):
        raise StoreUnusable(
            f"{name} was written by a newer Weft (schema {have}, this version knows {latest(dialect)}). Update weft"
        )
