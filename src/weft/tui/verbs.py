"""One key per verb: on which rows it is there, what it asks before, and what it does.

A verb needs the role of its operation; what the token may not do is not offered.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from weft.cli.terminal.formats import counted
from weft.client.verbs import Connection
from weft.core.states import TERMINAL
from weft.operations.declare import Operation
from weft.operations.replies import NodeInfo, RunInfo, TaskInfo, TriggerInfo
from weft.operations.resources import definitions, nodes, repair, run_changes, triggers
from weft.tui.graph_lines import GraphLine

DRAIN_MS: Final = 60_000
AGAIN_SHOWN: Final = 8  # names of tasks that would run again
NOT_STARTED: Final = frozenset(("pending", "queued", "scheduled", "waiting"))


class RunTask(NamedTuple):
    """A task of a run, as verbs see it."""

    run: RunInfo
    task: GraphLine
    signal: str | None = None  # that answers it, if it is a wait for one


Subject = RunInfo | RunTask | NodeInfo | TriggerInfo | TaskInfo


class Verb(NamedTuple):
    key: str
    name: str
    operation: Operation[Any, Any]
    on: type
    when: Callable[[Any], bool]
    act: Callable[[Connection, Any, str], str]  # what to say when it is done
    confirm: Callable[[Any], str] | None = None  # the question before something is stopped or started
    ask: str | None = None  # the question whose answer it needs
    edit: Callable[[Connection, Any], str] | None = None  # the text whose edited form it needs
    preview: Callable[[Connection, Any, str], str] | None = None  # the question once the text is edited


def _tasks(count: int) -> str:
    return counted(count, "task")


def _of(subject: Any) -> str:
    if isinstance(subject, RunInfo):
        return f"{subject.name} ({subject.id})"
    if isinstance(subject, RunTask):
        return subject.task.title
    return str(getattr(subject, "node" if isinstance(subject, NodeInfo) else "id"))


def _cancel_run(connection: Connection, run: RunInfo, answer: str) -> str:
    done = connection.cancel(run.id)
    return f"{run.id} is {'stopping' if done.state == 'running' else done.state}"


def _resume(connection: Connection, run: RunInfo, answer: str) -> str:
    return f"{run.id} goes on: {_tasks(connection.resume(run.id).changed)}"


def _definition(connection: Connection, run: RunInfo) -> str:
    return connection.call(definitions.export_document, definitions.ExportDocumentRequest(hash=run.workflow)).text


def _would_correct(connection: Connection, run: RunInfo, text: str) -> str:
    planned = connection.correct(run.id, text, preview=True)
    again = ", ".join(planned.again[:AGAIN_SHOWN]) + (", …" if len(planned.again) > AGAIN_SHOWN else "")
    return (
        f"Go on with it? {_tasks(len(planned.again))} would run again ({again}), {planned.kept} keep their results."
    )


def _correct(connection: Connection, run: RunInfo, text: str) -> str:
    return f"{run.id} goes on with the corrected definition: {_tasks(len(connection.correct(run.id, text).again))}"


def _rerun(connection: Connection, run: RunInfo, answer: str) -> str:
    inputs = msgspec.json.decode(answer, type=dict[str, Any]) if answer.strip() else None
    return f"new run {connection.rerun(run.id, inputs=inputs).run}"


def _pause(connection: Connection, run: RunInfo, answer: str) -> str:
    connection.pause(run.id)
    return f"{run.id} is paused: nothing more starts"


def _unpause(connection: Connection, run: RunInfo, answer: str) -> str:
    connection.unpause(run.id)
    return f"{run.id} goes on"


def _advance(connection: Connection, run: RunInfo, answer: str) -> str:
    connection.advance(run.id)
    return f"{run.id} goes on to the next level"


def _retry_run(connection: Connection, run: RunInfo, answer: str) -> str:
    return f"{run.id}: {_tasks(connection.retry_dead(run.id).changed)} again"


def _retry_task(connection: Connection, of: RunTask, answer: str) -> str:
    return f"{of.task.name}: {_tasks(connection.retry_dead(of.run.id, [of.task.name]).changed)} again"


def _retry_dead(connection: Connection, task: TaskInfo, answer: str) -> str:
    return f"{task.name}: {_tasks(connection.retry_dead(task.run_id, [task.name]).changed)} again"


def _cancel_task(connection: Connection, of: RunTask, answer: str) -> str:
    connection.cancel(of.run.id, of.task.name)
    return f"{of.task.name} is stopped"


def _skip(connection: Connection, of: RunTask, answer: str) -> str:
    connection.skip(of.run.id, [of.task.name])
    return f"{of.task.name} is skipped"


def _mark(connection: Connection, of: RunTask, answer: str) -> str:
    output = msgspec.json.decode(answer) if answer.strip() else None
    connection.mark(of.run.id, [of.task.name], output)
    return f"{of.task.name} counts as succeeded"


def _signal(connection: Connection, of: RunTask, answer: str) -> str:
    data = msgspec.json.decode(answer) if answer.strip() else None
    connection.signal(of.run.id, of.signal or of.task.name, data)
    return f"{of.task.name} is answered"


def _reject(connection: Connection, of: RunTask, answer: str) -> str:
    connection.signal(of.run.id, of.signal or of.task.name, reject=answer.strip() or "rejected")
    return f"{of.task.name} is rejected"


def _drain(connection: Connection, node: NodeInfo, answer: str) -> str:
    done = connection.drain(node.session, DRAIN_MS)
    return f"{node.node} claims nothing more; {_tasks(done.running)} may end within a minute"


def _pause_trigger(connection: Connection, trigger: TriggerInfo, answer: str) -> str:
    connection.pause_trigger(trigger.id, paused=not trigger.paused)
    return f"{trigger.id} {'fires again' if trigger.paused else 'is paused'}"


def _fire(connection: Connection, trigger: TriggerInfo, answer: str) -> str:
    done = connection.fire(trigger.id)
    return f"{trigger.id}: {done.outcome}" + (f", run {done.run}" if done.run else "")


def _decidable(of: RunTask) -> bool:
    """By hand: whole tasks that have not started, or that did not succeed in a run that has ended."""
    if of.task.idx >= 0:
        return False
    return of.task.state in NOT_STARTED or (of.run.finished and of.task.state != "succeeded")


def _answerable(of: RunTask) -> bool:
    return of.task.state == "waiting" and of.signal is not None


VERBS: Final = (
    Verb("c", "cancel", run_changes.cancel_run, RunInfo, lambda run: not run.finished, _cancel_run,
         lambda run: f"Cancel {_of(run)}? What runs is stopped, {_tasks(run.open)} will not run."),
    Verb("r", "resume", run_changes.resume_run, RunInfo,
         lambda run: run.state in ("failed", "cancelled"), _resume,
         lambda run: f"Resume {_of(run)}? What did not succeed runs again."),
    Verb("e", "correct", repair.correct_run, RunInfo, lambda run: run.finished, _correct, edit=_definition,
         preview=_would_correct),
    Verb("n", "rerun", run_changes.rerun_run, RunInfo, lambda run: True, _rerun,
         ask="Start a new run like it. Inputs that change, as a JSON object; empty: none"),
    Verb("p", "pause", repair.pause_run, RunInfo, lambda run: not run.finished and not run.paused, _pause),
    Verb("p", "unpause", repair.unpause_run, RunInfo, lambda run: not run.finished and run.paused, _unpause),
    Verb("a", "advance", run_changes.advance_run, RunInfo,
         lambda run: run.advance_state is not None and not run.finished, _advance),
    Verb("t", "retry dead", run_changes.retry_dead, RunInfo, lambda run: run.finished and run.dead_letter > 0,
         _retry_run, lambda run: f"Run {_tasks(run.dead_letter)} of {_of(run)} again that used up their retries?"),
    Verb("c", "cancel task", run_changes.cancel_task, RunTask, lambda of: of.task.state not in TERMINAL, _cancel_task,
         lambda of: f"Cancel {_of(of)}? What needs it is treated as after a failure."),
    Verb("t", "retry", run_changes.retry_dead, RunTask,
         lambda of: of.task.state == "dead_letter" and of.run.finished, _retry_task,
         lambda of: f"Run {_of(of)} again, with new retries, and then what needs it?"),
    Verb("s", "skip", repair.skip_tasks, RunTask, _decidable, _skip,
         lambda of: f"Skip {_of(of)}, as if its condition were false?"),
    Verb("m", "mark", repair.mark_tasks, RunTask, _decidable, _mark,
         ask="Let it count as succeeded. Its output, as JSON; empty: none"),
    Verb("g", "signal", run_changes.signal_run, RunTask, _answerable, _signal,
         ask="Answer the wait. Data, as JSON; empty: none"),
    Verb("j", "reject", run_changes.signal_run, RunTask, _answerable, _reject, ask="Reject it. The reason"),
    Verb("t", "retry", run_changes.retry_dead, TaskInfo, lambda task: True, _retry_dead,
         lambda task: f"Run {task.title} of {task.run_id} again, and then what needs it?"),
    Verb("d", "drain", nodes.drain_node, NodeInfo, lambda node: node.health in ("healthy", "stale"), _drain,
         lambda node: f"Drain {_of(node)}? It claims nothing more, and what still runs goes back after a"
                      " minute."),
    Verb("p", "pause", triggers.pause_trigger, TriggerInfo, lambda trigger: not trigger.paused, _pause_trigger),
    Verb("p", "unpause", triggers.resume_trigger, TriggerInfo, lambda trigger: trigger.paused, _pause_trigger),
    Verb("f", "fire", triggers.fire_trigger, TriggerInfo, lambda trigger: True, _fire,
         lambda trigger: f"Fire {_of(trigger)} now? It starts a run."),
)  # fmt: skip


def offered(subject: Any, may: Callable[[Any], bool]) -> list[Verb]:
    """What can be done with this, by a caller with these rights."""
    mine = [verb for verb in VERBS if isinstance(subject, verb.on) and may(verb.operation.role)]
    return [verb for verb in mine if verb.when(subject)]
