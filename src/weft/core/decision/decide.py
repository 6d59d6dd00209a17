"""The one door to state: a command goes in, a decision comes out.

`decide` gives a rule: a generator that yields the rows it needs, is sent them, and changes only the draft. Whoever
drives it (the committer, a test, the simulation) loads, and writes the draft when the rule has returned.
"""

from collections.abc import Callable
from typing import Any

from weft.core import commands as c
from weft.core.decision.draft import Draft, Rule
from weft.core.rules.apply import apply, pause_trigger
from weft.core.rules.backfill import cancel_backfill, start_backfill, step_backfill
from weft.core.rules.budgets import change_limit
from weft.core.rules.deadlines import check_starts, report_late
from weft.core.rules.exchange import exchange
from weft.core.rules.fire import fire
from weft.core.rules.handles import close_handles, open_handle, release_task
from weft.core.rules.leader import lead, resign
from weft.core.rules.liveness import overdue, reconcile
from weft.core.rules.memos import once
from weft.core.rules.notifications import begin_delivery, end_delivery, retry_notifications, set_notify_default
from weft.core.rules.place import place
from weft.core.rules.pools import set_pool
from weft.core.rules.repair import correct_run, decide_tasks, pause_run
from weft.core.rules.run_commands import advance, cancel_run, cancel_task, prune, resume
from weft.core.rules.sessions import drain, expire, register
from weft.core.rules.settle import settle
from weft.core.rules.submit import submit
from weft.core.rules.tidy import tidy
from weft.core.rules.tokens import create_token, revoke_token
from weft.core.rules.waits import signal


def _tidy(draft: Draft, command: c.Tidy) -> Rule:
    more = yield from tidy(draft, command.run_no)
    yield from settle(draft, [])
    return c.Reply(more=more)


def _signal(draft: Draft, command: c.Signal) -> Rule:
    outcome = yield from signal(draft, command)
    if isinstance(outcome, c.Reply):
        return outcome
    run, ended = outcome
    yield from settle(draft, ended)
    return c.Reply(run.id, run.no, run.state, changed=len(ended))


def _set_budget(draft: Draft, command: c.SetBudget) -> Rule:
    run = yield from change_limit(draft, command)
    yield from settle(draft, [])
    return c.Reply(run.id, run.no, run.state, changed=1)


RULES: dict[type, Callable[[Draft, Any], Rule]] = {
    c.Exchange: exchange,
    c.Once: once,
    c.Register: register,
    c.Expire: expire,
    c.Lead: lead,
    c.Resign: resign,
    c.Drain: drain,
    c.Reconcile: reconcile,
    c.Overdue: overdue,
    c.Submit: submit,
    c.Advance: advance,
    c.CancelRun: cancel_run,
    c.CancelTask: cancel_task,
    c.CorrectRun: correct_run,
    c.DecideTasks: decide_tasks,
    c.PauseRun: pause_run,
    c.Resume: resume,
    c.Signal: _signal,
    c.Prune: prune,
    c.Tidy: _tidy,
    c.SetPool: set_pool,
    c.SetBudget: _set_budget,
    c.Place: place,
    c.Apply: apply,
    c.PauseTrigger: pause_trigger,
    c.Fire: fire,
    c.StartBackfill: start_backfill,
    c.StepBackfill: step_backfill,
    c.CancelBackfill: cancel_backfill,
    c.CreateToken: create_token,
    c.RevokeToken: revoke_token,
    c.OpenHandle: open_handle,
    c.CloseHandles: close_handles,
    c.ReleaseTask: release_task,
    c.ReportLate: report_late,
    c.CheckStarts: check_starts,
    c.BeginDelivery: begin_delivery,
    c.EndDelivery: end_delivery,
    c.RetryNotifications: retry_notifications,
    c.SetNotifyDefault: set_notify_default,
}


def decide(draft: Draft, command: c.Command) -> Rule:
    return RULES[type(command)](draft, command)
