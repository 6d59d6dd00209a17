"""Where something of the canonical document stands in what the author wrote. Asked only when there is a problem to
tell, so it searches instead of keeping the places of 100,000 tasks.
"""

from typing import Any, Final

from weft.core.definition.problems import Path

#: Keys that may name a task in a list of tasks, the most telling first.
NAME_KEYS: Final = ("key", "id", "name")


class Written:
    """The value as it was given, in any of its forms."""

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
        """Where a task says that it needs another one; None if it does not say so in words."""
        path, task = self.task(name)
        for key in ("needs", "dependsOn"):
            needs = task.get(key) if isinstance(task, dict) else None
            if needs == need:
                return (*path, key)
            if isinstance(needs, (list, tuple)) and need in needs:
                return (*path, key, needs.index(need))
        return None

    def text(self, name: str, place: Path, text: str) -> Path:
        """Where a text of a task was written, given its place in the canonical task."""
        path, task = self.task(name)
        if not isinstance(task, dict):
            return path
        if task.get(place[0]) == text:
            return (*path, place[0])
        candidates = _places_of(task, text)
        if not candidates:
            return path
        return (*path, *max(candidates, key=lambda found: _common_end(found, place)))


def _own_name(item: Any, at: int) -> str:
    given = [item.get(key) for key in NAME_KEYS if key in item] if isinstance(item, dict) else []
    return str(given[0]) if given else f"t{at + 1}"


def _common_end(one: Path, other: Path) -> int:
    """How many of their last keys are the same: `spec.env.A` is `env.A`."""
    count = 0
    while count < min(len(one), len(other)) and one[-1 - count] == other[-1 - count]:
        count += 1
    return count


def _places_of(value: Any, text: str) -> list[Path]:
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
