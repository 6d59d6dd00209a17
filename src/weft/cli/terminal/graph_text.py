"""Draws a workflow in the terminal, level by level, with lines for what needs what.

    1  ●   lint
       │ ● test
       ├─┘
    2  ●   build

Every task with dependents has a lane that stays open until the last of them is drawn. Wide levels and long graphs
are drawn short: what is left out becomes one line that says how many tasks it stands for.
"""

import shutil
from typing import NamedTuple

from weft.core.workflow import TaskDef, Workflow

LEVEL_TASKS_MAX = 8  # tasks drawn of one level
LEVELS_MAX = 30


class _Row(NamedTuple):
    """A task, or a group of tasks that is drawn as one."""

    level: str
    label: str
    needs: tuple[int, ...]  # rows above
    group: bool = False


class _Signs(NamedTuple):
    """Pieces of lines, by where they lead: a = above, b = below, l = left, r = right."""

    task: str
    group: str
    ab: str
    lr: str
    corners: dict[str, str]
    more: str
    times: str


_UNICODE = _Signs(
    "●", "◌", "│", "─",
    {"ar": "└", "al": "┘", "alr": "┴", "abr": "├", "abl": "┤", "ablr": "┼", "br": "┌", "bl": "┐", "blr": "┬"},
    "…", "×",
)  # fmt: skip
_ASCII = _Signs("*", "o", "|", "-", dict.fromkeys(
    ("ar", "al", "alr", "abr", "abl", "ablr", "br", "bl", "blr"), "+"), "...", "x")  # fmt: skip


def draw(workflow: Workflow, width: int | None = None, unicode: bool = True) -> list[str]:
    """The lines of the drawing, none longer than `width` (by default the terminal's)."""
    width = max(20, width or shutil.get_terminal_size().columns)
    signs = _UNICODE if unicode else _ASCII
    rows = _rows(workflow, signs)
    gutter = max((len(row.level) for row in rows), default=0) + 2
    drawn = _lanes(rows, signs)
    room = max((len(lanes.rstrip()) for lanes, row in drawn if row is not None), default=0)
    if gutter + room > width * 2 // 3:
        return [_cut(line, width, signs) for line in _plain(rows, signs, gutter)]
    out = []
    level = ""
    for lanes, row in drawn:
        if row is None:
            out.append((" " * gutter + lanes).rstrip())
            continue
        shown = row.level if row.level != level else ""
        level = row.level
        out.append(f"{shown:<{gutter}}{lanes.rstrip():<{room}} {row.label}".rstrip())
    return [_cut(line, width, signs) for line in out]


def _cut(line: str, width: int, signs: _Signs) -> str:
    return line if len(line) <= width else line[: width - len(signs.more)] + signs.more


def _rows(workflow: Workflow, signs: _Signs) -> list[_Row]:
    """The tasks by level, with what is too much drawn as groups."""
    by_level: list[list[int]] = [[] for _ in range(max(workflow.levels, default=-1) + 1)]
    for pos, level in enumerate(workflow.levels):
        by_level[level].append(pos)
    head, tail = len(by_level), len(by_level)
    if len(by_level) > LEVELS_MAX:
        head, tail = LEVELS_MAX * 2 // 3, len(by_level) - LEVELS_MAX // 3
    row_of = [0] * len(workflow.tasks)
    rows: list[_Row] = []

    def add(level: str, label: str, members: list[int], group: bool) -> None:
        for pos in members:
            row_of[pos] = len(rows)
        needed = {row_of[need]: None for pos in members for need in workflow.tasks[pos].needs}
        rows.append(_Row(level, label, tuple(sorted(r for r in needed if r != len(rows))), group))

    for level, positions in enumerate(by_level):
        if head <= level < tail:
            if level == head:
                inside = [pos for group in by_level[head:tail] for pos in group]
                label = f"{signs.more} {tail - head:,} more levels with {len(inside):,} tasks"
                add(f"{head + 1}{signs.more}", label, inside, True)
            continue
        shown = positions if len(positions) <= LEVEL_TASKS_MAX else positions[: LEVEL_TASKS_MAX - 1]
        for pos in shown:
            add(str(level + 1), _label(workflow.tasks[pos], signs), [pos], False)
        if len(shown) < len(positions):
            rest = positions[len(shown) :]
            add(str(level + 1), f"{signs.more} {len(rest):,} more", rest, True)
    return rows


def _label(task: TaskDef, signs: _Signs) -> str:
    notes: list[str] = []
    if task.when != "all_success":
        notes.append(task.when)
    if task.condition:
        notes.append("if " + " ".join(task.condition.split()))
    if task.final and not task.needs:
        notes.append("after all others")
    if task.kind == "wait":
        notes.append(waits_for(task))
    return f"{task.name}{times(task, signs.times)}" + (f"  ({', '.join(notes)})" if notes else "")


def times(task: TaskDef, sign: str = "×") -> str:
    """How many elements it has: known, left to the run (?), or none at all."""
    if not task.mapped:
        return ""
    count = task.replicas
    if isinstance(task.map, list):
        count = -(-len(task.map) // (task.batch or 1))
    return f" {sign}{'?' if count is None else f'{count:,}'}"


def waits_for(task: TaskDef) -> str:
    spec = task.spec
    if "signal" in spec:
        return f"waits for {spec['signal']}"
    return f"waits {spec['for']}" if "for" in spec else f"waits until {spec['until']}"


def _lanes(rows: list[_Row], signs: _Signs) -> list[tuple[str, _Row | None]]:
    """Each line's lanes, with the row whose task stands in it; None for a line of connections only."""
    waiting = [0] * len(rows)  # dependents not drawn yet
    for row in rows:
        for need in row.needs:
            waiting[need] += 1
    lanes: list[int | None] = []
    ended_at = -1  # where a task without dependents has just been drawn: right below it looks like one
    out: list[tuple[str, _Row | None]] = []
    for at, row in enumerate(rows):
        needed = [column for column, owner in enumerate(lanes) if owner is not None and owner in row.needs]
        for need in row.needs:
            waiting[need] -= 1
        ending = [column for column in needed if waiting[lanes[column] or 0] == 0]
        column = ending[0] if ending else _free(lanes, -1 if needed else ended_at)
        while column >= len(lanes):
            lanes.append(None)
        if needed and needed != [column]:
            out.append((_connection(lanes, needed, ending, column, signs), None))
        for ended in ending:
            lanes[ended] = None
        lanes[column] = at
        signs_here = [signs.ab if owner is not None else " " for owner in lanes]
        signs_here[column] = signs.group if row.group else signs.task
        out.append((" ".join(signs_here), row))
        ended_at = -1
        if waiting[at] == 0:
            lanes[column] = None
            ended_at = column
        while lanes and lanes[-1] is None:
            lanes.pop()
    return out


def _free(lanes: list[int | None], but: int) -> int:
    columns = range(len(lanes) + 2)
    return next(c for c in columns if c != but and (c >= len(lanes) or lanes[c] is None))


def _connection(lanes: list[int | None], needed: list[int], ending: list[int], to: int, signs: _Signs) -> str:
    """The line between a task's needs and the task. An unrelated lane passes under it, drawn unbroken."""
    low, high = min(*needed, to), max(*needed, to)
    out = []
    for column, owner in enumerate(lanes):
        sides = ("l" if low < column <= high else "") + ("r" if low <= column < high else "")
        if column in needed or column == to:
            above = "a" if column in needed else ""
            below = "b" if column == to or column not in ending else ""
            out.append(signs.corners[above + below + sides])
        elif owner is not None:
            out.append(signs.ab)
        else:
            out.append(signs.lr if sides else " ")
        out.append(signs.lr if "r" in sides else " ")
    return "".join(out)


def _plain(rows: list[_Row], signs: _Signs, gutter: int) -> list[str]:
    """Without lines, for graphs whose lanes would leave no room for names."""
    out, level = [], ""
    for row in rows:
        shown = row.level if row.level != level else ""
        level = row.level
        names = [rows[need].label.split("  (")[0] for need in row.needs]
        after = f"  <- {', '.join(names)}" if names else ""
        out.append(f"{shown:<{gutter}}{signs.group if row.group else signs.task} {row.label}{after}")
    return out
