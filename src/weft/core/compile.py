"""Turns a canonical document into the workflow that runs: defaults merged, names become positions, levels found.

Deterministic: the same document gives the same workflow on every node, whatever happened there before.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from weft.core.definition import Document
from weft.core.durations import parse_duration_ms, parse_size_bytes
from weft.core.graph import levels_of, successors_of
from weft.core.inferred_needs import complete_needs
from weft.core.inputs import define_inputs
from weft.core.references import Names, condition_of, has_template, shell_of, task_names, templates_of, value_names
from weft.core.workflow import Retry, TaskDef, Workflow

_ACCEPTING = ("any_success", "on_failure", "always")
_HANDLERS = ("on_failure", "always")
_NO_ENV: dict[str, str] = {}
_NO_REQUIREMENTS: dict[str, Any] = {}


def compile_workflow(document: Document, hash: str) -> Workflow:
    """`document` comes from `definition.read`, so it is known to be sound; `hash` is its `document_hash`."""
    tasks: dict[str, dict[str, Any]] = document["tasks"]
    position = {name: pos for pos, name in enumerate(tasks)}
    given = document.get("defaults", {})
    names = [task_names(task, given) for task in tasks.values()]
    said = [[position[need] for need in task.get("needs", ())] for task in tasks.values()]
    needs = complete_needs(said, [[position[n] for n in (*own.condition, *own.templates)] for own in names])
    successors = successors_of(needs)
    levels = levels_of(needs, successors)
    order = sorted(range(len(needs)), key=levels.__getitem__)
    accepts = [_accepted(task, names[pos], position, needs[pos]) for pos, task in enumerate(tasks.values())]
    accepting = [task.get("when") in _ACCEPTING or bool(accepts[pos]) for pos, task in enumerate(tasks.values())]
    handlers = [task.get("when") in _HANDLERS and not needs[pos] for pos, task in enumerate(tasks.values())]
    final = _spread(order, successors, handlers)
    survives = _spread(order, successors, accepting)
    defaults = _Defaults(given, has_template(document.get("env")))
    return Workflow(
        hash=hash,
        name=document["name"],
        tasks=tuple(
            defaults.complete(
                name, task,
                _Place(
                    needs[pos], accepts[pos], accepting[pos], survives[pos], final[pos],
                    _positions(names[pos].condition, position), _positions(names[pos].templates, position),
                ),
            )
            for pos, (name, task) in enumerate(tasks.items())
        ),
        successors=tuple([tuple(after) for after in successors]),
        levels=tuple(_final_last(levels, order, needs, final)),
        position=position,
        inputs=define_inputs(document.get("inputs", {})),
        on_failure=document.get("on_failure", "halt"),
        max_parallel=document.get("max_parallel"),
        timeout_ms=_ms(document.get("timeout")),
        env=document.get("env", {}),
        chain=document.get("chain", False),
        description=document.get("description"),
        context=document.get("context", {}),
        output=document.get("output"),
        output_reads=_positions(value_names(document.get("output")), position),
    )  # fmt: skip


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


class _Defaults:
    """Merges defaults into tasks, key by key, and shares the parts that thousands of tasks have in common."""

    def __init__(self, defaults: dict[str, Any], templated: bool) -> None:
        """`templated`: there are templates in what the workflow gives to all tasks."""
        self.given = defaults
        self.env_templated = templated or has_template(defaults.get("env"))
        self.cwd_templated = has_template(defaults.get("cwd"))
        self.env: dict[str, str] = defaults.get("env", _NO_ENV)
        self.retry = _retry(defaults.get("retry", {}))
        self.ms: dict[str, int] = {}

    def complete(self, name: str, task: dict[str, Any], place: _Place) -> TaskDef:
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
            max_parallel=task.get("max_parallel"),
            requires=_demand(task),
            accepts=place.accepts,
            accepts_failure=place.accepts_failure,
            survives_halt=place.survives_halt,
            final=place.final,
            reads=place.reads,
            template_reads=place.template_reads,
            templated=self._templated(task),
        )

    def _templated(self, task: dict[str, Any]) -> bool:
        """$${{ counts too: somebody has to turn it into ${{."""
        if self.env_templated or (self.cwd_templated and "cwd" not in task):
            return True
        return next(templates_of(task), None) is not None

    def _ms(self, text: str | None) -> int | None:
        if text is None:
            return None
        ms = self.ms.get(text)
        if ms is None:
            ms = self.ms[text] = parse_duration_ms(text)
        return ms


def _kind_and_spec(task: dict[str, Any], defaults: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if "run" in task:
        return "shell", {"run": task["run"], "shell": shell_of(task, defaults)}
    if "argv" in task:
        return "shell", {"argv": task["argv"]}
    if "python" in task:
        return "python", {"function": task["python"], "with": task.get("with", {})}
    return "inline", {"inline": task["inline"]}


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


def _demand(task: dict[str, Any]) -> dict[str, Any]:
    """Sizes in bytes; the long form's constraints under their own names beside the short form's."""
    if "requires" not in task and "constraints" not in task and "prefers" not in task:
        return _NO_REQUIREMENTS
    out = {**task.get("constraints", {}), **task.get("requires", {})}
    for size in ("memory", "disk"):
        if size in out:
            out[size] = parse_size_bytes(out[size])
    if task.get("prefers"):
        out["prefers"] = task["prefers"]
    return out
