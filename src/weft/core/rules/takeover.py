"""A new run that takes over the results of another one (`rerun --from`): what does not follow the named tasks is
stored as it ended there, and only the rest runs.

A task that is taken over has the end, the result and the hash of its source, and an origin that says where it ran.
What is too large for the store stays an artifact of the source, which `prune` therefore keeps.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from weft.core.artifacts import with_run
from weft.core.commands import Refused, Submit
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import CurrentTasks, EndsToTakeOver, MapArray, MapLabels
from weft.core.rows import WHOLE, RunRow, TaskRow
from weft.core.rules.context import set_first_context
from weft.core.rules.generations import current_tasks, positions_again
from weft.core.rules.maps import array_hash
from weft.core.rules.run_commands import named_run
from weft.core.workflow import Workflow

_TAKEN: Final = ("succeeded", "skipped")
_SKIPPED_IN: Final = " (taken over from run "
NAMED_MAX: Final = 5  # of tasks in a refusal


class Takeover(msgspec.Struct):
    """What a new run begins with."""

    source: RunRow
    tasks: dict[int, list[TaskRow]]  # by position: the whole task, then its elements in their order
    ends: dict[int, tuple[str | None, str | None, str | None]]  # by task: hash, result, origin of an attempt
    arrays: dict[int, str]  # by position of a map: what it maps over, where that came from the context
    labels: dict[int, str]


def positions_from(workflow: Workflow, run: RunRow, current: Sequence[TaskRow], names: Iterable[str]) -> list[int]:
    """Positions that run in a new run from these tasks on; all others can be taken over, or it is refused."""
    if run.level is not None:
        why = "what a level leaves is decided by all of its tasks together"
        raise Refused("conflict", f"run {run.id} goes by levels, and can only be run again as a whole: {why}")
    seeds = []
    for name in names:
        place = workflow.place(name)
        if place is None:
            raise Refused("not_found", f"run {run.id} has no task {name}")
        if place[1] != WHOLE:
            raise Refused("conflict", f"{name} is an element: name its whole task, which runs again with all of them")
        seeds.append(place[0])
    again = positions_again((), run, workflow, [], False, seeds)
    running = frozenset(again)
    others = [row for row in current if row.idx == WHOLE and row.pos not in running and row.state not in _TAKEN]
    if others:
        names = [workflow.tasks[row.pos].name for row in others[:NAMED_MAX]]
        states = ", ".join(f"{name} is {row.state}" for name, row in zip(names, others, strict=False))
        more = f" (and {len(others) - NAMED_MAX} more)" if len(others) > NAMED_MAX else ""
        add = " ".join(f"--from {name}" for name in names)
        why = "only what succeeded or was skipped can be taken over"
        raise Refused("conflict", f"in run {run.id} {states}{more}, and {why}: add {add}")
    return again


def load_takeover(draft: Draft, command: Submit) -> Rule:
    """A run number has been drawn before: from there on `prune` waits, and the source stays."""
    assert command.taken_from is not None
    source: RunRow = yield from named_run(draft, command.taken_from)
    if source.workflow != command.workflow:
        raise Refused("conflict", f"run {source.id} has got another definition in the meantime: try again")
    workflow = draft.workflows[source.workflow]
    rows, ends = yield (CurrentTasks(source.no), EndsToTakeOver(source.no))
    draft.add_loaded(rows)
    current = sorted(current_tasks(draft, source), key=lambda row: (row.pos, row.idx))
    again = frozenset(positions_from(workflow, source, current, command.from_tasks))
    tasks: dict[int, list[TaskRow]] = {}
    for row in current:
        if row.pos not in again:
            tasks.setdefault(row.pos, []).append(row)
    opened = [pos for pos, (whole, *_) in tasks.items() if whole.elements is not None]
    over_context = [pos for pos in opened if workflow.tasks[pos].map_reads_context]
    labelled = [pos for pos in opened if workflow.tasks[pos].labelled]
    texts: list[str] = []
    if over_context or labelled:
        found = yield (
            *(MapArray(source.no, pos) for pos in over_context),
            *(MapLabels(source.no, pos) for pos in labelled),
        )
        texts = [text for ((_, text),) in found]
    return Takeover(
        source, tasks, {task_id: end for task_id, *end in ends},
        dict(zip(over_context, texts, strict=False)), dict(zip(labelled, texts[len(over_context) :], strict=True)),
    )  # fmt: skip


def take_over(draft: Draft, run: RunRow, takeover: Takeover) -> list[TaskRow]:
    """The whole tasks whose ends have yet to be counted by what needs them. The run's first rows are in the draft."""
    whole_tasks = []
    written: list[tuple[TaskRow, dict[str, Any]]] = []
    for pos, (source, *elements) in takeover.tasks.items():
        row = draft.at[(run.no, pos, WHOLE)]
        row.elements, row.admitted = source.elements, source.elements or 0
        row.open = row.failed = 0
        data = {"run": takeover.source.id, **_end(draft, takeover, row, source, written)}
        if source.elements is not None:
            ends = []
            for element in elements:
                own = draft.new_task(run, pos, element.idx, row.generation, row.demand, 0)
                end = _end(draft, takeover, own, element, written)
                ends.append([end["state"], end["attempt"], end.get("hash")])
            data["elements"] = ends
        _keep_values(draft, row, takeover, data)
        draft.event(run.no, "taken_over", data, row)
        whole_tasks.append(row)
    set_first_context(draft, run, written)
    return whole_tasks


def _end(
    draft: Draft, takeover: Takeover, row: TaskRow, source: TaskRow, written: list[tuple[TaskRow, dict[str, Any]]]
) -> dict[str, Any]:
    """The end of one row; what its event says of it."""
    from_run = takeover.source.id
    row.reason, row.child = source.reason, source.child
    if source.state == "skipped" and _SKIPPED_IN not in (source.reason or ""):
        row.reason = f"{source.reason}{_SKIPPED_IN}{from_run})"
    known = takeover.ends.get(source.id)
    if known is not None:
        _, result, origin = known
        row.attempt = 1
        if origin is None:
            name = draft.definition(row).called(row.idx)
            where = {"run": from_run, "task": name, "attempt": source.attempt}
        else:
            where = msgspec.json.decode(origin)
        text = msgspec.json.encode({**where, "taken_over": True}).decode()
        draft.created.taken_over.append((row.id, source.id, with_run(result, from_run), text))
        if result is not None and source.state == "succeeded":
            body = msgspec.json.decode(result)
            if isinstance(body, dict) and body.get("context"):
                written.append((row, body["context"]))
    _store_end(draft, row, source)
    data: dict[str, Any] = {"state": row.state, "attempt": row.attempt}
    if known is not None and known[0] is not None and row.state == "succeeded":
        data["hash"] = known[0]
    return data


def _store_end(draft: Draft, row: TaskRow, source: TaskRow) -> None:
    """It is inserted with its end, and makes no move."""
    run, definition, state = draft.runs[row.run_no], draft.definition(row), source.state
    row.state, row.finished_at, row.settled = state, draft.now, row.element
    run.open -= 1
    run.open_main -= not definition.final
    if not row.element and definition.mapped:
        if row.elements is not None:
            return
        run.total += 1  # a map that never opened is one task
    setattr(run, state, getattr(run, state) + 1)


def _keep_values(draft: Draft, row: TaskRow, takeover: Takeover, data: dict[str, Any]) -> None:
    """What a map was given: a later generation of the new run asks for it."""
    for name, texts, values in (
        ("array", takeover.arrays, draft.values.arrays),
        ("labels", takeover.labels, draft.values.labels),
    ):
        text = texts.get(row.pos)
        if text is not None:
            values.append((row.run_no, row.pos, row.generation, text))
            data[name] = array_hash(text)
