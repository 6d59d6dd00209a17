"""A new run: all its tasks are stored pending, and those that need nothing are queued at once."""

from weft.core.commands import Refused, Reply, Submit
from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import NextRun, RunByKey, Workflows
from weft.core.definition.child_workflows import references_of
from weft.core.rows import Pin, TaskRow
from weft.core.rules.new_runs import NewRun, create_run, create_tasks, note_demand
from weft.core.rules.order import durations_for
from weft.core.rules.pins import settle_pins
from weft.core.rules.pools import check_pools
from weft.core.rules.settle import settle
from weft.core.rules.takeover import load_takeover


def submit(draft: Draft, command: Submit) -> Rule:
    if command.key is not None:
        (rows,) = yield (RunByKey(command.key),)
        if rows:
            return _existing(command, *rows[0])
    if command.manual_advance and draft.workflows[command.workflow].level_plan is None:
        raise Refused("invalid", "only a workflow with mode: levels can be moved on level by level")
    numbers: list[int] = []
    pins: list[Pin] = []
    named = references_of(draft.workflows[command.workflow])
    if named or command.taken_from is not None:
        (numbers,) = yield (NextRun(),)  # first: from here on nothing is pruned that it may come to name
    takeover = None if command.taken_from is None else (yield from load_takeover(draft, command))
    if named:
        pins = yield from settle_pins(draft, command)
    yield from check_pools(draft, draft.workflows[command.workflow])
    for hash in dict.fromkeys(pin.child for pin in pins):
        yield from check_pools(draft, draft.workflows[hash])
        for definition in draft.workflows[hash].tasks:
            note_demand(draft, draft.workflows[hash], definition)  # now: nodes can claim as soon as its run begins
    documents = {command.workflow: (command.workflow, command.name, command.document)}
    documents.update((hash, (hash, name, document)) for hash, name, document in command.children)
    asked = durations_for(draft.workflows[command.workflow])
    if numbers:
        stored, *durations = yield (Workflows(list(documents)), *asked)
    else:
        numbers, stored, *durations = yield (NextRun(), Workflows(list(documents)), *asked)
    known = [row.workflow for row in stored]
    if not command.document and command.workflow not in known:  # a trigger's: it has been applied, so it is stored
        raise Refused("not_found", f"the workflow {command.workflow} is not stored")
    draft.created.workflows = [one for hash, one in documents.items() if hash not in known]
    run = create_run(
        draft,
        NewRun(
            numbers[0], command.run_id, command.workflow, command.inputs, command.priority, command.source,
            command.labels, command.fresh, command.max_parallel, command.key, command.body_hash,
            manual_advance=command.manual_advance, trigger=command.trigger, cause=command.cause,
            source_run=None if takeover is None else takeover.source, backfill=command.backfill,
        ),
    )  # fmt: skip
    draft.created.pins = [(run.no, pin) for pin in pins]
    following: list[TaskRow] = []
    yield from create_tasks(draft, run, following, durations[0] if asked else (), takeover)
    yield from settle(draft, following)
    return Reply(run_id=run.id, run_no=run.no, state=run.state)


def _existing(command: Submit, run_id: str, run_no: int, body_hash: str, state: str) -> Reply:
    """The run that was submitted with this key before."""
    if body_hash != command.body_hash:
        raise Refused(
            "conflict", f"the key {command.key!r} belongs to run {run_id} with another definition or inputs"
        )
    return Reply(run_id=run_id, run_no=run_no, state=state, existing=True)
