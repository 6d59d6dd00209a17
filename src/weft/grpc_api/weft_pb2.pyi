from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskSpec(_message.Message):
    __slots__ = ("name", "type", "command", "argv", "env", "cwd", "timeout_ms", "spec_json", "constraints", "retry_policy", "priority", "options_json")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    command: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    cwd: str
    timeout_ms: int
    spec_json: str
    constraints: TaskConstraints
    retry_policy: RetryPolicy
    priority: int
    options_json: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., command: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., cwd: _Optional[str] = ..., timeout_ms: _Optional[int] = ..., spec_json: _Optional[str] = ..., constraints: _Optional[_Union[TaskConstraints, _Mapping]] = ..., retry_policy: _Optional[_Union[RetryPolicy, _Mapping]] = ..., priority: _Optional[int] = ..., options_json: _Optional[str] = ...) -> None: ...

class TaskConstraints(_message.Message):
    __slots__ = ("requires_gpu", "avoid_gaming", "min_memory_mb", "min_disk_gb", "node_labels", "target_node")
    REQUIRES_GPU_FIELD_NUMBER: _ClassVar[int]
    AVOID_GAMING_FIELD_NUMBER: _ClassVar[int]
    MIN_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    MIN_DISK_GB_FIELD_NUMBER: _ClassVar[int]
    NODE_LABELS_FIELD_NUMBER: _ClassVar[int]
    TARGET_NODE_FIELD_NUMBER: _ClassVar[int]
    requires_gpu: bool
    avoid_gaming: bool
    min_memory_mb: float
    min_disk_gb: float
    node_labels: _containers.RepeatedScalarFieldContainer[str]
    target_node: str
    def __init__(self, requires_gpu: _Optional[bool] = ..., avoid_gaming: _Optional[bool] = ..., min_memory_mb: _Optional[float] = ..., min_disk_gb: _Optional[float] = ..., node_labels: _Optional[_Iterable[str]] = ..., target_node: _Optional[str] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("max_retries", "backoff_ms", "backoff_multiplier", "retryable", "max_backoff_ms")
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    max_retries: int
    backoff_ms: int
    backoff_multiplier: float
    retryable: bool
    max_backoff_ms: int
    def __init__(self, max_retries: _Optional[int] = ..., backoff_ms: _Optional[int] = ..., backoff_multiplier: _Optional[float] = ..., retryable: _Optional[bool] = ..., max_backoff_ms: _Optional[int] = ...) -> None: ...

class WorkflowTaskDef(_message.Message):
    __slots__ = ("spec", "depends_on", "condition")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    spec: TaskSpec
    depends_on: _containers.RepeatedScalarFieldContainer[str]
    condition: str
    def __init__(self, spec: _Optional[_Union[TaskSpec, _Mapping]] = ..., depends_on: _Optional[_Iterable[str]] = ..., condition: _Optional[str] = ...) -> None: ...

class SubmitTaskRequest(_message.Message):
    __slots__ = ("spec", "priority", "labels", "source")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    spec: TaskSpec
    priority: int
    labels: _containers.ScalarMap[str, str]
    source: str
    def __init__(self, spec: _Optional[_Union[TaskSpec, _Mapping]] = ..., priority: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., source: _Optional[str] = ...) -> None: ...

class SubmitWorkflowRequest(_message.Message):
    __slots__ = ("name", "tasks", "definition", "workflow", "version", "inputs_json", "priority", "max_parallel", "labels", "source", "fresh", "options_json")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INPUTS_JSON_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    tasks: _containers.RepeatedCompositeFieldContainer[WorkflowTaskDef]
    definition: str
    workflow: str
    version: str
    inputs_json: str
    priority: int
    max_parallel: int
    labels: _containers.ScalarMap[str, str]
    source: str
    fresh: bool
    options_json: str
    def __init__(self, name: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[WorkflowTaskDef, _Mapping]]] = ..., definition: _Optional[str] = ..., workflow: _Optional[str] = ..., version: _Optional[str] = ..., inputs_json: _Optional[str] = ..., priority: _Optional[int] = ..., max_parallel: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., source: _Optional[str] = ..., fresh: _Optional[bool] = ..., options_json: _Optional[str] = ...) -> None: ...

class Submitted(_message.Message):
    __slots__ = ("run", "name", "workflow", "state", "existing", "warnings")
    RUN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXISTING_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    run: str
    name: str
    workflow: str
    state: str
    existing: bool
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run: _Optional[str] = ..., name: _Optional[str] = ..., workflow: _Optional[str] = ..., state: _Optional[str] = ..., existing: _Optional[bool] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class GetTaskStatusRequest(_message.Message):
    __slots__ = ("run", "task")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    run: str
    task: str
    def __init__(self, run: _Optional[str] = ..., task: _Optional[str] = ...) -> None: ...

class TaskDetails(_message.Message):
    __slots__ = ("task", "attempts")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    task: TaskStatus
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    def __init__(self, task: _Optional[_Union[TaskStatus, _Mapping]] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ...) -> None: ...

class TaskStatus(_message.Message):
    __slots__ = ("run_id", "name", "state", "kind", "needs", "generation", "attempt", "failures", "lost", "elements", "ready_at", "wake_at", "claimed_at", "started_at", "finished_at", "reason", "node", "exit_code", "allow_failure", "label", "child")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    READY_AT_FIELD_NUMBER: _ClassVar[int]
    WAKE_AT_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ALLOW_FAILURE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    CHILD_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    name: str
    state: str
    kind: str
    needs: _containers.RepeatedScalarFieldContainer[str]
    generation: int
    attempt: int
    failures: int
    lost: int
    elements: int
    ready_at: int
    wake_at: int
    claimed_at: int
    started_at: int
    finished_at: int
    reason: str
    node: str
    exit_code: int
    allow_failure: bool
    label: str
    child: str
    def __init__(self, run_id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., kind: _Optional[str] = ..., needs: _Optional[_Iterable[str]] = ..., generation: _Optional[int] = ..., attempt: _Optional[int] = ..., failures: _Optional[int] = ..., lost: _Optional[int] = ..., elements: _Optional[int] = ..., ready_at: _Optional[int] = ..., wake_at: _Optional[int] = ..., claimed_at: _Optional[int] = ..., started_at: _Optional[int] = ..., finished_at: _Optional[int] = ..., reason: _Optional[str] = ..., node: _Optional[str] = ..., exit_code: _Optional[int] = ..., allow_failure: _Optional[bool] = ..., label: _Optional[str] = ..., child: _Optional[str] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("run_id", "task", "attempt", "generation", "outcome", "exit_code", "error", "claimed_at", "started_at", "finished_at", "node", "session", "result_json")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    task: str
    attempt: int
    generation: int
    outcome: str
    exit_code: int
    error: str
    claimed_at: int
    started_at: int
    finished_at: int
    node: str
    session: str
    result_json: str
    def __init__(self, run_id: _Optional[str] = ..., task: _Optional[str] = ..., attempt: _Optional[int] = ..., generation: _Optional[int] = ..., outcome: _Optional[str] = ..., exit_code: _Optional[int] = ..., error: _Optional[str] = ..., claimed_at: _Optional[int] = ..., started_at: _Optional[int] = ..., finished_at: _Optional[int] = ..., node: _Optional[str] = ..., session: _Optional[str] = ..., result_json: _Optional[str] = ...) -> None: ...

class GetWorkflowStatusRequest(_message.Message):
    __slots__ = ("run", "tasks")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    run: str
    tasks: int
    def __init__(self, run: _Optional[str] = ..., tasks: _Optional[int] = ...) -> None: ...

class WorkflowStatus(_message.Message):
    __slots__ = ("id", "name", "state", "task_statuses", "context_json", "run", "next", "last_event")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TASK_STATUSES_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_JSON_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    state: str
    task_statuses: _containers.RepeatedCompositeFieldContainer[TaskStatus]
    context_json: str
    run: Workflow
    next: str
    last_event: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., task_statuses: _Optional[_Iterable[_Union[TaskStatus, _Mapping]]] = ..., context_json: _Optional[str] = ..., run: _Optional[_Union[Workflow, _Mapping]] = ..., next: _Optional[str] = ..., last_event: _Optional[int] = ...) -> None: ...

class Workflow(_message.Message):
    __slots__ = ("id", "name", "workflow", "state", "generation", "priority", "created_at", "started_at", "finished_at", "reason", "total", "succeeded", "failed", "dead_letter", "cancelled", "skipped", "active", "open", "inputs_json", "labels", "key", "paused", "late", "parent")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    INPUTS_JSON_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    workflow: str
    state: str
    generation: int
    priority: int
    created_at: int
    started_at: int
    finished_at: int
    reason: str
    total: int
    succeeded: int
    failed: int
    dead_letter: int
    cancelled: int
    skipped: int
    active: int
    open: int
    inputs_json: str
    labels: _containers.ScalarMap[str, str]
    key: str
    paused: bool
    late: bool
    parent: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., workflow: _Optional[str] = ..., state: _Optional[str] = ..., generation: _Optional[int] = ..., priority: _Optional[int] = ..., created_at: _Optional[int] = ..., started_at: _Optional[int] = ..., finished_at: _Optional[int] = ..., reason: _Optional[str] = ..., total: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., dead_letter: _Optional[int] = ..., cancelled: _Optional[int] = ..., skipped: _Optional[int] = ..., active: _Optional[int] = ..., open: _Optional[int] = ..., inputs_json: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., key: _Optional[str] = ..., paused: _Optional[bool] = ..., late: _Optional[bool] = ..., parent: _Optional[str] = ...) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ("state", "type", "workflow", "node", "cursor", "limit")
    STATE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    state: _containers.RepeatedScalarFieldContainer[str]
    type: _containers.RepeatedScalarFieldContainer[str]
    workflow: str
    node: str
    cursor: str
    limit: int
    def __init__(self, state: _Optional[_Iterable[str]] = ..., type: _Optional[_Iterable[str]] = ..., workflow: _Optional[str] = ..., node: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListWorkflowTasksRequest(_message.Message):
    __slots__ = ("run", "state", "type", "node", "elements_of", "cursor", "limit")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_OF_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run: str
    state: _containers.RepeatedScalarFieldContainer[str]
    type: _containers.RepeatedScalarFieldContainer[str]
    node: str
    elements_of: str
    cursor: str
    limit: int
    def __init__(self, run: _Optional[str] = ..., state: _Optional[_Iterable[str]] = ..., type: _Optional[_Iterable[str]] = ..., node: _Optional[str] = ..., elements_of: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class TaskPage(_message.Message):
    __slots__ = ("tasks", "next")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskStatus]
    next: str
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskStatus, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class ListWorkflowsRequest(_message.Message):
    __slots__ = ("state", "name", "label", "since", "until", "text", "children", "cursor", "limit")
    STATE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    state: _containers.RepeatedScalarFieldContainer[str]
    name: str
    label: _containers.RepeatedScalarFieldContainer[str]
    since: int
    until: int
    text: str
    children: bool
    cursor: str
    limit: int
    def __init__(self, state: _Optional[_Iterable[str]] = ..., name: _Optional[str] = ..., label: _Optional[_Iterable[str]] = ..., since: _Optional[int] = ..., until: _Optional[int] = ..., text: _Optional[str] = ..., children: _Optional[bool] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class WorkflowPage(_message.Message):
    __slots__ = ("runs", "next")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Workflow]
    next: str
    def __init__(self, runs: _Optional[_Iterable[_Union[Workflow, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class CancelTaskRequest(_message.Message):
    __slots__ = ("run", "task", "reason")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    run: str
    task: str
    reason: str
    def __init__(self, run: _Optional[str] = ..., task: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CancelWorkflowRequest(_message.Message):
    __slots__ = ("run", "reason", "now")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    run: str
    reason: str
    now: bool
    def __init__(self, run: _Optional[str] = ..., reason: _Optional[str] = ..., now: _Optional[bool] = ...) -> None: ...

class ResumeWorkflowRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class SignalWorkflowRequest(_message.Message):
    __slots__ = ("run", "name", "data_json", "reject")
    RUN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    REJECT_FIELD_NUMBER: _ClassVar[int]
    run: str
    name: str
    data_json: str
    reject: str
    def __init__(self, run: _Optional[str] = ..., name: _Optional[str] = ..., data_json: _Optional[str] = ..., reject: _Optional[str] = ...) -> None: ...

class Changed(_message.Message):
    __slots__ = ("run", "state", "existing", "changed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXISTING_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    run: str
    state: str
    existing: bool
    changed: int
    def __init__(self, run: _Optional[str] = ..., state: _Optional[str] = ..., existing: _Optional[bool] = ..., changed: _Optional[int] = ...) -> None: ...

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("cursor", "limit")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    limit: int
    def __init__(self, cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class RetryDeadLettersRequest(_message.Message):
    __slots__ = ("run", "tasks")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    run: str
    tasks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run: _Optional[str] = ..., tasks: _Optional[_Iterable[str]] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("ended", "cursor", "limit")
    ENDED_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ended: bool
    cursor: str
    limit: int
    def __init__(self, ended: _Optional[bool] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class NodePage(_message.Message):
    __slots__ = ("nodes", "next")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    next: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("session", "node", "state", "health", "role", "leader", "started_at", "ended_at", "running", "slots", "labels", "kinds", "host", "drain_at", "seen_at")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    DRAIN_AT_FIELD_NUMBER: _ClassVar[int]
    SEEN_AT_FIELD_NUMBER: _ClassVar[int]
    session: str
    node: str
    state: str
    health: str
    role: str
    leader: bool
    started_at: int
    ended_at: int
    running: int
    slots: int
    labels: _containers.ScalarMap[str, str]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    host: str
    drain_at: int
    seen_at: int
    def __init__(self, session: _Optional[str] = ..., node: _Optional[str] = ..., state: _Optional[str] = ..., health: _Optional[str] = ..., role: _Optional[str] = ..., leader: _Optional[bool] = ..., started_at: _Optional[int] = ..., ended_at: _Optional[int] = ..., running: _Optional[int] = ..., slots: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., kinds: _Optional[_Iterable[str]] = ..., host: _Optional[str] = ..., drain_at: _Optional[int] = ..., seen_at: _Optional[int] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("node", "deadline_ms", "reason")
    NODE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node: str
    deadline_ms: int
    reason: str
    def __init__(self, node: _Optional[str] = ..., deadline_ms: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Draining(_message.Message):
    __slots__ = ("node", "session", "drain_at", "running", "existing")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DRAIN_AT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    EXISTING_FIELD_NUMBER: _ClassVar[int]
    node: str
    session: str
    drain_at: int
    running: int
    existing: bool
    def __init__(self, node: _Optional[str] = ..., session: _Optional[str] = ..., drain_at: _Optional[int] = ..., running: _Optional[int] = ..., existing: _Optional[bool] = ...) -> None: ...

class StreamOutputRequest(_message.Message):
    __slots__ = ("run", "task", "stream", "attempt", "after")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    run: str
    task: str
    stream: str
    attempt: int
    after: OutputPosition
    def __init__(self, run: _Optional[str] = ..., task: _Optional[str] = ..., stream: _Optional[str] = ..., attempt: _Optional[int] = ..., after: _Optional[_Union[OutputPosition, _Mapping]] = ...) -> None: ...

class OutputPosition(_message.Message):
    __slots__ = ("attempt", "offset")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    offset: int
    def __init__(self, attempt: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class OutputPart(_message.Message):
    __slots__ = ("attempt", "offset", "next", "data")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    offset: int
    next: int
    data: bytes
    def __init__(self, attempt: _Optional[int] = ..., offset: _Optional[int] = ..., next: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class StreamWorkflowEventsRequest(_message.Message):
    __slots__ = ("run", "kind", "after")
    RUN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    run: str
    kind: _containers.RepeatedScalarFieldContainer[str]
    after: int
    def __init__(self, run: _Optional[str] = ..., kind: _Optional[_Iterable[str]] = ..., after: _Optional[int] = ...) -> None: ...

class StreamEventsRequest(_message.Message):
    __slots__ = ("kind", "after", "run")
    KIND_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    kind: _containers.RepeatedScalarFieldContainer[str]
    after: int
    run: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[_Iterable[str]] = ..., after: _Optional[int] = ..., run: _Optional[_Iterable[str]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("seq", "at", "run_id", "kind", "task", "node", "session", "data_json", "label")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at: int
    run_id: str
    kind: str
    task: str
    node: str
    session: str
    data_json: str
    label: str
    def __init__(self, seq: _Optional[int] = ..., at: _Optional[int] = ..., run_id: _Optional[str] = ..., kind: _Optional[str] = ..., task: _Optional[str] = ..., node: _Optional[str] = ..., session: _Optional[str] = ..., data_json: _Optional[str] = ..., label: _Optional[str] = ...) -> None: ...

class CallRequest(_message.Message):
    __slots__ = ("operation", "request_json")
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_JSON_FIELD_NUMBER: _ClassVar[int]
    operation: str
    request_json: str
    def __init__(self, operation: _Optional[str] = ..., request_json: _Optional[str] = ...) -> None: ...

class CallReply(_message.Message):
    __slots__ = ("reply_json",)
    REPLY_JSON_FIELD_NUMBER: _ClassVar[int]
    reply_json: str
    def __init__(self, reply_json: _Optional[str] = ...) -> None: ...
