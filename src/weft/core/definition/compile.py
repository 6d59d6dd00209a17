"""Compiles a canonical document to the workflow that runs: merges defaults, turns names into positions, finds levels.

Deterministic: the same document gives the same workflow on every node, whatever happened there before.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from weft.core.definition.document import Document
from weft.core.definition.field_types.notify_fields import define_deadlines, define_targets
from weft.core.definition.field_types.remote_fields import container_of
from weft.core.definition.field_types.retry_fields import memory_factor, retries_lost
from weft.core.definition.field_types.task_fields import function_of, interpreter_of
from weft.core.definition.field_types.text_formats import parse_duration_ms, parse_size_bytes
from weft.core.definition.fields import SERVICES
from weft.core.definition.inferred_needs import (
    HANDLERS,
    NO_REFERENCES,
    ReferencesByText,
    TaskReferences,
    complete_needs,
    condition_of,
    has_template,
    shell_of,
    task_references,
    tasks_in_value,
    value_reads_context,
    without_main_tasks,
)
from weft.core.definition.inputs import define_inputs
from weft.core.definition.triggers import define_triggers
from weft.core.expressions.elements import combinations
from weft.core.graph import head_starts, levels_of, successors_of
from weft.core.placement.demands import own_demand, workflow_pool
from weft.core.workflow import (
    BUILT_IN_KINDS,
    REMOTE_KINDS,
    Cache,
    LevelPlan,
    Order,
    Retry,
    TaskDef,
    Tolerate,
    TriggerDef,
    Workflow,
    usage_of,
)

HANDLERS_TIMEOUT = "10m"
_ACCEPTING = ("any_success", "on_failure", "always")
_NO_ENV: dict[str, str] = {}
#: Keys of specs with which an executor starts as they stand.
_PLAIN = {
    "shell": frozenset(("run", "shell", "argv")),
    "python": frozenset(("function", "with")),
    "inline": frozenset(("inline", "with")),
}
_WITHOUT_PROCESS = ("http", "cloud_run", "workflow")
#: Tasks of one kind with no other keys than these differ in what they run and in their place in the graph only.
_BARE = frozenset(("run", "argv", "python", "inline", "with", "needs"))
_NO_REQUIREMENTS: dict[str, Any] = {}
_NO_TOLERANCE = Tolerate()
_CONTAINER_DEFAULTS = {"pull": "missing", "mount": "ro", "secrets_as": "env"}
_KUBERNETES_DEFAULTS = {"pull": "missing"}


def compile_workflow(document: Document, hash: str, references: ReferencesByText | None = None) -> Workflow:
    """`document` comes from `read`, so it is known to be valid; `hash` is its `document_hash`, `references` are those
    that `read` collected."""
    tasks: dict[str, dict[str, Any]] = document["tasks"]
    position = {name: pos for pos, name in enumerate(tasks)}
    graph = _graph(document, position, {} if references is None else references)
    triggers = define_triggers(document)
    secrets = _secrets(document, triggers)
    defaults = _Defaults(document.get("defaults", {}), document, plain=not secrets and "workspace" not in document)
    complete = tuple(
        defaults.complete(name, task, in_graph)
        for (name, task), in_graph in zip(tasks.items(), graph.tasks, strict=True)
    )
    complete = _with_files(complete, tasks, position)
    in_levels = document.get("mode") == "levels"
    order: Order = "fifo" if in_levels else document.get("order", "longest_path")
    return Workflow(
        hash=hash,
        name=document["name"],
        tasks=complete,
        successors=graph.successors,
        levels=graph.levels,
        position=position,
        inputs=define_inputs(document.get("inputs", {})),
        on_failure=document.get("on_failure", "halt"),
        max_parallel=document.get("max_parallel"),
        timeout_ms=_ms(document.get("timeout")),
        handlers_timeout_ms=parse_duration_ms(document.get("handlers_timeout", HANDLERS_TIMEOUT)),
        env=document.get("env", {}),
        chain=document.get("chain", False),
        description=document.get("description"),
        context=document.get("context", {}),
        output=document.get("output"),
        output_reads=_positions(tasks_in_value(document.get("output")), position),
        secrets=secrets,
        concurrency=document.get("concurrency"),
        level_plan=_level_plan(complete, graph.order) if in_levels else None,
        own=own_demand(complete) if in_levels or document.get("ownership") == "run" else None,
        triggers=triggers,
        order=order,
        budget=usage_of(document.get("budget")),
        workspace="workspace" in document,
        deadlines=define_deadlines(document),
        notify=define_targets(document.get("notify")),
        head_starts=() if order == "fifo" else head_starts(graph.successors, graph.levels),
    )  # fmt: skip


def _with_files(
    definitions: tuple[TaskDef, ...], tasks: dict[str, dict[str, Any]], position: dict[str, int]
) -> tuple[TaskDef, ...]:
    """Few tasks keep or get files."""
    found = [name for name, task in tasks.items() if "artifacts" in task or "files" in task]
    if not found:
        return definitions
    out = list(definitions)
    for name in found:
        kept = tuple(tasks[name].get("artifacts", ()))
        files = tuple([position[other] for other in tasks[name].get("files", ())])
        out[position[name]] = msgspec.structs.replace(out[position[name]], artifacts=kept, files=files, plain=False)
    return tuple(out)


def _secrets(document: Document, triggers: tuple[TriggerDef, ...]) -> tuple[str, ...]:
    """The names of all secrets of tasks and triggers, each once, ascending."""
    names = [
        name
        for task in (document.get("defaults", {}), *document["tasks"].values())
        for name in task.get("secrets", ())
    ]
    containers = [task.get("container") or {} for task in (document.get("defaults", {}), *document["tasks"].values())]
    names += [container["credentials"] for container in containers if "credentials" in container]
    names += [name for task in document["tasks"].values() if "agent" in task for name in _agent_secrets(task)]
    names += [name for one in triggers for name in (one.secret, one.token) if name is not None]
    names += [name for target in document.get("notify", ()) for name in target.get("secrets", ())]
    return tuple(sorted(dict.fromkeys(names)))


def _agent_secrets(task: dict[str, Any]) -> list[str]:
    """The key of its API, and the tokens of its MCP servers."""
    agent = task["agent"]
    named = [agent.get("key"), *(server.get("token") for server in agent.get("mcp", {}).values())]
    return [name for name in named if name is not None]


class _TaskInGraph(NamedTuple):
    """What a task gets from the graph; see `TaskDef`."""

    needs: tuple[int, ...]
    accepts: tuple[int, ...]
    accepts_failure: bool
    survives_halt: bool
    final: bool
    reads: tuple[int, ...] = ()
    template_reads: tuple[int, ...] = ()
    map_reads: tuple[int, ...] = ()
    reads_context: bool = False
    map_reads_context: bool = False
    reads_outcome: bool = False
    templated: bool = False


class _Graph(NamedTuple):
    """`tasks`, `successors` and `levels` are by position; `order` has needs before the tasks that need them."""

    tasks: list[_TaskInGraph]
    successors: tuple[tuple[int, ...], ...]
    levels: tuple[int, ...]
    order: list[int]


def _graph(document: Document, position: dict[str, int], known: ReferencesByText) -> _Graph:
    tasks = list(document["tasks"].values())
    references = [task_references(task, document.get("defaults", {}), known) for task in tasks]
    declared = [[position[need] for need in task.get("needs", ())] for task in tasks]
    named = [
        () if own is NO_REFERENCES else [position[name] for name in (*own.condition, *own.templates, *own.map)]
        for own in references
    ]
    needs = complete_needs(declared, without_main_tasks(tasks, declared, named))
    successors = successors_of(needs)
    levels = levels_of(needs, successors)
    order = sorted(range(len(needs)), key=levels.__getitem__)
    accepts = [
        _accepted(task, own, position, needs[pos]) if own.ends else ()
        for pos, (task, own) in enumerate(zip(tasks, references, strict=True))
    ]
    accepting = [task.get("when") in _ACCEPTING or bool(accepts[pos]) for pos, task in enumerate(tasks)]
    handlers = [task.get("when") in HANDLERS and not needs[pos] for pos, task in enumerate(tasks)]
    final = _spread(order, successors, handlers)
    can_still_start = _spread(order, successors, accepting)
    in_graph = [
        _TaskInGraph(
            needs[pos], accepts[pos], accepting[pos], can_still_start[pos], final[pos],
            _positions(own.condition, position), _positions(own.templates, position), _positions(own.map, position),
            own.context, own.map_context, own.outcome, own.templated,
        )
        if own is not NO_REFERENCES
        else _TaskInGraph(needs[pos], (), accepting[pos], can_still_start[pos], final[pos])
        for pos, own in enumerate(references)
    ]  # fmt: skip
    return _Graph(
        in_graph,
        tuple([tuple(after) for after in successors]),
        tuple(_final_last(levels, order, needs, final)),
        order,
    )


def _level_plan(tasks: tuple[TaskDef, ...], order: list[int]) -> LevelPlan:
    """Main tasks by level; then handlers and their descendants, by levels of their own; then handlers of the whole
    run. The wait tasks of a level come after its other tasks."""
    key: list[tuple[int, int, bool]] = [(0, 0, False)] * len(tasks)
    for pos in order:
        task = tasks[pos]
        group = 2 if task.final else int(task.survives_halt)
        depth = max((key[need][1] + 1 for need in task.needs if key[need][0] == group), default=0)
        key[pos] = (group, depth, task.kind == "wait")
    number = {distinct: at for at, distinct in enumerate(sorted(set(key)))}
    by_name = sorted(range(len(tasks)), key=lambda pos: tasks[pos].name)
    members: list[list[int]] = [[] for _ in number]
    place = [0] * len(tasks)
    for at, pos in enumerate(by_name):
        members[number[key[pos]]].append(pos)
        place[pos] = at
    return LevelPlan(
        at=tuple([number[k] for k in key]),
        tasks=tuple([tuple(m) for m in members]),
        handlers=sum(1 for group, _, _ in number if group == 0),
        place=tuple(place),
    )


def _positions(names: Sequence[str], position: dict[str, int]) -> tuple[int, ...]:
    return tuple(sorted([position[name] for name in names]))


def _ms(text: str | None) -> int | None:
    return None if text is None else parse_duration_ms(text)


def _accepted(
    task: dict[str, Any], references: TaskReferences, position: dict[str, int], needs: tuple[int, ...]
) -> tuple[int, ...]:
    """Without `when`, a need whose end the condition reads is accepted in whatever state it ends."""
    if "when" in task:
        return ()
    read = dict.fromkeys([position[name] for name in references.ends])
    return tuple(pos for pos in needs if pos in read)


def _spread(order: list[int], successors: Sequence[Sequence[int]], marked: list[bool]) -> list[bool]:
    """The marked positions and all their descendants."""
    out = list(marked)
    for pos in order:
        if out[pos]:
            for after in successors[pos]:
                out[after] = True
    return out


def _final_last(levels: list[int], order: list[int], needs: Sequence[Sequence[int]], final: list[bool]) -> list[int]:
    """Levels with final tasks after all others, although no edge leads there."""
    if not any(final):
        return levels
    out = list(levels)
    behind = max((level for level, last in zip(levels, final, strict=True) if not last), default=-1) + 1
    for pos in order:
        if final[pos]:
            out[pos] = max(behind, max((out[need] + 1 for need in needs[pos]), default=0))
    return out


class _Defaults:
    """Merges defaults into tasks, key by key, and shares the objects that thousands of tasks have in common."""

    def __init__(self, defaults: dict[str, Any], document: Document, *, plain: bool) -> None:
        """`plain`: nothing of the workflow itself keeps its tasks from being so (`TaskDef.plain`)."""
        self.defaults = defaults
        self.plain = plain
        self.workflow: str = document["name"]
        self.scored = document.get("placement") == "scored"
        self.own_pool = workflow_pool(self.workflow) if "concurrency" in document else None
        self.env_files: tuple[str, ...] = (*document.get("env_file", ()), *defaults.get("env_file", ()))
        shared = [document.get("env"), defaults.get("env"), self.env_files]
        self.env_templated = has_template(shared)
        self.cwd_templated = has_template(defaults.get("cwd"))
        self.container_templated = has_template(defaults.get("container"))
        self.env_reads_context = value_reads_context(shared)
        self.cwd_reads_context = value_reads_context(defaults.get("cwd"))
        self.container_reads_context = value_reads_context(defaults.get("container"))
        self.env: dict[str, str] = defaults.get("env", _NO_ENV)
        self.secrets: tuple[str, ...] = tuple(defaults.get("secrets", ()))
        self.ms: dict[str, int] = {}
        #: Of tasks that set none, by what applies to them.
        self.retries: dict[tuple[bool, bool, bool, bool], Retry] = {}
        self.bare: dict[str, tuple[TaskDef, bool]] = {}  # by kind; with whether such tasks may be plain

    def complete(self, name: str, task: dict[str, Any], graph: _TaskInGraph) -> TaskDef:
        if "wait" in task:
            return self._wait(name, task, graph)
        kind, spec = _kind_and_spec(task, self.defaults)
        if not _BARE.issuperset(task):
            return self._complete(name, task, kind, spec, graph)
        if kind not in self.bare:
            bare = self._complete(name, task, kind, spec, graph)
            self.bare[kind] = bare, self._may_be_plain(bare)
        bare, may_be_plain = self.bare[kind]
        templated = self._templated(task, kind, graph)
        return msgspec.structs.replace(
            bare, name=name, spec=spec, needs=graph.needs, accepts=graph.accepts,
            accepts_failure=graph.accepts_failure, survives_halt=graph.survives_halt, final=graph.final,
            reads=graph.reads, template_reads=graph.template_reads, reads_outcome=graph.reads_outcome,
            reads_context=self._reads_context(task, kind, graph), templated=templated,
            plain=may_be_plain and not templated and _PLAIN[kind].issuperset(spec),
        )  # fmt: skip

    def _complete(
        self, name: str, task: dict[str, Any], kind: str, spec: dict[str, Any], graph: _TaskInGraph
    ) -> TaskDef:
        defaults = self.defaults
        env = task.get("env")
        requires = _requirements(task, f"{self.workflow}/{name}", self.scored)
        made = TaskDef(
            name=name,
            kind=kind,
            spec=spec,
            needs=graph.needs,
            when=task.get("when", "all_success"),
            condition=condition_of(task),
            long_form=task.get("long_form", False),
            env=self.env if not env else {**self.env, **env},
            env_files=() if kind in _WITHOUT_PROCESS else (*self.env_files, *task.get("env_file", ())),
            cwd=task.get("cwd", defaults.get("cwd")),
            timeout_ms=self._ms(task["timeout"] if "timeout" in task else defaults.get("timeout")),
            grace_ms=self._ms(task.get("grace", defaults.get("grace", "10s"))) or 0,
            retry=self._retry(task.get("retry"), kind, "memory" in requires),
            priority=task.get("priority", defaults.get("priority", 0)),
            allow_failure=task.get("allow_failure", defaults.get("allow_failure", False)),
            replicas=task.get("replicas"),
            map=_array(task),
            matrix="matrix" in task,
            label=task.get("label"),
            map_reads=graph.map_reads,
            map_reads_context=graph.map_reads_context,
            batch=task.get("batch"),
            tolerate=_tolerate(task.get("tolerate")),
            max_parallel=task.get("max_parallel"),
            requires=requires,
            accepts=graph.accepts,
            accepts_failure=graph.accepts_failure,
            survives_halt=graph.survives_halt,
            final=graph.final,
            reads=graph.reads,
            template_reads=graph.template_reads,
            reads_outcome=graph.reads_outcome,
            reads_context=self._reads_context(task, kind, graph),
            templated=self._templated(task, kind, graph),
            secrets=() if kind in ("inline", "workflow") else self._secrets(task, kind),
            cache=_cache(task.get("cache")),
            pools=() if kind == "workflow" else _pools(task, self.own_pool),
            scored=self.scored and kind != "workflow",
            allow=None if "allow" not in task else tuple(task["allow"]),
        )
        plain = self._may_be_plain(made) and not made.templated and _PLAIN[kind].issuperset(spec)
        return msgspec.structs.replace(made, plain=True) if plain else made

    def _may_be_plain(self, made: TaskDef) -> bool:
        """Unless its spec or a template keeps it from that."""
        if not self.plain or made.kind not in _PLAIN or made.long_form or made.allow is not None:
            return False
        return not (made.env or made.env_files or made.cwd or made.requires or made.cache)

    def _secrets(self, task: dict[str, Any], kind: str) -> tuple[str, ...]:
        own = tuple(task.get("secrets", self.secrets))
        return own if kind != "agent" else tuple(dict.fromkeys((*own, *_agent_secrets(task))))

    def _wait(self, name: str, task: dict[str, Any], graph: _TaskInGraph) -> TaskDef:
        """A wait runs on no node: of the defaults only `allow_failure` applies."""
        return TaskDef(
            name=name,
            kind="wait",
            spec=_wait_spec(task["wait"]),
            needs=graph.needs,
            when=task.get("when", "all_success"),
            condition=condition_of(task),
            long_form=task.get("long_form", False),
            allow_failure=task.get("allow_failure", self.defaults.get("allow_failure", False)),
            accepts=graph.accepts,
            accepts_failure=graph.accepts_failure,
            survives_halt=graph.survives_halt,
            final=graph.final,
            reads=graph.reads,
            template_reads=graph.template_reads,
            reads_outcome=graph.reads_outcome,
        )

    def _retry(self, own: dict[str, Any] | None, kind: str, has_memory: bool) -> Retry:
        """What the defaults say for container and kubernetes tasks, and a task of another kind cannot do, is left
        out; if the task said it itself, it was refused. A plugin's attempts may run on an engine."""
        key = (kind in REMOTE_KINDS, kind in BUILT_IN_KINDS, has_memory, kind == "workflow")
        if own is None and key in self.retries:
            return self.retries[key]
        retry = _retry({**self.defaults.get("retry", {}), **(own or {})})
        if kind not in REMOTE_KINDS or not has_memory:
            retry = msgspec.structs.replace(retry, memory=None)
        if kind in BUILT_IN_KINDS and kind not in REMOTE_KINDS:
            retry = msgspec.structs.replace(retry, on_lost=bool(retry.on_lost))
        if kind == "workflow":
            retry = msgspec.structs.replace(retry, on=None, not_on=())
        if own is None:
            self.retries[key] = retry
        return retry

    def _reads_context(self, task: dict[str, Any], kind: str, graph: _TaskInGraph) -> bool:
        if graph.reads_context or self.env_reads_context or (self.cwd_reads_context and "cwd" not in task):
            return True
        return self.container_reads_context and kind == "container"

    def _templated(self, task: dict[str, Any], kind: str, graph: _TaskInGraph) -> bool:
        """Whether the node must resolve templates."""
        if graph.templated or self.env_templated or (self.cwd_templated and "cwd" not in task):
            return True
        return self.container_templated and kind == "container"

    def _ms(self, text: str | None) -> int | None:
        if text is None:
            return None
        ms = self.ms.get(text)
        if ms is None:
            ms = self.ms[text] = parse_duration_ms(text)
        return ms


def _kind_and_spec(task: dict[str, Any], defaults: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    container = container_of(task, defaults)
    if container is not None:
        return "container", {"container": {**_CONTAINER_DEFAULTS, **container}, **_inside(task, defaults)}
    if "kubernetes" in task:
        return "kubernetes", {"kubernetes": {**_KUBERNETES_DEFAULTS, **task["kubernetes"]}, **_inside(task, defaults)}
    if "run" in task:
        return "shell", _with_input({"run": task["run"], "shell": shell_of(task, defaults)}, task)
    if "argv" in task:
        return "shell", _with_input({"argv": task["argv"]}, task)
    if "python" in task:
        return "python", _call(task)
    if "workflow" in task:
        return "workflow", {"workflow": task["workflow"], "with": task.get("with", {})}
    if "type" in task:
        return task["type"], {task["type"]: task.get("spec", {})}
    for kind in SERVICES:
        if kind in task:
            return kind, {kind: task[kind]}
    return "inline", {key: task[key] for key in ("inline", "with") if key in task}


def _call(task: dict[str, Any]) -> dict[str, Any]:
    spec = {"function": function_of(task["python"]), "with": task.get("with", {})}
    interpreter = interpreter_of(task["python"])
    return spec if interpreter is None else {**spec, "interpreter": interpreter}


def _inside(task: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """What runs in a container, in Kubernetes or not, instead of its own command."""
    if "python" in task:
        return _call(task)
    spec: dict[str, Any] = {}
    if "run" in task:
        spec = {"run": task["run"], "shell": shell_of(task, defaults)}
    elif "argv" in task:
        spec = {"argv": task["argv"]}
    return _with_input(spec, task)


def _with_input(spec: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    """`with` of a command is the content of the file $WEFT_INPUT."""
    return {**spec, "with": task["with"]} if "with" in task else spec


def _wait_spec(value: dict[str, Any]) -> dict[str, Any]:
    if "signal" not in value:
        return dict(value)
    out: dict[str, Any] = {"signal": value["signal"]}
    if "timeout" in value:
        out["timeout_ms"] = parse_duration_ms(value["timeout"])
    if "default" in value:
        out["default"] = value["default"]
    return out


def _array(task: dict[str, Any]) -> Any:
    """The array of `map`, without the spaces around it: a ${{ }} keeps its type only if it is the whole text. A
    matrix that has none is worked out here, once for all runs."""
    if "matrix" in task:
        matrix = {name: _stripped(values) for name, values in task["matrix"].items()}
        return matrix if has_template(matrix) else combinations(matrix)
    return _stripped(task.get("map"))


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _tolerate(value: int | str | None) -> Tolerate:
    if value is None:
        return _NO_TOLERANCE
    if isinstance(value, str):
        return Tolerate(share=float(value.removesuffix("%")) / 100)
    return Tolerate(count=value)


def _cache(value: Any) -> Cache | None:
    """`true` is the same as `{}`; `false` is the same as no `cache`."""
    if value is None or value is False:
        return None
    value = {} if value is True else value
    return Cache(value.get("key"), _ms(value.get("ttl")))


def _retry(value: dict[str, Any]) -> Retry:
    own = Retry()
    return Retry(
        max=value.get("max", own.max),
        backoff_ms=parse_duration_ms(value["backoff"]) if "backoff" in value else own.backoff_ms,
        multiplier=float(value.get("multiplier", own.multiplier)),
        max_backoff_ms=parse_duration_ms(value["max_backoff"]) if "max_backoff" in value else own.max_backoff_ms,
        jitter=float(value.get("jitter", own.jitter)),
        on_lost=retries_lost(value),
        on=tuple(value["on"]) if "on" in value else None,
        not_on=tuple(value.get("not_on", ())),
        memory=memory_factor(value),
    )


def _requirements(task: dict[str, Any], task_path: str, scored: bool) -> dict[str, Any]:
    """One canonical form for `requires` of the short form and `constraints` of the long form: sizes in bytes, GPUs as
    a number, the stricter of the two where both set the same. `task_path` names the task, for `max_per_node`."""
    if "requires" not in task and "constraints" not in task and not (scored and task.get("prefers")):
        return _NO_REQUIREMENTS
    out = dict(task.get("requires", {}))
    for size in ("memory", "disk", "gpu_memory"):
        if size in out:
            out[size] = parse_size_bytes(out[size])
    out["gpu"] = int(out.get("gpu", 0))
    _add_constraints(out, task.get("constraints", {}))
    if "gpu_memory" in out:
        out["gpu"] = max(1, out["gpu"])
    if "max_per_node" in out:
        out["of"] = task_path
    if scored and task.get("prefers"):
        out["prefers"] = task["prefers"].get("labels", [])
    return {name: sorted(value) if type(value) is list else value for name, value in out.items() if value}


def _add_constraints(out: dict[str, Any], value: dict[str, Any]) -> None:
    out["gpu"] = max(out["gpu"], int(value.get("requiresGpu", False)))
    if value.get("avoidGaming"):
        out["not_labels"] = list(dict.fromkeys([*out.get("not_labels", ()), "gaming"]))
    for name, target, unit in (("minMemoryMb", "memory", 10**6), ("minDiskGb", "disk", 10**9)):
        if name in value:
            out[target] = max(out.get(target, 0), round(value[name] * unit))
    for name, target in (("nodeLabels", "any_labels"), ("targetNode", "node")):
        if name in value:
            out.setdefault(target, value[name])


def _pools(task: dict[str, Any], own: str | None) -> tuple[str, ...]:
    """Ascending, which is the order in which pools are locked."""
    named = task.get("pools", ())
    return tuple(sorted(named if own is None else (*named, own))) if named or own is not None else ()
