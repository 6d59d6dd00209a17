"""Turns a canonical document into the workflow that runs: defaults merged, names become positions, levels found.

Deterministic: the same document gives the same workflow on every node, whatever happened there before.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from weft.core.definition.document import Document
from weft.core.definition.inferred_needs import (
    OF_RULES,
    Mentions,
    Names,
    complete_needs,
    condition_of,
    has_template,
    shell_of,
    task_names,
    templates_of,
    value_names,
    value_reads_context,
)
from weft.core.definition.inputs import define_inputs
from weft.core.definition.text_formats import parse_duration_ms, parse_size_bytes
from weft.core.definition.triggers import define_triggers
from weft.core.demands import own_demand, workflow_pool
from weft.core.graph import levels_of, successors_of
from weft.core.workflow import Cache, Passes, Retry, TaskDef, TaskKind, Tolerate, Workflow

HANDLERS_TIMEOUT = "10m"
_ACCEPTING = ("any_success", "on_failure", "always")
_HANDLERS = ("on_failure", "always")
_NO_ENV: dict[str, str] = {}
_NO_REQUIREMENTS: dict[str, Any] = {}
_NO_TOLERANCE = Tolerate()


def compile_workflow(document: Document, hash: str, mentions: Mentions | None = None) -> Workflow:
    """`document` comes from `definition.read`, so it is known to be sound; `hash` is its `document_hash`, `mentions`
    what was found then."""
    tasks: dict[str, dict[str, Any]] = document["tasks"]
    position = {name: pos for pos, name in enumerate(tasks)}
    given = document.get("defaults", {})
    known = {} if mentions is None else mentions
    names = [task_names(task, given, known) for task in tasks.values()]
    said = [[position[need] for need in task.get("needs", ())] for task in tasks.values()]
    named = [[position[n] for n in (*own.condition, *own.templates, *own.map)] for own in names]
    needs = complete_needs(said, named)
    successors = successors_of(needs)
    levels = levels_of(needs, successors)
    order = sorted(range(len(needs)), key=levels.__getitem__)
    accepts = [_accepted(task, names[pos], position, needs[pos]) for pos, task in enumerate(tasks.values())]
    accepting = [task.get("when") in _ACCEPTING or bool(accepts[pos]) for pos, task in enumerate(tasks.values())]
    handlers = [task.get("when") in _HANDLERS and not needs[pos] for pos, task in enumerate(tasks.values())]
    final = _spread(order, successors, handlers)
    survives = _spread(order, successors, accepting)
    defaults = _Defaults(given, document)
    secrets = [name for task in (given, *tasks.values()) for name in task.get("secrets", ())]
    triggers = define_triggers(document)
    secrets += [name for one in triggers for name in (one.secret, one.token) if name is not None]
    in_levels = document.get("mode") == "levels"
    complete = tuple(
        defaults.complete(
            name, task,
            _Place(
                needs[pos], accepts[pos], accepting[pos], survives[pos], final[pos],
                _positions(names[pos].condition, position), _positions(names[pos].templates, position),
                _positions(names[pos].map, position), names[pos].context, names[pos].map_context,
            ),
        )
        for pos, (name, task) in enumerate(tasks.items())
    )  # fmt: skip
    return Workflow(
        hash=hash,
        name=document["name"],
        tasks=complete,
        successors=tuple([tuple(after) for after in successors]),
        levels=tuple(_final_last(levels, order, needs, final)),
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
        output_reads=_positions(value_names(document.get("output")), position),
        secrets=tuple(sorted(dict.fromkeys(secrets))),
        concurrency=document.get("concurrency"),
        passes=_passes(complete, order) if in_levels else None,
        own=own_demand(complete) if in_levels or document.get("ownership") == "run" else None,
        triggers=triggers,
    )  # fmt: skip


def _passes(tasks: tuple[TaskDef, ...], order: list[int]) -> Passes:
    """Main tasks by level; then handlers and what follows them, by levels of their own, over what the others
    committed; then handlers of the whole run. The wait tasks of a level come after its other tasks."""
    key: list[tuple[int, int, bool]] = [(0, 0, False)] * len(tasks)
    for pos in order:
        task = tasks[pos]
        group = 2 if task.final else int(task.survives_halt)
        depth = max((key[need][1] + 1 for need in task.needs if key[need][0] == group), default=0)
        key[pos] = (group, depth, task.kind == "wait")
    number = {found: at for at, found in enumerate(sorted(set(key)))}
    by_name = sorted(range(len(tasks)), key=lambda pos: tasks[pos].name)
    members: list[list[int]] = [[] for _ in number]
    place = [0] * len(tasks)
    for at, pos in enumerate(by_name):
        members[number[key[pos]]].append(pos)
        place[pos] = at
    return Passes(
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
    task: dict[str, Any], names: Names, position: dict[str, int], needs: tuple[int, ...]
) -> tuple[int, ...]:
    """Without `when`, a need whose end the condition asks about is accepted whatever that end is."""
    if not names.asked or "when" in task:
        return ()
    asked = dict.fromkeys([position[name] for name in names.asked])
    return tuple(pos for pos in needs if pos in asked)


def _spread(order: list[int], successors: Sequence[Sequence[int]], marked: list[bool]) -> list[bool]:
    """The marked positions and all that follow them."""
    out = list(marked)
    for pos in order:
        if out[pos]:
            for after in successors[pos]:
                out[after] = True
    return out


def _final_last(levels: list[int], order: list[int], needs: Sequence[Sequence[int]], final: list[bool]) -> list[int]:
    """Final tasks stand behind all others, though no edge says so."""
    if not any(final):
        return levels
    out = list(levels)
    behind = max((level for level, last in zip(levels, final, strict=True) if not last), default=-1) + 1
    for pos in order:
        if final[pos]:
            out[pos] = max(behind, max((out[need] + 1 for need in needs[pos]), default=0))
    return out


class _Place(NamedTuple):
    """What a task's place in the graph makes of it; see `TaskDef`."""

    needs: tuple[int, ...]
    accepts: tuple[int, ...]
    accepts_failure: bool
    survives_halt: bool
    final: bool
    reads: tuple[int, ...]
    template_reads: tuple[int, ...]
    map_reads: tuple[int, ...]
    reads_context: bool
    map_reads_context: bool


class _Defaults:
    """Merges defaults into tasks, key by key, and shares the parts that thousands of tasks have in common."""

    def __init__(self, defaults: dict[str, Any], document: Document) -> None:
        self.given = defaults
        self.workflow: str = document["name"]
        self.scored = document.get("placement") == "scored"
        self.own_pool = workflow_pool(self.workflow) if "concurrency" in document else None
        shared = [document.get("env"), defaults.get("env")]
        self.env_templated = has_template(shared)
        self.cwd_templated = has_template(defaults.get("cwd"))
        self.env_reads_context = value_reads_context(shared)
        self.cwd_reads_context = value_reads_context(defaults.get("cwd"))
        self.env: dict[str, str] = defaults.get("env", _NO_ENV)
        self.retry = _retry(defaults.get("retry", {}))
        self.secrets: tuple[str, ...] = tuple(defaults.get("secrets", ()))
        self.ms: dict[str, int] = {}

    def complete(self, name: str, task: dict[str, Any], place: _Place) -> TaskDef:
        if "wait" in task:
            return self._wait(name, task, place)
        given = self.given
        kind, spec = _kind_and_spec(task, given)
        env = task.get("env")
        retry = task.get("retry")
        return TaskDef(
            name=name,
            kind=kind,
            spec=spec,
            needs=place.needs,
            when=task.get("when", "all_success"),
            condition=condition_of(task),
            long_form=task.get("long_form", False),
            env=self.env if not env else {**self.env, **env},
            cwd=task.get("cwd", given.get("cwd")),
            timeout_ms=self._ms(task["timeout"] if "timeout" in task else given.get("timeout")),
            grace_ms=self._ms(task.get("grace", given.get("grace", "10s"))) or 0,
            retry=self.retry if retry is None else _retry({**given.get("retry", {}), **retry}),
            priority=task.get("priority", given.get("priority", 0)),
            allow_failure=task.get("allow_failure", given.get("allow_failure", False)),
            replicas=task.get("replicas"),
            map=_array(task.get("map")),
            map_reads=place.map_reads,
            map_reads_context=place.map_reads_context,
            batch=task.get("batch"),
            tolerate=_tolerate(task.get("tolerate")),
            max_parallel=task.get("max_parallel"),
            requires=_requirements(task, f"{self.workflow}/{name}", self.scored),
            accepts=place.accepts,
            accepts_failure=place.accepts_failure,
            survives_halt=place.survives_halt,
            final=place.final,
            reads=place.reads,
            template_reads=place.template_reads,
            reads_context=self._reads_context(task, place),
            templated=self._templated(task),
            secrets=() if kind in ("inline", "workflow") else tuple(task.get("secrets", self.secrets)),
            cache=_cache(task.get("cache")),
            pools=() if kind == "workflow" else _pools(task, self.own_pool),
            scored=self.scored and kind != "workflow",
        )

    def _wait(self, name: str, task: dict[str, Any], place: _Place) -> TaskDef:
        """It runs nowhere: of the defaults only what its failure means counts."""
        return TaskDef(
            name=name,
            kind="wait",
            spec=_wait_spec(task["wait"]),
            needs=place.needs,
            when=task.get("when", "all_success"),
            condition=condition_of(task),
            long_form=task.get("long_form", False),
            allow_failure=task.get("allow_failure", self.given.get("allow_failure", False)),
            accepts=place.accepts,
            accepts_failure=place.accepts_failure,
            survives_halt=place.survives_halt,
            final=place.final,
            reads=place.reads,
            template_reads=place.template_reads,
        )

    def _reads_context(self, task: dict[str, Any], place: _Place) -> bool:
        return place.reads_context or self.env_reads_context or (self.cwd_reads_context and "cwd" not in task)

    def _templated(self, task: dict[str, Any]) -> bool:
        """$${{ counts too: somebody has to turn it into ${{."""
        if self.env_templated or (self.cwd_templated and "cwd" not in task):
            return True
        return any(path[0] not in OF_RULES for path, _ in templates_of(task))

    def _ms(self, text: str | None) -> int | None:
        if text is None:
            return None
        ms = self.ms.get(text)
        if ms is None:
            ms = self.ms[text] = parse_duration_ms(text)
        return ms


def _kind_and_spec(task: dict[str, Any], defaults: dict[str, Any]) -> tuple[TaskKind, dict[str, Any]]:
    if "run" in task:
        return "shell", _with_input({"run": task["run"], "shell": shell_of(task, defaults)}, task)
    if "argv" in task:
        return "shell", _with_input({"argv": task["argv"]}, task)
    if "python" in task:
        return "python", {"function": task["python"], "with": task.get("with", {})}
    if "workflow" in task:
        return "workflow", {"workflow": task["workflow"], "with": task.get("with", {})}
    return "inline", {key: task[key] for key in ("inline", "with") if key in task}


def _with_input(spec: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    """`with` of a command is what it finds in the file $WEFT_INPUT."""
    return {**spec, "with": task["with"]} if "with" in task else spec


def _wait_spec(given: dict[str, Any]) -> dict[str, Any]:
    if "signal" not in given:
        return dict(given)
    out: dict[str, Any] = {"signal": given["signal"]}
    if "timeout" in given:
        out["timeout_ms"] = parse_duration_ms(given["timeout"])
    if "default" in given:
        out["default"] = given["default"]
    return out


def _array(given: Any) -> Any:
    """One whole ${{ }} keeps its type only without blanks around it."""
    return given.strip() if isinstance(given, str) else given


def _tolerate(given: int | str | None) -> Tolerate:
    if given is None:
        return _NO_TOLERANCE
    if isinstance(given, str):
        return Tolerate(share=float(given.removesuffix("%")) / 100)
    return Tolerate(count=given)


def _cache(given: Any) -> Cache | None:
    """`true` and `{}` say the same; `false` says that there is none."""
    if given is None or given is False:
        return None
    given = {} if given is True else given
    return Cache(given.get("key"), _ms(given.get("ttl")))


def _retry(given: dict[str, Any]) -> Retry:
    own = Retry()
    return Retry(
        max=given.get("max", own.max),
        backoff_ms=parse_duration_ms(given["backoff"]) if "backoff" in given else own.backoff_ms,
        multiplier=float(given.get("multiplier", own.multiplier)),
        max_backoff_ms=parse_duration_ms(given["max_backoff"]) if "max_backoff" in given else own.max_backoff_ms,
        jitter=float(given.get("jitter", own.jitter)),
        on_lost=given.get("on_lost", own.on_lost),
    )


def _requirements(task: dict[str, Any], place: str, scored: bool) -> dict[str, Any]:
    """One canonical form for the short form's `requires` and the long form's `constraints`: sizes in bytes, GPUs as
    a number, the stricter of the two where both speak of the same. `place` names the task, for `max_per_node`."""
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
        out["of"] = place
    if scored and task.get("prefers"):
        out["prefers"] = task["prefers"].get("labels", [])
    return {name: sorted(value) if type(value) is list else value for name, value in out.items() if value}


def _add_constraints(out: dict[str, Any], given: dict[str, Any]) -> None:
    out["gpu"] = max(out["gpu"], int(given.get("requiresGpu", False)))
    if given.get("avoidGaming"):
        out["not_labels"] = list(dict.fromkeys([*out.get("not_labels", ()), "gaming"]))
    for name, target, unit in (("minMemoryMb", "memory", 10**6), ("minDiskGb", "disk", 10**9)):
        if name in given:
            out[target] = max(out.get(target, 0), round(given[name] * unit))
    for name, target in (("nodeLabels", "any_labels"), ("targetNode", "node")):
        if name in given:
            out.setdefault(target, given[name])


def _pools(task: dict[str, Any], own: str | None) -> tuple[str, ...]:
    """Ascending: the order in which they are locked."""
    named = task.get("pools", ())
    return tuple(sorted(named if own is None else (*named, own))) if named or own is not None else ()
