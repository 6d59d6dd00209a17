"""Starting runs and applying workflows: what requests hold. api/submissions.py carries them out, in batches."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from weft.operations.declare import Request, Resource, header
from weft.operations.errors import REFUSABLE
from weft.operations.examples import DEFINITION
from weft.operations.parameters import WorkflowName
from weft.operations.submission import KEY_MAX, LABEL_NAME_MAX, LABEL_VALUE_MAX, PRIORITY_MAX

resource = Resource("runs")
BATCH_MAX = 1000
SUBMITTABLE = ("conflict", "command_used", "observer", "definition", "inputs", "body")

Calls = dict[Annotated[str, Meta(min_length=1, max_length=1024)], Annotated[str, Meta(min_length=1, max_length=8192)]]
IdempotencyKey = Annotated[
    str, header("Idempotency-Key", min_length=1, max_length=KEY_MAX, description="One run per key, for ever")
]
Source = Annotated[
    str,
    Meta(
        pattern=r"^/[^\x00]*$", max_length=4096,
        description="Where its tasks start: a directory of the nodes. Without it, the server's working directory",
    ),
]  # fmt: skip


class ChildDefinition(Request):
    definition: Any
    format: Literal["yaml", "json"] = "yaml"
    name: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    source: Source | None = None
    calls: Calls | None = None


Children = dict[Annotated[str, Meta(min_length=1, max_length=8192)], ChildDefinition]


class RunRequest(Request):
    """What to run: exactly one of `definition`, `workflow` and `task`."""

    definition: Annotated[
        Any, Meta(description="An object (or a list of commands) as JSON, or a text in YAML (`format`)")
    ] = None
    format: Literal["yaml", "json"] = "yaml"
    workflow: (
        Annotated[str, Meta(min_length=1, max_length=128, description="The name of a workflow that the store knows")]
        | None
    ) = None
    version: (
        Annotated[str, Meta(pattern="^[0-9a-f]{4,64}$", description="Of the workflow; the newest if left out")] | None
    ) = None
    task: Annotated[
        dict[str, Any] | str | None,
        Meta(description="One task alone: what stands under a task's name in a definition"),
    ] = None
    name: (
        Annotated[str, Meta(min_length=1, max_length=64, description="Of a task alone, or a definition without one")]
        | None
    ) = None
    inputs: Annotated[dict[str, Any], Meta(description="Values of the inputs that the workflow declares")] = (
        msgspec.field(default_factory=dict)
    )
    priority: Annotated[int, Meta(ge=0, le=PRIORITY_MAX, description="Higher goes first")] = 0
    max_parallel: (
        Annotated[int, Meta(ge=0, le=1_000_000, description="At most so many tasks of the run at a time")] | None
    ) = None
    labels: dict[
        Annotated[str, Meta(min_length=1, max_length=LABEL_NAME_MAX)],
        Annotated[str, Meta(max_length=LABEL_VALUE_MAX)],
    ] = msgspec.field(default_factory=dict)
    key: (
        Annotated[
            str,
            Meta(
                min_length=1, max_length=KEY_MAX,
                description="Idempotency: one run per key. The header Idempotency-Key says the same",
            ),
        ]
        | None
    ) = None  # fmt: skip
    source: Source | None = None
    fresh: Annotated[bool, Meta(description="Run tasks with `cache` all the same")] = False
    manual_advance: Annotated[bool, Meta(description="Stop after each level until the run is advanced")] = False
    children: Annotated[Children, Meta(description="Workflows that tasks name by file or flow, by a key")] = (
        msgspec.field(default_factory=dict)
    )
    calls: Annotated[
        Calls | None, Meta(description="Which key of `children` the words of tasks mean, if they are not the key")
    ] = None


class SubmitRunRequest(RunRequest):
    """What to run: exactly one of `definition`, `workflow` and `task`."""

    idempotency_key: IdempotencyKey | None = None


class Started(msgspec.Struct, kw_only=True):
    """`existing`: there was a run with this key already, and it is this one. `warnings`: what it would wait for
    with the nodes that are alive now."""

    run: str
    name: str
    workflow: str
    state: str | None
    existing: bool
    warnings: list[str] = []


submit_run = resource.handwritten(
    "submit_run", "POST", "/v1/runs",
    """
    Start a run: of a definition, of a workflow that the store knows, or of one task alone.

    201: a new run. 200: there was one with this key, and it is this one.
    """,
    role="operator", request=SubmitRunRequest, reply=Started, statuses=(201, 200), errors=("not_found", *SUBMITTABLE),
    example={"definition": {"name": "hello", "tasks": {"a": {"run": "echo hello"}}}, "priority": 5, "key": "hello-1"},
)  # fmt: skip


class SubmitTaskRequest(Request):
    idempotency_key: IdempotencyKey | None = None


submit_task = resource.handwritten(
    "submit_task", "POST", "/v1/tasks",
    "Run one task alone. The body is what stands under a task's name in a definition: `{\"run\": \"make\"}`.",
    role="operator", request=SubmitTaskRequest, reply=Started, statuses=(201, 200), errors=SUBMITTABLE,
    body=dict[str, Any], example={"run": "make", "timeout": "10m", "retry": {"max": 2}},
)  # fmt: skip


class SubmitRunsRequest(Request):
    runs: Annotated[list[RunRequest], Meta(min_length=1, max_length=BATCH_MAX)]


class BatchItem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One run of a batch: started, or why not."""

    run: str | None = None
    existing: bool = False
    warnings: list[str] = []  # what it would wait for with the nodes that are alive now
    code: str | None = None
    detail: str | None = None
    errors: list[dict[str, Any]] | None = None


class Batch(msgspec.Struct, kw_only=True):
    """In the order of the request."""

    runs: list[BatchItem]
    started: int
    refused: int


submit_runs = resource.handwritten(
    "submit_runs", "POST", "/v1/runs:batch",
    "Start many runs in one transaction. A mistake in one is reported in its place and stops no other.",
    role="operator", request=SubmitRunsRequest, reply=Batch, errors=("command_used", "observer"),
    example={"runs": [{"workflow": "nightly", "inputs": {"day": "2026-01-31"}}, {"task": {"run": "make"}}]},
)  # fmt: skip


class ApplyWorkflowRequest(Request):
    name: WorkflowName
    definition: Annotated[Any, Meta(description="An object as JSON, or a text in YAML (`format`)")]
    format: Literal["yaml", "json"] = "yaml"
    source: Source | None = None
    preview: Annotated[bool, Meta(description="Only say what would change")] = False


class AppliedWorkflow(msgspec.Struct, kw_only=True):
    """`existing`: this version was the current one already. What changed about its triggers, by their names; with a
    preview also `lines`, a unified diff from the current version to this one."""

    workflow: str
    hash: str
    existing: bool
    triggers: int
    added: list[str]
    changed: list[str]
    removed: list[str]
    lines: list[str] = []


apply_workflow = resource.handwritten(
    "apply_workflow", "PUT", "/v1/workflows/{name}",
    "Make this the current version of a workflow, and its triggers the active ones. Runs under way keep theirs.",
    role="admin", request=ApplyWorkflowRequest, reply=AppliedWorkflow, errors=(*REFUSABLE, "definition"),
    example={"definition": DEFINITION},
)  # fmt: skip
