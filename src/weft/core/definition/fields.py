"""Every key that a definition may have: its type, its meaning, and whether this version supports it.

This table is the only list of keys. The checker uses it, `weft schema` prints it, and "did you mean" messages search
it.
"""

from typing import Final

from weft.core.definition.child_workflows import WorkflowReference
from weft.core.definition.field_types.collections import Field, FieldType, Json, ListOf, MapOf, OneOf, Record
from weft.core.definition.field_types.matrix_fields import MatrixType
from weft.core.definition.field_types.notify_fields import DEADLINE, NotifyType
from weft.core.definition.field_types.remote_fields import RemoteType, container_record, kubernetes_record
from weft.core.definition.field_types.retry_fields import RetryType
from weft.core.definition.field_types.scalars import Boolean, Duration, Enum, Number, Pattern, Size, Text
from weft.core.definition.field_types.service_fields import BUDGET, HTTP, ServiceType, agent_record, cloud_run_record
from weft.core.definition.field_types.task_fields import (
    TASK_NAME,
    WAIT,
    ArrayToMap,
    ArtifactPath,
    CacheType,
    FunctionCall,
    NeedsType,
    Tolerance,
)
from weft.core.definition.field_types.text_formats import FORMATS

TASKS_MAX: Final = 1_000_000
INPUT_TYPES: Final = ("string", "integer", "number", "boolean", "array", "object")
#: Weft sets these for every attempt: a value from a definition would be lost without a message.
RESERVED_VARIABLES: Final = (
    "WEFT_RUN_ID", "WEFT_TASK", "WEFT_ATTEMPT", "WEFT_INDEX", "WEFT_OUTPUT", "WEFT_CONTEXT", "WEFT_INPUT",
    "WEFT_IDEMPOTENCY_KEY", "WEFT_SPAWNED", "WEFT_WORKSPACE", "WEFT_SOURCE",
    "WEFT_FILES",
)  # fmt: skip

INPUT_NAME: Final = Pattern(
    expected="an input name",
    regex="[A-Za-z_][A-Za-z0-9_-]{0,63}",
    fix="use letters, digits, _ and -, beginning with a letter or _, at most 64 characters",
    refused=("__proto__",),
)
WORKFLOW_NAME: Final = Pattern(
    expected="a workflow name",
    regex=r"[^\x00-\x20\x7f]([^\x00-\x1f\x7f]{0,126}[^\x00-\x20\x7f])?",
    fix="use 1 to 128 characters on one line, without spaces at either end",
)
ENV_NAME: Final = Pattern(
    expected="the name of an environment variable",
    regex=r"(?!WEFT_V[0-9]+$)[^=\x00-\x20\x7f]{1,256}",
    fix="use letters, digits and _; WEFT_V1, WEFT_V2 … hold the values of expressions in `run`",
    refused=RESERVED_VARIABLES,
)

SECRET_NAME: Final = Pattern(
    expected="the name of a secret",
    regex=r"(?!WEFT_)[A-Za-z_][A-Za-z0-9_]{0,127}",
    fix="use letters, digits and _, as in DB_PASSWORD; names that begin with WEFT_ are reserved",
    # A variable that is a secret of one task is removed from the environment of all tasks that do not list it.
    refused=("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TZ", "PWD", "TMPDIR"),
)
NOTIFY: Final = NotifyType(SECRET_NAME)
SECRETS: Final = ListOf(SECRET_NAME, "a list of the names of secrets", single=True, once=True)

COMMAND: Final = Text("a shell command", templates=True, booleans=True)
ARGUMENT: Final = Text("an argument as text", templates=True, empty=True, integers=True)
ARGV: Final = ListOf(
    ARGUMENT, "a list of arguments, the program first", least=1, fix="write [program, argument, …], or use run"
)
ENV: Final = MapOf(
    ENV_NAME,
    Text("the variable's value as text", templates=True, empty=True, integers=True),
    "a mapping of variables to values",
)
ENV_FILES: Final = ListOf(
    Text("the path of a file", templates=True), "a path, or a list of paths", single=True, once=True
)
CWD: Final = Text("a directory", templates=True)
CONTAINER: Final = container_record(ARGUMENT, ENV, SECRET_NAME)
KUBERNETES: Final = kubernetes_record(ARGUMENT, ENV)
CLOUD_RUN: Final = cloud_run_record(ARGUMENT, ENV)
AGENT: Final = agent_record(ARGUMENT, ENV, SECRET_NAME)
#: What no plugin may call its type.
OWN_TYPES: Final = (
    "shell", "container", "docker", "podman", "k8s_job", "kubernetes", "http", "cloud_run", "agent", "subagent",
    "claude_relay", "python", "wait", "inline", "workflow",
)  # fmt: skip
PLUGIN_TYPE: Final = Pattern(
    expected="a type of task",
    regex="[a-z][a-z0-9_]{0,63}",
    fix="use lower-case letters, digits and _",
    refused=OWN_TYPES,
)
CONDITION: Final = Text("a condition as text", templates=True)
INLINE: Final = Pattern(
    expected="the name of an inline function",
    regex=r"[A-Za-z_][A-Za-z0-9_.-]{0,127}",
    fix="write the name under which the application registers it: weft.open(inline=[…])",
)
DESCRIPTION: Final = Text("a description as text", empty=True)
TEXT_LIST: Final = ListOf(Text("text"), "a list of texts", single=True, once=True)
ARGUMENTS: Final = MapOf(Text("text"), Json(expressions=True), "a mapping of arguments to values")
CONTEXT: Final = MapOf(Text("text"), Json(expressions=False), "a mapping")


SHELL: Final = OneOf(
    (Enum(("sh", "bash")), ListOf(Text("text"), "a list: the program and its arguments", least=1)),
    pick=lambda value: 1 if isinstance(value, (list, tuple)) else 0,
)

REQUIRES: Final = Record(
    (
        Field("labels", TEXT_LIST, "Labels a node must have, all of them: `name` or `name=value`."),
        Field("any_labels", TEXT_LIST, "Labels of which a node must have at least one."),
        Field("not_labels", TEXT_LIST, "Labels a node must not have."),
        Field("capabilities", TEXT_LIST, "Capabilities a node must have, all of them."),
        Field("executors", TEXT_LIST, "Executors a node must offer."),
        Field("memory", Size(), "Free memory a node must have; reserved while the task runs."),
        Field("disk", Size(), "Free disk space a node must have; reserved while the task runs."),
        Field("cpus", Number(0.001, 4096, whole=False),
              "CPUs, reserved while the task runs; fractions such as 0.5 count in thousandths."),
        Field("gpu", OneOf((Boolean(), Number(0, 1024)), lambda v: 0 if isinstance(v, bool) else 1),
              "GPUs, reserved while the task runs: a number, or true for one."),
        Field("gpu_memory", Size(), "Memory that each of these GPUs must have."),
        Field("node", Text("a node's name"), "The one node that may run it, by name or session."),
        Field("nodes", TEXT_LIST, "The nodes that may run it."),
        Field("not_nodes", TEXT_LIST, "Nodes that may not run it."),
        Field("max_per_node", Number(1, TASKS_MAX), "How many of this task, of all runs, one node runs at a time."),
    ),
    "requires",
)  # fmt: skip
PREFERS: Final = Record(
    (Field("labels", TEXT_LIST, "Labels that a node should have; they count with `placement: scored`."),), "prefers"
)
POOL_NAME: Final = Pattern(
    expected="a pool's name",
    regex="[A-Za-z_][A-Za-z0-9_-]{0,63}",
    fix="use letters, digits, _ and -, beginning with a letter or _, at most 64 characters",
)
#: What the token of an attempt may do besides looking at its run (operations/run_scope.py).
ALLOW: Final = ListOf(Enum(("signal", "submit", "read_all")), "a list of permissions", single=True, once=True)
POOLS: Final = ListOf(POOL_NAME, "a list of pools", single=True, once=True)
CONSTRAINTS: Final = Record(
    (
        Field("requiresGpu", Boolean(), "Only nodes with a GPU."),
        Field("avoidGaming", Boolean(), "Not on nodes with the label `gaming`."),
        Field("minMemoryMb", Number(0, 1 << 40, whole=False), "Free memory a node must have, in MB."),
        Field("minDiskGb", Number(0, 1 << 30, whole=False), "Free disk space a node must have, in GB."),
        Field("nodeLabels", TEXT_LIST, "Labels of which a node must have at least one."),
        Field("targetNode", Text("a node's name"), "The one node that may run it."),
    ),
    "constraints",
)

INPUT_RECORD: Final = Record(
    (
        Field("type", Enum(INPUT_TYPES), "The type of its value."),
        Field("format", Enum(tuple(FORMATS)), "The form of a text: a date, a time, a UUID …"),
        Field(
            "default",
            Json("the default", expressions=False),
            "Its value if a run sets none; an input without a default is required.",
            null=True,
        ),
        Field("enum", ListOf(Json(expressions=False), "a list of values", least=1), "The only values it may have."),
        Field("description", DESCRIPTION, "What it is for."),
        Field("required", Boolean(), "Whether a run must set it; true unless it has a default."),
    ),
    "an input",
)


def _shared(*names: str) -> tuple[Field, ...]:
    return tuple(_TASK_OPTIONS[name] for name in names)


_TASK_OPTIONS: Final[dict[str, Field]] = {
    f.name: f
    for f in (
        Field("shell", SHELL, "What runs `run`: sh (sh -e -c), bash (bash -eo pipefail -c), or a list."),
        Field("env", ENV, "Environment variables."),
        Field("env_file", ENV_FILES, "Files with variables, relative to the definition; those of `env` win."),
        Field("cwd", CWD, "The directory to start in, relative to the definition's own."),
        Field("timeout", Duration(least_ms=1), "How long one attempt may take.", null=True),
        Field("grace", Duration(), "How long a stopped task may take to end by itself."),
        Field("retry", RetryType(), "Retries: a number, or a mapping."),
        Field("priority", Number(0, 10), "0 to 10; higher goes first."),
        Field(
            "allow_failure", Boolean(), "Its failure counts as success, for the tasks that need it and for the run."
        ),
        Field("secrets", SECRETS, "Secrets that it gets as variables; masked in its output and results."),
        Field("container", RemoteType(CONTAINER, none=True),
              "The container that it runs in; `null` is none, whatever the defaults say.", null=True),
    )
}  # fmt: skip

DEFAULTS: Final = Record(
    _shared(
        "shell",
        "env",
        "env_file",
        "cwd",
        "timeout",
        "grace",
        "retry",
        "priority",
        "allow_failure",
        "secrets",
        "container",
    ),
    "defaults",
)

#: The keys that say what a task does: a task has exactly one of them, or `container` or `kubernetes`.
TASK_KINDS: Final = ("run", "argv", "inline", "python", "wait", "workflow", "http", "cloud_run", "agent", "type")
#: Of those, the kinds that have one mapping of their own, in which every text may have ${{ … }}.
SERVICES: Final = ("http", "cloud_run", "agent")
#: Keys that say where a task runs, and without one of the above also what.
REMOTE_KEYS: Final = ("container", "kubernetes")
#: The other keys that a wait may have: it runs on no node, so most of them would not apply.
WAIT_TASK_KEYS: Final = ("description", "needs", "when", "if", "condition", "allow_failure", "deadline", "long_form")

TASK: Final = Record(
    (
        Field("description", DESCRIPTION, "What the task is for."),
        Field("run", COMMAND, "A command for the shell."),
        Field("argv", ARGV, "A program and its arguments, without a shell."),
        Field("inline", INLINE, "An async function of the application that embeds Weft."),
        Field("python", FunctionCall(),
              "A Python function: module:function or file.py:function; or a mapping, with the Python that calls it."),
        Field("http", ServiceType(HTTP, ("url",), single="url"), "A request to a service."),
        Field("cloud_run", ServiceType(CLOUD_RUN, ("project", "region", "job")), "An execution of a Cloud Run job."),
        Field("agent", ServiceType(AGENT, ("prompt",), single="prompt"), "What an agent is asked to do."),
        Field("type", PLUGIN_TYPE, "A type of task that a plugin adds: `weft executors` lists them."),
        Field("spec", Json(expressions=True), "What that plugin needs to know."),
        Field("with", ARGUMENTS, "Arguments of the function, inputs of the workflow, or the content of $WEFT_INPUT."),
        Field("map", ArrayToMap(), "One task per element of this array; `item` is the element, `index` its number."),
        Field("matrix", MatrixType(),
              "One task per combination of the values of its axes; `item` is the combination, a mapping."),
        Field("label", Text("text", templates=True), "The name by which people see an element: `${{ item.city }}`."),
        Field("batch", Number(1, TASKS_MAX), "How many elements one task takes; `item` is then an array."),
        Field("tolerate", Tolerance(), "How many elements may fail: a number, or a share like 5%."),
        Field("wait", WAIT, "Wait for a signal, for a duration or until a time."),
        Field("workflow", WorkflowReference(), "Another workflow to run: its name, or its file (./other.yaml)."),
        Field("artifacts", ListOf(ArtifactPath(), "a path, or a list of paths", single=True, once=True, least=1),
              "Files, patterns and directories that are kept with the run once it has succeeded."),
        Field("files", ListOf(TASK_NAME, "a task, or a list of tasks", single=True, once=True, least=1),
              "Tasks that it needs and whose artifacts it gets, in the directory $WEFT_FILES."),
        Field("cache", CacheType(), "Keep the result of a success, and reuse it when the same task would run again."),
        Field("needs", NeedsType(), "Tasks that must end first."),
        Field("when", Enum(("all_success", "none_failed", "any_success", "on_failure", "always")),
              "How the needed tasks must end for it to start; all_success by default."),
        Field("if", CONDITION, "A condition; false skips the task."),
        Field("condition", CONDITION, "The long form's `if`.", hidden=True),
        *_shared(
            "shell", "env", "env_file", "cwd", "timeout", "grace", "retry", "priority", "allow_failure", "secrets",
            "container",
        ),
        Field("deadline", DEADLINE, "By when it should have started and ended; being late is reported."),
        Field("kubernetes", RemoteType(KUBERNETES), "The container that it runs in, in Kubernetes."),
        Field("replicas", Number(1, TASKS_MAX), "Run it n times; $WEFT_INDEX is the number of each."),
        Field("max_parallel", Number(1, TASKS_MAX), "How many of its elements or replicas run at a time."),
        Field("requires", REQUIRES, "What a node must have to run it."),
        Field("prefers", PREFERS, "What a node should have."),
        Field("allow", ALLOW, "What its token of Weft may do beyond looking at its own run; `[]` is nothing more."),
        Field("pools", POOLS, "Pools in which it takes a place while it runs: `weft pools set NAME SIZE`."),
        Field("constraints", CONSTRAINTS, "The long form's placement.", hidden=True),
        Field("long_form", Boolean(), "The task was written in the long form.", hidden=True),
    ),
    "a task",
)  # fmt: skip


def workflow_record(tasks: FieldType, inputs: FieldType, triggers: FieldType) -> Record:
    """The top level. The types of tasks, inputs and triggers are passed in: their modules import this one."""
    return Record(
        (
            Field("name", WORKFLOW_NAME, "The workflow's name; by default the file's."),
            Field("description", DESCRIPTION, "What the workflow is for."),
            Field("chain", Boolean(), "The workflow was written as a bare list.", hidden=True),
            Field("inputs", inputs, "Values that a run is started with."),
            Field("context", CONTEXT, "The initial context of a run."),
            Field("on_failure", Enum(("halt", "halt_now", "continue")),
                  "What a failed task does to the others; halt by default."),
            Field("mode", Enum(("eager", "levels")), "How the run advances; eager by default."),
            Field("order", Enum(("longest_path", "fifo")),
                  "Which ready task of a run goes first: the one with the longest path of tasks from it to the end "
                  "(the default), or the one that was ready first. With mode: levels it is always fifo."),
            Field("ownership", Enum(("task", "run")), "run: one node takes the whole run; task by default."),
            Field("max_parallel", Number(0, TASKS_MAX),
                  "How many tasks of a run may run at a time; with mode: levels, 0 is one at a time, by name."),
            Field("concurrency", Number(1, TASKS_MAX), "How many tasks of all its runs may run at a time."),
            Field("budget", BUDGET, "What one run may spend; then each of its agents has a budget of its own."),
            Field("placement", Enum(("pull", "scored")),
                  "Who picks the node of a task: the first with room (pull, the default), or the leader, by score."),
            Field("timeout", Duration(least_ms=1), "How long the whole run may take."),
            Field("handlers_timeout", Duration(least_ms=1),
                  "How long handlers may take after a cancel, or after the run's timeout; 10m by default."),
            Field("workspace", Enum(("run",)),
                  "run: tasks start in a directory of their run, one per machine: $WEFT_WORKSPACE."),
            Field("deadline", DEADLINE, "By when a run should have started and ended; being late is reported."),
            Field("notify", NOTIFY, "Who is told of failures, recoveries, dead letters, delays and waits."),
            Field("env", ENV, "Environment variables of all tasks."),
            Field("env_file", ENV_FILES, "Files with variables of all tasks, relative to the definition."),
            Field("defaults", DEFAULTS, "Options of every task that does not set its own."),
            Field("output", Json(expressions=True), "The run's result; ${{ … }} in it reads the tasks' results."),
            Field("triggers", triggers, "What starts runs automatically, once `weft apply` has stored it."),
            Field("tasks", tasks, "The tasks, by name."),
        ),
        "the workflow",
    )  # fmt: skip
