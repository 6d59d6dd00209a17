"""From a claim to what an executor starts: the directory, the environment, the resolved text."""

import hashlib
import os
from typing import Any

import msgspec

from weft.core.commands import Claim, Report
from weft.core.expressions import compile_shell, resolve_value
from weft.core.rows import RecordRow
from weft.core.workflow import TaskDef, Workflow
from weft.executors.protocol import Ask, Launch, Outcome
from weft.node.ports import NodeSettings, RunFacts

#: Weft's own variables, which differ from attempt to attempt: no result depends on them, but for the index.
OWN_VARIABLES = ("WEFT_RUN_ID", "WEFT_TASK", "WEFT_ATTEMPT", "WEFT_INDEX", "WEFT_IDEMPOTENCY_KEY")


def make_launch(
    claim: Claim,
    facts: RunFacts,
    workflow: Workflow,
    settings: NodeSettings,
    names: dict[str, Any] | None,
    ask: Ask | None = None,
) -> Launch:
    """`names` are what templates see; None: the task has none. Raises ExpressionError if one has no value."""
    definition = workflow.tasks[claim.pos]
    name = definition.called(claim.idx)
    root = facts.source or settings.workdir
    env = {**workflow.env, **definition.env}
    spec, cwd = definition.spec, definition.cwd
    if names is not None:
        spec, cwd, env = _resolve(spec, cwd, env, names)
    env["WEFT_RUN_ID"] = facts.id
    env["WEFT_TASK"] = name
    env["WEFT_ATTEMPT"] = str(claim.attempt)
    env["WEFT_INDEX"] = "" if claim.idx < 0 else str(claim.idx)
    env["WEFT_IDEMPOTENCY_KEY"] = f"{facts.id}/{name}"
    return Launch(
        claim.task_id, claim.attempt, facts.id, name, definition.kind, spec, env,
        os.path.join(root, cwd) if cwd else root,
        f"{settings.output_root}/{facts.id}",
        settings.output_max,
        ask,
    )  # fmt: skip


def _resolve(
    spec: dict[str, Any], cwd: str | None, env: dict[str, str], names: dict[str, Any]
) -> tuple[dict[str, Any], str | None, dict[str, str]]:
    """In a shell text a value never enters the text: it becomes a variable. Everywhere else it stands for itself."""
    out = {key: value if key == "run" else resolve_value(value, names) for key, value in spec.items()}
    env = {key: _as_text(value, names) for key, value in env.items()}
    if isinstance(spec.get("run"), str) and spec.get("shell", "sh") in ("sh", "bash"):
        script = compile_shell(spec["run"], spec.get("shell", "sh"))
        out["run"] = script.text
        env |= script.resolve(names)
    if "argv" in spec:
        out["argv"] = [_text(argument) for argument in out["argv"]]
    return out, None if cwd is None else _as_text(cwd, names), env


def _as_text(value: str, names: dict[str, Any]) -> str:
    return _text(resolve_value(value, names)) if "${{" in value else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def make_report(claim: Claim, outcome: Outcome, definition: TaskDef, now: float) -> Report:
    """What the executor saw, as the store shall hear it."""
    kind, error = _meaning(outcome, definition)
    result = _result(outcome)
    return Report(
        claim.task_id, claim.pos, claim.idx, claim.attempt, kind, outcome.exit_code, error,
        None if outcome.started is None else int((now - outcome.started) * 1000),
        int((now - outcome.ended) * 1000),
        result,
        None if result is None else hashlib.sha256(result.encode()).hexdigest()[:32],
        context=outcome.context,
        stopped=outcome.stopped,
    )  # fmt: skip


def report_cached(claim: Claim, record: RecordRow) -> Report:
    """A success without an attempt's own work: the result that a record keeps, its context included."""
    result = {} if record.value is None else msgspec.json.decode(record.value)
    return Report(
        claim.task_id, claim.pos, claim.idx, claim.attempt, "succeeded", result.get("exitCode"),
        result=record.value,
        result_hash=record.hash,
        context=result.get("context"),
        cached={"run": record.run, "task": record.task, "attempt": record.attempt},
    )  # fmt: skip


def _meaning(outcome: Outcome, definition: TaskDef) -> tuple[Any, str | None]:
    if outcome.ok:
        return "succeeded", None
    if outcome.stopped == "timeout":
        return "failed", f"timed out after {(definition.timeout_ms or 0) / 1000:g} s"
    if outcome.stopped == "cancel":
        return "cancelled", "cancelled while it ran"
    if outcome.stopped in ("drain", "lease"):
        return "returned", None
    return "failed", outcome.error or f"exit code {outcome.exit_code}"


def _result(outcome: Outcome) -> str | None:
    body: dict[str, Any] = dict(outcome.result or {})
    if outcome.output is not msgspec.UNSET:
        body["output"] = outcome.output
    if outcome.context:
        body["context"] = outcome.context
    return msgspec.json.encode(body).decode() if body else None
