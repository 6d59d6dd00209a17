"""The level records of a run, as they stand: the same bytes whatever order its tasks finished in, whoever ran them.

Without time, node, session and attempt. A resume takes back the records of the levels that it works on again.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

RECORD_KINDS = ("merged", "level", "resumed")


def canonical_lines(events: Iterable[tuple[str, str | None, dict[str, Any]]]) -> list[str]:
    """`events` are (kind, task, data) in their order."""
    records: list[dict[str, Any]] = []
    for kind, task, data in events:
        if kind == "merged":
            records.append({"level": data["level"], "task": task, "state": data["state"], "hash": data.get("hash")})
        elif kind == "level":
            records.append({"level": data["level"], "tasks": data["tasks"], "hash": data["hash"]})
        elif kind == "resumed" and "level" in data:
            records = [record for record in records if record["level"] < data["level"]]
    return [msgspec.json.encode(record).decode() for record in records]
