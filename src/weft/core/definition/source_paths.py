"""Where a part of the canonical document is in the value that the author wrote.

Needed only when there is a problem to report, so it searches, instead of keeping the paths of 100,000 tasks.
"""

from typing import Any, Final

from weft.core.definition.problems import Path

#: Keys that may name a task in a list of tasks, in order of precedence.
NAME_KEYS: Final = ("key", "id", "name")


class SourcePaths:
    """Paths in the author's value, whatever form it has."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._listed: dict[str, int] | None = None

    def task(self, name: str) -> tuple[Path, Any]:
        prefix: Path = ()
        tasks = self._value
        if isinstance(tasks, dict):
            prefix, tasks = ("tasks",), tasks["tasks"]
        if isinstance(tasks, dict):
            return (*prefix, name), tasks[name]
        if self._listed is None:
            self._listed = {}
            for at, item in enumerate(tasks):
                self._listed.setdefault(_own_name(item, at), at)
        listed = self._listed.get(name)
        return (prefix, None) if listed is None else ((*prefix, listed), tasks[listed])

    def need(self, name: str, need: str) -> Path | None:
        """Where the `needs` of a task name another one; None if they do not."""
        path, task = self.task(name)
        for key in ("needs", "dependsOn"):
            needs = task.get(key) if isinstance(task, dict) else None
            if needs == need:
                return (*path, key)
            if isinstance(needs, (list, tuple)) and need in needs:
                return (*path, key, needs.index(need))
        return None

    def text(self, name: str, canonical: Path, text: str) -> Path:
        """Where the author wrote a text of a task, given its path in the canonical task."""
        path, task = self.task(name)
        if not isinstance(task, dict):
            return path
        if task.get(canonical[0]) == text:
            return (*path, canonical[0])
        candidates = _paths_of(task, text)
        if not candidates:
            return path
        return (*path, *max(candidates, key=lambda candidate: _common_end(candidate, canonical)))


def _own_name(item: Any, at: int) -> str:
    names = [item.get(key) for key in NAME_KEYS if key in item] if isinstance(item, dict) else []
    return str(names[0]) if names else f"t{at + 1}"


def _common_end(one: Path, other: Path) -> int:
    """How many of their last keys are the same: `spec.env.A` matches `env.A`."""
    count = 0
    while count < min(len(one), len(other)) and one[-1 - count] == other[-1 - count]:
        count += 1
    return count


def _paths_of(value: Any, text: str) -> list[Path]:
    out: list[Path] = []
    pending: list[tuple[Path, Any]] = [((), value)]
    while pending:
        path, item = pending.pop()
        if item == text:
            out.append(path)
        elif isinstance(item, dict):
            pending += [((*path, key), inner) for key, inner in reversed(item.items())]
        elif isinstance(item, (list, tuple)):
            pending += [((*path, at), item[at]) for at in range(len(item) - 1, -1, -1)]
    return out
