"""Tools that start something, and those that look at a definition before it is started."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from weft.authoring.errors import DefinitionErrors
from weft.client.plan import plan_of
from weft.core.definition.inputs import resolve_inputs
from weft.mcp import arguments as a
from weft.mcp import replies as r
from weft.mcp.definition_language import outline_schema
from weft.mcp.tools import RequestContext, Tools
from weft.operations.errors import ApiError, bad_inputs
from weft.operations.parameters import WorkflowName
from weft.operations.resources.definitions import DefinitionMistake
from weft.operations.resources.submissions import AppliedWorkflow, ApplyWorkflowRequest, RunRequest, Source
from weft.operations.submission import LABEL_NAME_MAX, LABEL_VALUE_MAX

tools = Tools()
MISTAKES_SHOWN = 20
TOLD_MAX = 1000  # characters of one mistake
INPUTS_SHOWN = 100
ALONE = "task"  # what a task without a name is called

#: With the outline of its JSON Schema, 1.6 KB, in the two tools that a definition goes to first.
Definition = Annotated[
    Annotated[dict[str, Any], Meta(extra_json_schema=outline_schema())] | list[Any] | str,
    Meta(
        description="A definition: YAML text (or JSON text, with format: json), or the same as an object. The"
        " resource weft://definitions has all keys"
    ),
]
SameDefinition = Annotated[
    dict[str, Any] | list[Any] | str, Meta(description="A definition, as validate_workflow takes it")
]
Labels = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=LABEL_NAME_MAX)],
        Annotated[str, Meta(max_length=LABEL_VALUE_MAX)],
    ],
    Meta(description="Labels of the run, to find it by"),
]
Parallel = Annotated[int, Meta(ge=1, le=1_000_000, description="At most so many tasks at a time")]
InputValues = Annotated[dict[str, Any], Meta(description="Values of the inputs that the workflow declares")]
Format = Annotated[Literal["yaml", "json"], Meta(description="Of a definition that is a text")]


class SubmitTaskArguments(a.Arguments):
    task: Annotated[
        dict[str, Any] | str,
        Meta(
            description="A shell command, or what stands under a task's name in a definition:"
            ' {"run": "make", "timeout": "10m", "retry": {"max": 2}}'
        ),
    ]
    name: Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$", description="What to call it")] = ALONE
    priority: a.Priority = 0
    key: a.Key | None = None
    source: Source | None = None


@tools(role="operator", destructive=True, open_world=True, scope="submit")
def submit_task(context: RequestContext, request: SubmitTaskArguments) -> r.StartedRun:
    """Run one task alone, durably: a shell command, or a task with retries, a timeout and so on. It returns at once;
    get_task_result waits for the end."""
    body = RunRequest(
        task=request.task, name=request.name, priority=request.priority, key=request.key, source=request.source
    )
    return _started(context, body, request.name)


class SubmitWorkflowArguments(a.Arguments):
    definition: Definition | None = None
    format: Format = "yaml"
    workflow: a.Workflow | None = None
    version: a.Version | None = None
    inputs: InputValues = msgspec.field(default_factory=dict)
    priority: a.Priority = 0
    max_parallel: Parallel | None = None
    labels: Labels = msgspec.field(default_factory=dict)
    key: a.Key | None = None
    source: Source | None = None
    fresh: Annotated[bool, Meta(description="Run tasks with `cache` all the same")] = False


@tools(role="operator", destructive=True, open_world=True, scope="submit")
def submit_workflow(context: RequestContext, request: SubmitWorkflowArguments) -> r.StartedRun:
    """Start a run of a workflow: of a definition request here, or of one that the store knows by name. It returns at
    once; get_workflow_status waits for the end. validate_workflow and preview look at it without running it."""
    body = RunRequest(
        definition=request.definition, format=request.format, workflow=request.workflow, version=request.version,
        inputs=request.inputs, priority=request.priority, max_parallel=request.max_parallel, key=request.key,
        source=request.source, fresh=request.fresh, labels=request.labels,
    )  # fmt: skip
    return _started(context, body, None)


def _started(context: RequestContext, body: RunRequest, task: str | None) -> r.StartedRun:
    command, warnings = context.state.definitions.command(body)
    done = context.connection.submit(command)
    return r.StartedRun(
        run=done.run_id or "", name=command.name, workflow=command.workflow, state=done.state, existing=done.existing,
        task=task, warnings=[r.shortened(text, TOLD_MAX) or "" for text in warnings],
    )  # fmt: skip


class ValidateWorkflowArguments(a.Arguments):
    definition: Definition
    format: Format = "yaml"


@tools(role="viewer", scope="run")
def validate_workflow(context: RequestContext, request: ValidateWorkflowArguments) -> r.Validated:
    """Check a definition without storing or running anything: all mistakes at once, each with its place and fix."""
    try:
        loaded = context.state.definitions.loaded(RunRequest(definition=request.definition, format=request.format))
    except DefinitionErrors as wrong:
        shown = [
            DefinitionMistake(
                message=r.shortened(one.message, TOLD_MAX) or "", fix=r.shortened(one.fix, TOLD_MAX), line=one.line,
                column=one.column, path=r.shortened(one.path),
            )
            for one in wrong.errors[:MISTAKES_SHOWN]
        ]  # fmt: skip
        return r.Validated(valid=False, errors=shown, more=wrong.more + len(wrong.errors) - len(shown))
    workflow = loaded.workflow
    inputs = {name: msgspec.to_builtins(one) for name, one in list(workflow.inputs.items())[:INPUTS_SHOWN]}
    shown_inputs, _ = r.bounded(inputs)
    return r.Validated(
        valid=True, name=workflow.name, hash=workflow.hash, tasks=len(workflow.tasks),
        levels=max(workflow.levels, default=-1) + 1, inputs=shown_inputs or {},
    )  # fmt: skip


class ApplyWorkflowArguments(a.Arguments):
    name: WorkflowName
    definition: SameDefinition
    format: Format = "yaml"
    source: Source | None = None


@tools(role="admin", destructive=True, idempotent=True)
def apply_workflow(context: RequestContext, request: ApplyWorkflowArguments) -> AppliedWorkflow:
    """Store a definition as the current version of a workflow, and make its triggers the active ones. Runs under way
    keep theirs."""
    body = ApplyWorkflowRequest(
        name=request.name, definition=request.definition, format=request.format, source=request.source
    )
    loaded, source = context.state.definitions.applied(body)
    if loaded.workflow.name != request.name:
        raise ApiError("conflict", f"the definition calls itself {loaded.workflow.name!r}", "use one name in both")
    return context.connection.apply(loaded, source, "MCP")


PlanCursor = Annotated[
    str, Meta(pattern="^p[0-9a-f]{12}-[0-9]{1,9}$", description="`next` of the page before, as it is")
]


class PreviewRunArguments(a.Arguments):
    definition: SameDefinition | None = None
    format: Format = "yaml"
    workflow: a.Workflow | None = None
    version: a.Version | None = None
    inputs: InputValues = msgspec.field(default_factory=dict)
    cursor: PlanCursor | None = None
    limit: a.Limit = 30


@tools(role="viewer")
def preview(context: RequestContext, request: PreviewRunArguments) -> r.Preview:
    """Say what a run would do, without running it: its tasks level by level, what each needs, which of the nodes that
    are alive could run it, its inputs with their defaults, and what would hold it up."""
    body = RunRequest(
        definition=request.definition, format=request.format, workflow=request.workflow, version=request.version
    )
    workflow = context.state.definitions.loaded(body).workflow
    values, problems = resolve_inputs(workflow.inputs, request.inputs)
    if problems:
        raise bad_inputs(problems)
    of, _, at = (request.cursor or "").partition("-")
    if request.cursor is not None and of != f"p{workflow.hash[:12]}":
        raise ApiError("cursor", "this cursor is of another definition", "leave it out to begin anew")
    after = int(at or 0)
    plan = plan_of(context.connection, workflow, values, after=after, limit=request.limit)
    inputs, cut = r.bounded(plan.inputs)
    end = after + len(plan.tasks)
    return r.Preview(
        name=plan.name, hash=plan.hash, total=plan.total, levels=plan.levels, widest=plan.widest, nodes=plan.nodes,
        on_failure=plan.on_failure, max_parallel=plan.max_parallel, inputs={"…": cut} if cut else inputs or {},
        problems=[r.shortened(problem, TOLD_MAX) or "" for problem in plan.problems],
        tasks=[_bounded_task(task) for task in plan.tasks],
        next=f"p{plan.hash[:12]}-{end}" if end < plan.total else None,
    )  # fmt: skip


def _bounded_task(task: Any) -> Any:
    """A join of ten thousand tasks is told by its first needs."""
    if len(task.needs) <= a.LIMIT_MAX:
        return task
    more = len(task.needs) - a.LIMIT_MAX
    return msgspec.structs.replace(task, needs=[*task.needs[: a.LIMIT_MAX], f"… and {more:,} more"])
