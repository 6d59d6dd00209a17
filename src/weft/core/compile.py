"""Turns a canonical document into the workflow that runs: defaults merged, names become positions, levels found.

Deterministic: the same document gives the same workflow on every node, whatever happened there before.
"""

from collections.abc import Sequence
from typing import Any

from weft.core.definition import Document, all_needs
from weft.core.durations import parse_duration_ms, parse_size_bytes
from weft.core.graph import levels_of, successors_of
from weft.core.inputs import define_inputs
from weft.core.references import STATE_MEMBERS, condition_references
from weft.core.workflow import Retry, TaskDef, Workflow

_ACCEPTING = ("any_success", "on_failure", "always")
_HANDLERS = ("on_failure", "always")
_NO_ENV: dict[str, str] = {}
_NO_REQUIREMENTS: dict[str, Any] = {}


def compile_workflow(document: Document, hash: str) -> Workflow:
    """`document` comes from `definition.read`, so it is known to be sound; `hash` is its `document_hash`."""
    tasks: dict[str, dict[str, Any]] = document["tasks"]
    position = {name: pos for pos, name in enumerate(tasks)}
    needs = [tuple([position[need] for need in all_needs(task, name)]) for name, task in tasks.items()]
    successors = successors_of(needs)
    levels = levels_of(needs, successors)
    order = sorted(range(len(needs)), key=levels.__getitem__)
    accepts = [_accepted(task, position, needs[pos]) for pos, task in enumerate(tasks.values())]
    accepting = [task.get("when") in _ACCEPTING or bool(accepts[pos]) for pos, task in enumerate(tasks.values())]
    handlers = [task.get("when") in _HANDLERS and not needs[pos] for pos, task in enumerate(tasks.values())]
    final = _spread(order, successors, handlers)
    survives = _spread(order, successors, accepting)
    defaults = _Defaults(document.get("defaults", {}))
    return Workflow(
        hash=hash,
        name=document["name"],
        tasks=tuple(
            defaults.complete(name, task, needs[pos], accepts[pos], accepting[pos], survives[pos], final[pos])
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
    )


def _ms(text: str | None) -> int | None:
    return None if text is None else parse_duration_ms(text)


def _accepted(task: dict[str, Any], position: dict[str, int], needs: tuple[int, ...]) -> tuple[int, ...]:
    """Without `when`, a need whose end the condition asks about is accepted whatever that end is."""
    condition = task.get("if") or task.get("condition")
    if not condition or "when" in task:
        return ()
    asked = [position[r.task] for r in condition_references(condition) if r.member in STATE_MEMBERS]
    return tuple(pos for pos in dict.fromkeys(asked) if pos in needs)


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


class _Defaults:
    """Merges defaults into tasks, key by key, and shares the parts that thousands of tasks have in common."""

    def __init__(self, defaults: dict[str, Any]) -> None:
        self.given = defaults
        self.env: dict[str, str] = defaults.get("env", _NO_ENV)
        self.retry = _retry(defaults.get("retry", {}))
        self.ms: dict[str, int] = {}

    def complete(
        self,
        name: str,
        task: dict[str, Any],
        needs: tuple[int, ...],
        accepts: tuple[int, ...],
        accepts_failure: bool,
        survives_halt: bool,
        final: bool,
    ) -> TaskDef:
        given = self.given
        kind, spec = _kind_and_spec(task, given)
        env = task.get("env")
        retry = task.get("retry")
        return TaskDef(
            name=name,
            kind=kind,
            spec=spec,
            needs=needs,
            when=task.get("when", "all_success"),
            condition=task.get("if") or task.get("condition"),
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
            accepts=accepts,
            accepts_failure=accepts_failure,
            survives_halt=survives_halt,
            final=final,
        )

    def _ms(self, text: str | None) -> int | None:
        if text is None:
            return None
        ms = self.ms.get(text)
        if ms is None:
            ms = self.ms[text] = parse_duration_ms(text)
        return ms


def _kind_and_spec(task: dict[str, Any], defaults: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if "run" in task:
        return "shell", {"run": task["run"], "shell": task.get("shell", defaults.get("shell", "sh"))}
    if "argv" in task:
        return "shell", {"argv": task["argv"]}
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
