"""From a claim to what an executor starts: the directory, the environment, the resolved text."""

import hashlib
import os
from typing import Any

import msgspec

from weft.core.artifacts import FILES_KEY, ArtifactReference, KeptFiles
from weft.core.artifacts import KEY as ARTIFACT
from weft.core.commands import Claim, Report, ReportOutcome
from weft.core.definition.field_types.remote_fields import RESOLVED
from weft.core.expressions import ExpressionError, compile_shell, resolve_value
from weft.core.expressions.shell.text import VALUE_BYTES_MAX
from weft.core.rows import MemoRow
from weft.core.workflow import TaskDef, Workflow
from weft.executors.masking import Masker
from weft.executors.protocol import Ask, Launch, Outcome
from weft.node.attempts.env_files import read_env_files
from weft.node.attempts.secrets import Secrets
from weft.node.eligibility import requirements
from weft.node.ports import NodeSettings, RunFacts

_NOTHING: dict[str, Any] = {}
#: Weft's own variables, which differ from attempt to attempt: no result depends on them, but for the index.
OWN_VARIABLES = (
    "WEFT_RUN_ID",
    "WEFT_TASK",
    "WEFT_ATTEMPT",
    "WEFT_INDEX",
    "WEFT_IDEMPOTENCY_KEY",
    "WEFT_WORKSPACE",
    "WEFT_FILES",
)
#: Kinds of tasks that start in the workspace of their run. Engines and services do not see it.
IN_WORKSPACE = ("shell", "python", "agent")
#: Kinds of tasks whose commands run in a container.
CONTAINERS = ("container", "kubernetes")
#: What an engine enforces of what was reserved.
LIMITS = ("memory", "cpus", "gpu")


def make_launch(
    claim: Claim,
    facts: RunFacts,
    workflow: Workflow,
    settings: NodeSettings,
    names: dict[str, Any] | None,
    secrets: Secrets,
    ask: Ask | None = None,
) -> Launch:
    """`names` are what templates see; None: none. Raises ExpressionError, MissingSecret or EnvFileError."""
    definition = workflow.tasks[claim.pos]
    attempt, idx, run_id = claim.attempt, claim.idx, facts.id
    name = definition.name if idx < 0 else definition.called(idx)
    root = facts.source or settings.workdir
    spec, cwd, env = definition.spec, definition.cwd, workflow.env
    if not definition.plain:
        spec, cwd, env = _resolved(definition, env, root, names)
    env = {
        **env, "WEFT_RUN_ID": run_id, "WEFT_TASK": name, "WEFT_ATTEMPT": str(attempt),
        "WEFT_INDEX": "" if idx < 0 else str(idx), "WEFT_IDEMPOTENCY_KEY": f"{run_id}/{name}",
    }  # fmt: skip
    launch = Launch(
        claim.task_id, attempt, run_id, name, definition.kind, spec, env, os.path.join(root, cwd) if cwd else root,
        f"{settings.output_root}/{run_id}", settings.output_max, ask=ask, source=facts.source,
    )  # fmt: skip
    if not definition.plain:
        if workflow.workspace or definition.files or definition.artifacts:
            _set_directories(launch, workflow, definition, settings, root, cwd, names)
        _complete(launch, definition, claim, root)
    if workflow.secrets or secrets.hidden:
        _add_secrets(launch, workflow, definition, secrets)
    return launch


def _resolved(
    definition: TaskDef, env: dict[str, str], root: str, names: dict[str, Any] | None
) -> tuple[dict[str, Any], str | None, dict[str, str]]:
    """Its spec, directory and variables, with values in place of templates; `env` is the workflow's."""
    spec, cwd = definition.spec, definition.cwd
    env = {**env, **definition.env, **_inside_of(definition).get("env", {})}
    if definition.secrets:
        spec = _with_marks(spec, definition)
    if names is not None:
        spec, cwd, env = resolve_launch(spec, cwd, env, names)
    if definition.env_files:
        env = {**_from_files(definition, root, names), **env}
    return spec, cwd, env


def _inside_of(definition: TaskDef) -> dict[str, Any]:
    """What it says of its container."""
    inside: dict[str, Any] = definition.spec[definition.kind] if definition.kind in CONTAINERS else _NOTHING
    return inside


def _complete(launch: Launch, definition: TaskDef, claim: Claim, root: str) -> None:
    spec = launch.spec
    if "interpreter" in spec:
        launch.spec = {**spec, "interpreter": os.path.join(root, spec["interpreter"])}
    if definition.requires:
        required = requirements(definition, claim)
        launch.requires = {limit: required[limit] for limit in LIMITS if limit in required}
    if "with" in spec and "function" not in spec and definition.kind in ("shell", *CONTAINERS):
        launch.input = msgspec.json.encode(spec["with"])


def _add_secrets(launch: Launch, workflow: Workflow, definition: TaskDef, secrets: Secrets) -> None:
    launch.hidden = secrets.hidden_from(workflow)
    if definition.secrets:
        launch.secrets = secrets.values(definition.secrets)
    credentials = _inside_of(definition).get("credentials")
    if credentials is not None:
        launch.credentials = secrets.values((credentials,))[credentials]


def _set_directories(
    launch: Launch,
    workflow: Workflow,
    definition: TaskDef,
    settings: NodeSettings,
    root: str,
    cwd: str | None,
    names: dict[str, Any] | None,
) -> None:
    """Of the run's workspace, and of files that tasks keep and get."""
    workspace = f"{settings.workspace_root}/{launch.run_id}"
    if workflow.workspace and launch.kind in IN_WORKSPACE:
        launch.workspace = workspace
        launch.env |= {"WEFT_WORKSPACE": workspace, "WEFT_SOURCE": root}
        if launch.kind != "python":  # which starts where its modules are, and then goes there
            launch.cwd = os.path.join(workspace, cwd) if cwd else workspace
    if definition.files:
        launch.files = launch.env["WEFT_FILES"] = f"{workspace}/.files/{launch.task}.{launch.attempt}"
    launch.artifacts = _paths(definition.artifacts, names)


def _from_files(definition: TaskDef, root: str, names: dict[str, Any] | None) -> dict[str, str]:
    return read_env_files(_paths(definition.env_files, names), root, definition.secrets)


def _paths(written: tuple[str, ...], names: dict[str, Any] | None) -> tuple[str, ...]:
    return written if names is None else tuple(_as_text(path, names) for path in written)


def _with_marks(spec: dict[str, Any], definition: TaskDef) -> dict[str, Any]:
    """Where the texts of a request name secrets: marked before expressions bring values into them."""
    if definition.kind != "http":
        return spec
    from weft.executors.http_call.secret_references import marked_request  # most runs have no such task

    return {"http": marked_request(spec["http"], definition.secrets)}


#: Keys of a spec whose values are resolved in a way of their own.
_UNRESOLVED = ("run", "argv", *CONTAINERS)


def resolve_launch(
    spec: dict[str, Any], cwd: str | None, env: dict[str, str], names: dict[str, Any]
) -> tuple[dict[str, Any], str | None, dict[str, str]]:
    """In a shell text a value never enters the text: it becomes a variable. Everywhere else it stands for itself."""
    out = {key: value if key in _UNRESOLVED else resolve_value(value, names) for key, value in spec.items()}
    env = {key: _checked(_as_text(value, names), value, f"env {key}") for key, value in env.items()}
    if isinstance(spec.get("run"), str) and spec.get("shell", "sh") in ("sh", "bash"):
        script = compile_shell(spec["run"], spec.get("shell", "sh"))
        out["run"] = script.text
        env |= script.resolve(names)
    if "argv" in spec:
        out["argv"] = _arguments(spec["argv"], names, "argv")
    for kind in CONTAINERS:
        if kind in spec:
            out[kind] = _inside(spec[kind], names)
    return out, None if cwd is None else _as_text(cwd, names), env


def _arguments(written: list[str], names: dict[str, Any], where: str) -> list[str]:
    return [_checked(_as_text(text, names), text, where) for text in written]


def _inside(written: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """A container's own command and variables: each value is one argument, or the value of one variable."""
    out = dict(written)
    for key in RESOLVED:
        value = written.get(key)
        if isinstance(value, list):
            out[key] = _arguments(value, names, key)
        elif isinstance(value, dict):
            out[key] = {name: _checked(_as_text(text, names), text, f"env {name}") for name, text in value.items()}
        elif value is not None:
            out[key] = _checked(_as_text(value, names), value, key)
    return out


def _as_text(value: str, names: dict[str, Any]) -> str:
    return _text(resolve_value(value, names)) if "${{" in value else value


def _checked(text: str, written: str, where: str) -> str:
    """A variable or an argument of 128 KiB is refused by Linux, and the error would name neither."""
    if "${{" not in written:
        return text
    if "\0" in text:
        raise ExpressionError(f"{where}: this value holds a NUL character, which no command can be given")
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > VALUE_BYTES_MAX:
        raise ExpressionError(
            f"{where}: this value has {size:,} bytes; at most {VALUE_BYTES_MAX:,} fit into the environment",
            fix="put it under `with`, and read it from the JSON file $WEFT_INPUT",
        )
    return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def make_report(
    claim: Claim,
    outcome: Outcome,
    definition: TaskDef,
    artifact: ArtifactReference | None = None,
    files: KeptFiles | None = None,
) -> Report:
    """What the executor saw, as the store shall hear it. An `artifact` stands for the output."""
    lasted_ms = None if outcome.started is None else int((outcome.ended - outcome.started) * 1000)
    bare = not outcome.result and outcome.output is msgspec.UNSET and not outcome.context
    bare = bare and artifact is None and files is None
    if bare and outcome.ok:
        return Report(
            claim.task_id, claim.pos, claim.idx, claim.attempt, "succeeded", outcome.exit_code, None, lasted_ms,
            stopped=outcome.stopped,
        )  # fmt: skip
    kind: ReportOutcome
    kind, error = ("succeeded", None) if outcome.ok else _meaning(outcome, definition)
    result = None if bare else _result(outcome, artifact, files if outcome.ok else None)
    return Report(
        claim.task_id, claim.pos, claim.idx, claim.attempt, kind, outcome.exit_code, error, lasted_ms,
        result=result,
        result_hash=None if result is None else hashlib.sha256(result.encode()).hexdigest()[:32],
        context=outcome.context,
        stopped=outcome.stopped,
        cause=outcome.cause,
        retryable=outcome.retryable,
        retry_after_ms=None if outcome.retry_after_s is None else int(outcome.retry_after_s * 1000),
        error_type=None if outcome.ok else _error_type(outcome),
    )  # fmt: skip


def _error_type(outcome: Outcome) -> str | None:
    """The exception that a function raised."""
    error = (outcome.result or {}).get("error")
    return error.get("type") if isinstance(error, dict) else None


def take_context_update(outcome: Outcome) -> None:
    """`context_update` in an agent's answer, or in what a task of the long form left, changes the run's context. A
    command that writes no $WEFT_OUTPUT may print it."""
    value = outcome.output
    if value is msgspec.UNSET and (printed := (outcome.result or {}).get("stdout", "")).startswith("{"):
        try:
            value = msgspec.json.decode(printed)
        except msgspec.DecodeError:
            return
    if not isinstance(value, dict) or "context_update" not in value:
        return
    update = value["context_update"]
    if isinstance(update, dict):
        outcome.context = {**(outcome.context or {}), **update}
    else:
        outcome.ok, outcome.error = False, "the context_update in its result is no mapping of keys to values"


def mask_outcome(outcome: Outcome, masker: Masker) -> None:
    """Nothing that an attempt with secrets left goes any further unmasked."""
    try:
        outcome.error = None if outcome.error is None else masker.text(outcome.error)
        outcome.result = masker.value(outcome.result)
        outcome.context = masker.value(outcome.context)
        if outcome.output is not msgspec.UNSET:
            outcome.output = masker.value(outcome.output)
    except RecursionError:
        outcome.ok = False
        outcome.error = "its output is nested too deep for its secrets to be masked in it"
        outcome.result, outcome.output, outcome.context = None, msgspec.UNSET, None


def report_cached(claim: Claim, memo: MemoRow) -> Report:
    """A success without an attempt's own work: the result that a memo keeps, its context included."""
    result = {} if memo.value is None else msgspec.json.decode(memo.value)
    return Report(
        claim.task_id, claim.pos, claim.idx, claim.attempt, "succeeded", result.get("exitCode"),
        result=memo.value,
        result_hash=memo.hash,
        context=result.get("context"),
        cached={"run": memo.run, "task": memo.task, "attempt": memo.attempt},
    )  # fmt: skip


def _meaning(outcome: Outcome, definition: TaskDef) -> tuple[ReportOutcome, str | None]:
    """Of an attempt that did not succeed."""
    if outcome.forgotten:
        return "returned", None  # nothing is known of its end: another attempt begins anew
    if outcome.stopped == "timeout":
        return "failed", f"timed out after {(definition.timeout_ms or 0) / 1000:g} s{_confirmed(outcome)}"
    if outcome.stopped == "cancel":
        return "cancelled", f"cancelled while it ran{_confirmed(outcome)}"
    if outcome.stopped in ("drain", "lease"):
        return "returned", None
    return "failed", outcome.error or f"exit code {outcome.exit_code}"


def _confirmed(outcome: Outcome) -> str:
    """What the engine of a stopped remote attempt said of its end."""
    end = outcome.termination
    if end is None:
        return ""
    if not end.get("verified"):
        return "; its stop was requested, not verified"
    killed = ", killed" if end.get("killed") else ""
    return f"; its engine says that it is gone, {end.get('after_s', 0):.1f} s later{killed}"


def _result(outcome: Outcome, artifact: ArtifactReference | None, files: KeptFiles | None) -> str | None:
    body: dict[str, Any] = dict(outcome.result or {})
    if artifact is not None:
        body[ARTIFACT] = artifact
    elif outcome.output is not msgspec.UNSET:
        body["output"] = outcome.output
    if files is not None:
        body[FILES_KEY] = files
    if outcome.context:
        body["context"] = outcome.context
    if outcome.termination is not None:
        body["termination"] = outcome.termination
    return msgspec.json.encode(body).decode() if body else None
