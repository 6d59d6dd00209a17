"""Which tasks the expressions of a task name: the one seam between definitions and the expression language.

For now the names are found in the text by their form alone. `condition_references` and `template_references`
are all that the rest of the definition code knows about expressions.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

#: Where ${{ … }} may stand in a task; `scalars.Text(templates=True)` in the field table says the same.
TEMPLATED: Final = frozenset(("run", "argv", "env", "cwd", "with", "map", "wait"))
#: Asking for these means that the need is accepted whatever its end was.
STATE_MEMBERS: Final = ("state", "exitCode", "error", "result")

_REFERENCE: Final = re.compile(
    r"(?<![\w.$'\"])(tasks|parent)\s*(?:\??\.\s*([A-Za-z_]\w*)|(?:\?\.)?\[\s*(['\"])([^'\"]{1,64})\3\s*\])"
    r"(?:\s*\??\.\s*([A-Za-z]+))?",
    re.ASCII,
)


class Reference(NamedTuple):
    task: str
    member: str | None  # of the task's record: state, output, …


def condition_references(source: str) -> list[Reference]:
    """The tasks that a condition names, in the order of the text."""
    return [Reference(m[2] or m[4], m[5]) for m in _REFERENCE.finditer(source)]


def template_references(value: Any) -> list[Reference]:
    """The tasks named by ${{ … }} anywhere inside a text, list or mapping."""
    return [
        reference for text in _texts(value) for source in _sources(text) for reference in condition_references(source)
    ]


def task_references(task: dict[str, Any]) -> list[Reference]:
    """All tasks that a canonical task names, those of its condition first."""
    condition = task.get("if") or task.get("condition")
    out = condition_references(condition) if condition else []
    for key, value in task.items():
        if key in TEMPLATED and (type(value) is not str or "${{" in value):
            out += template_references(value)
    return out


def _sources(text: str) -> Iterator[str]:
    """What stands between ${{ and }}. Searched by hand: a regular expression takes a minute for 20,000 openings."""
    at = text.find("${{")
    while at >= 0:
        if at > 0 and text[at - 1] == "$":
            at = text.find("${{", at + 3)
            continue
        end = text.find("}}", at)
        if end < 0:
            return
        yield text[at + 3 : end]
        at = text.find("${{", end)


def _texts(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack.extend(reversed(item.values()))
        elif isinstance(item, list):
            stack.extend(reversed(item))
