"""Go on with what was too much for one transaction: sweeps of stopped runs, ends not yet counted, deadlines, and
what tasks that run other workflows have open."""

from weft.core.decision.draft import Draft, Rule
from weft.core.decision.needs import Runs, RunsToSweep, UnsettledTasks
from weft.core.rules.children import work_on_children
from weft.core.rules.settle import SETTLE_MAX, admit, settle
from weft.core.rules.stopping import end_handlers, stop_run, sweep
from weft.core.states import RUN_TERMINAL

RUNS_MAX = 1  # a sweep is a thousand tasks: one a transaction is enough


def tidy(draft: Draft, run_no: int | None) -> Rule:
    """True if something is left for a next time."""
    sweeping, unsettled = yield (RunsToSweep(RUNS_MAX, run_no), UnsettledTasks(SETTLE_MAX, run_no))
    more = False
    for run in draft.add_loaded_runs(sweeping):
        more = more or (yield from _sweep(draft, run.no))
    tasks = [t for t in draft.add_loaded(unsettled) if not t.settled]
    if tasks:
        missing = sorted({t.run_no for t in tasks if t.run_no not in draft.runs})
        if missing:
            (runs,) = yield (Runs(missing),)
            draft.add_loaded_runs(runs)
        yield from settle(draft, tasks)
        more = True
    return (yield from work_on_children(draft, run_no)) or more


def _sweep(draft: Draft, run_no: int) -> Rule:
    run = draft.runs[run_no]
    if run.state in RUN_TERMINAL:
        return False
    if run.deadline_at is not None and run.deadline_at <= draft.now:
        if run.stop is None:
            ended = yield from stop_run(draft, run, "timeout", "the run's timeout passed")
        else:
            ended = yield from end_handlers(draft, run)
    elif run.sweep is not None:
        reason = run.reason or "it was stopped"
        ended = yield from sweep(draft, run, reason if run.stop else f"the run was halted: {reason}")
    else:
        return False
    yield from settle(draft, ended)
    if run.sweep is None:
        yield from admit(draft)
    return run.sweep is not None
