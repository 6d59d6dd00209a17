"""What the names of workflows mean, settled when a run is submitted: from then on a new version changes nothing.

Files and flows come with the command. Names are looked up in the store, and so is what the workflows found there name
in their turn. A stored workflow that names files brings what they meant in its newest run.
"""

from typing import NoReturn

import msgspec

from weft.core.commands import Refused, Submit
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import PinsOfFamily, WorkflowNames, Workflows, WorkflowsByName
from weft.core.definition.child_workflows import DEPTH_MAX, kind_of, references_of
from weft.core.definition.inputs import wrong_inputs
from weft.core.definition.problems import quoted
from weft.core.definition.suggest import did_you_mean
from weft.core.rows import Pin
from weft.core.workflow import Workflow

NAMES_MAX = 1000
#: A definition in its directory, and a name in it.
Key = tuple[str, str | None, str]


class _Walk(msgspec.Struct):
    known: dict[Key, Pin]
    used: dict[Key, Pin]
    seen: dict[tuple[str, str | None], None]


def settle_pins(draft: Draft, command: Submit) -> Rule:
    """The pins of all that can be reached from the command's workflow; Refused if one cannot be had."""
    walk = _Walk({_key(pin): pin for pin in command.pins}, {}, {})
    yield from _follow(draft, walk, [(command.workflow, command.source)], [command.name])
    return list(walk.used.values())


def _key(pin: Pin) -> Key:
    return (pin.workflow, pin.source, pin.name)


def _follow(draft: Draft, walk: _Walk, path: list[tuple[str, str | None]], shown: list[str]) -> Rule:
    """`path` leads here, `shown` says so to people."""
    hash, source = path[-1]
    workflow = draft.workflows[hash]
    names = references_of(workflow)
    if not names:
        return
    if len(path) > DEPTH_MAX:
        raise Refused("invalid", f"workflows run each other more than {DEPTH_MAX} deep: {' -> '.join(shown[:6])} …")
    for name in names:
        if kind_of(name) == "name" and name in shown:
            _refuse_cycle([*shown, name])
    yield from _look_up(draft, walk, workflow, source, [n for n in names if (hash, source, n) not in walk.known])
    pins = [walk.known[(hash, source, name)] for name in names]
    (rows,) = yield (Workflows(sorted({pin.child for pin in pins})),)
    stored = [row.workflow for row in rows]
    for pin in pins:
        if pin.child not in stored and pin.child not in draft.workflows:
            raise Refused("invalid", f"{workflow.name}: the workflow {quoted(pin.name)} is no longer stored")
        child = draft.workflows[pin.child]
        place = (pin.child, pin.child_source)
        if place in path:
            _refuse_cycle([*shown, child.name])
        _check_inputs(workflow, pin, child)
        walk.used[_key(pin)] = pin
        if place not in walk.seen:
            walk.seen[place] = None
            yield from _follow(draft, walk, [*path, place], [*shown, child.name])


def _refuse_cycle(shown: list[str]) -> NoReturn:
    cycle = shown[shown.index(shown[-1]) :]
    raise Refused("invalid", f"these workflows run each other: {' -> '.join(cycle)}; remove one of these tasks")


def _look_up(draft: Draft, walk: _Walk, workflow: Workflow, source: str | None, names: list[str]) -> Rule:
    if not names:
        return
    for name in names:
        if kind_of(name) != "name":
            raise Refused(
                "invalid",
                f"{workflow.name} runs {quoted(name)}, which is known only beside the definition's file: submit that"
                " file once, or put what it names into the store and use its name",
            )
    (rows,) = yield (WorkflowsByName(names),)
    found = {row.name: row for row in rows}
    for name in names:
        if name not in found:
            yield from _refuse_unknown(workflow, name)
        row = found[name]
        child_source = source if row.source is None else row.source
        walk.known[(workflow.hash, source, name)] = Pin(workflow.hash, source, name, row.workflow, child_source)
        if row.root is not None and references_of(draft.workflows[row.workflow]):
            (pins,) = yield (PinsOfFamily(row.root),)
            for pin in pins:
                if kind_of(pin.name) != "name":  # names are looked up anew, as everything named is
                    walk.known.setdefault(_key(pin), pin)


def _refuse_unknown(workflow: Workflow, name: str) -> Rule:
    task = next(t.name for t in workflow.tasks if t.kind == "workflow" and t.spec["workflow"] == name)
    (rows,) = yield (WorkflowNames(NAMES_MAX),)
    known = [row[0] for row in rows]
    fix = did_you_mean(name, known) or (
        f"it knows {', '.join(known[:12])}" if known else "it knows none yet; a file is named ./file.yaml"
    )
    raise Refused("invalid", f"{task} runs the workflow {quoted(name)}, which the store does not know: {fix}")


def _check_inputs(workflow: Workflow, pin: Pin, child: Workflow) -> None:
    for task in workflow.tasks:
        if task.kind == "workflow" and task.spec["workflow"] == pin.name:
            problems = wrong_inputs(child.inputs, task.spec["with"])
            if problems:
                text = "; ".join(p.message + (f" ({p.fix})" if p.fix else "") for p in problems)
                raise Refused("invalid", f"{task.name} runs {pin.name}: {text}")
