"""Checks of a definition as a whole: needs that exist, cycles, signals, secrets, modes, encoding."""

from typing import Any

from weft.core.definition.checks.expressions import ExpressionChecker
from weft.core.definition.document import Document, encode_document
from weft.core.definition.field_types.remote_fields import container_of
from weft.core.definition.field_types.service_fields import budget_of
from weft.core.definition.inferred_needs import all_edges, final_tasks
from weft.core.definition.problems import NO_EXPRESSION, Path, ProblemCollector, encodes, has_expression, quoted
from weft.core.definition.source_paths import SourcePaths
from weft.core.graph import cycles_of, successors_of


def check_graph(
    collector: ProblemCollector, source: SourcePaths, checker: ExpressionChecker, tasks: dict[str, Any]
) -> None:
    """Tasks in `needs` and in expressions must exist, and no task may wait for itself."""
    position = {name: pos for pos, name in enumerate(tasks)}
    declared: list[list[int]] = []
    referenced: list[list[int]] = []
    for name, task in tasks.items():
        needed = []
        for need in task.get("needs", ()):
            pos = position.get(need)
            if pos is None:
                _report_unknown_need(collector, source, name, need, position)
            elif need == name:
                own = source.need(name, need) or source.task(name)[0]
                collector.problem_at(own, f"the task {quoted(name)} needs itself", "remove it from its needs")
            else:
                needed.append(pos)
        declared.append(needed)
        referenced.append([position[other] for other in checker.task(name, task)])
    names = list(tasks)
    edges = all_edges(declared, referenced)
    cycles = cycles_of(edges, successors_of(edges))
    if checker.outcome_readers and not cycles:
        final = final_tasks(list(tasks.values()), declared, referenced)
        checker.check_outcomes(dict(zip(tasks, final, strict=True)))
    for cycle in cycles:
        first, last = names[cycle[0]], names[cycle[-1]]
        need = source.need(first, last)
        path, offset = (need, None) if need is not None else checker.where(first, tasks[first], last)
        shown = [names[pos] for pos in (*cycle, cycle[0])]
        if len(shown) > 12:
            shown = [*shown[:6], f"… {len(shown) - 10:,} more …", *shown[-4:]]
        fix = "remove one of these needs" + ("" if offset is None else "; a task that an expression names is a need")
        collector.problem_at(path, f"these tasks wait for each other: {' -> '.join(shown)}", fix, offset=offset)


def check_files(collector: ProblemCollector, source: SourcePaths, tasks: dict[str, Any]) -> None:
    """Only what a task keeps can be had by another."""
    for name, task in tasks.items():
        if "files" not in task:
            continue
        for at, other in enumerate(task["files"]):
            if other in tasks and "artifacts" not in tasks[other]:
                path, written = source.task(name)
                given = written.get("files") if isinstance(written, dict) else None
                where = (*path, "files", at) if isinstance(given, list) else (*path, "files")
                message = f"the task {quoted(other)} keeps no files"
                collector.problem_at(where, message, f"add artifacts: [path…] to {other}")


def check_signals(collector: ProblemCollector, source: SourcePaths, tasks: dict[str, Any]) -> None:
    """No two waits may wait for the same signal."""
    first: dict[str, str] = {}
    for name, task in tasks.items():
        signal = task.get("wait", {}).get("signal")
        if signal is None:
            continue
        other = first.setdefault(signal, name)
        if other != name:
            collector.problem_at(
                (*source.task(name)[0], "wait", "signal"),
                f"the task {quoted(other)} already waits for the signal {quoted(signal)}",
                f"wait for a signal of another name, or let this task need {other}",
            )


def check_secrets(
    collector: ProblemCollector, source: SourcePaths, tasks: dict[str, Any], document: Document
) -> None:
    """A variable has one value: that of `env`, or the secret."""
    defaults = document.get("defaults", {})
    shared = {**document.get("env", {}), **defaults.get("env", {})}
    for name, task in tasks.items():
        secrets = task.get("secrets", defaults.get("secrets", ()) if "wait" not in task else ())
        for secret in secrets:
            if any(secret in env for env in (shared, task.get("env", ()), _remote_env(task, defaults))):
                path = (*source.task(name)[0], "secrets") if "secrets" in task else ("defaults", "secrets")
                message = f"{quoted(secret)} is both a secret of the task {quoted(name)} and a variable in its `env`"
                collector.problem_at(path, message, "give one of them another name")


def _remote_env(task: dict[str, Any], defaults: dict[str, Any]) -> Any:
    """The variables of the container that a task runs in, in Kubernetes or not."""
    remote = task.get("kubernetes") or container_of(task, defaults)
    return remote.get("env", ()) if remote else ()


def check_mode(collector: ProblemCollector, document: Document) -> None:
    in_levels = document.get("mode") == "levels"
    if in_levels and document.get("on_failure") == "continue":
        collector.problem_at(
            ("on_failure",),
            "with mode: levels the first failure ends its level, so the run cannot continue past it",
            "use halt, mark tasks that may fail with allow_failure, or use mode: eager",
        )
    if in_levels and document.get("ownership") == "task":
        collector.problem_at(("ownership",), "with mode: levels one node owns the run", "use run, or remove this key")
    for name, task in document["tasks"].items() if in_levels else ():
        if "workflow" in task:
            what = "with mode: levels one node owns the run, and the run of another workflow has nodes of its own"
            collector.problem_at(
                ("tasks", name, "workflow"),
                what,
                "use mode: eager; the workflow that the task runs may use levels",
                "key",
            )
    if not in_levels and document.get("max_parallel") == 0:
        collector.problem_at(
            ("max_parallel",),
            "max_parallel: 0 (one task at a time, by name) needs mode: levels",
            "use 1, or add mode: levels",
        )
    if in_levels or document.get("ownership") == "run":
        _check_owned_run(collector, document)


def check_workspace(collector: ProblemCollector, source: SourcePaths, document: Document) -> None:
    """What a task finds in a workspace is no part of what its result is kept under."""
    for name, task in document["tasks"].items() if "workspace" in document else ():
        cache = task.get("cache", False)
        if cache is True or (isinstance(cache, dict) and "key" not in cache):
            message = "its result may depend on files in the workspace, so it needs a key"
            collector.problem_at((*source.task(name)[0], "cache"), message, "add cache: {key: …}", "key")


def check_budgets(collector: ProblemCollector, source: SourcePaths, document: Document) -> None:
    """What a run may spend bounds what its tasks may spend: each says how much of it may be set aside for it."""
    of_run = document["budget"] if isinstance(document.get("budget"), dict) else {}
    if document.get("placement") == "scored":
        why = "tasks that the leader places (placement: scored) have no budgets"
        if "budget" in document:
            collector.problem_at(("budget",), why, "remove it, or use placement: pull", "key")
        for name, task in document["tasks"].items():
            if budget_of(task) is not None:
                path = (*source.task(name)[0], "agent", "budget")
                collector.problem_at(path, why, "remove it, or use placement: pull", "key")
        return
    for name, task in document["tasks"].items() if of_run else ():
        own = budget_of(task) or {}
        lacking = [unit for unit in of_run if "agent" in task and unit not in own]
        for unit in of_run:
            if unit in own and own[unit] > of_run[unit]:
                message = f"the task {quoted(name)} may spend more than the whole run: it would never start"
                path = (*source.task(name)[0], "agent", "budget", unit)
                collector.problem_at(path, message, f"use at most {of_run[unit]}, or raise the run's budget")
        if lacking:
            message = f"a run has a budget, so the agent {quoted(name)} needs one of its own, with {lacking[0]}"
            fix = f"add budget: {{{lacking[0]}: …}} to its agent: the most that it may spend of the run's"
            collector.problem_at((*source.task(name)[0], "agent"), message, fix)


def _check_owned_run(collector: ProblemCollector, document: Document) -> None:
    """The owner takes the tasks of its run in any order: nothing is counted for each task."""
    why = "a run that one node owns (mode: levels, ownership: run) counts nothing for each task"
    for key in ("concurrency", "placement", "budget"):
        if key in document and document[key] != "pull":
            collector.problem_at((key,), f"{why}, so it has no `{key}`", "remove it", "key")
    for name, task in document["tasks"].items():
        if "pools" in task:
            collector.problem_at(
                ("tasks", name, "pools"), f"{why}, so its tasks take no places in pools", "remove them", "key"
            )
        if budget_of(task) is not None:
            path = ("tasks", name, "agent", "budget")
            collector.problem_at(path, f"{why}, so its agents have no budget", "remove it", "key")
        for counted in ("memory", "disk", "cpus", "gpu", "max_per_node"):
            if counted in task.get("requires", ()):
                fix = "remove it, or require a label or a capability"
                path = ("tasks", name, "requires", counted)
                collector.problem_at(path, f"{why}, so its tasks reserve no `{counted}`", fix, "key")


def _report_unknown_need(
    collector: ProblemCollector, source: SourcePaths, name: str, need: str, position: dict[str, int]
) -> None:
    path = source.need(name, need) or source.task(name)[0]
    if has_expression(need):
        collector.problem_at(path, *NO_EXPRESSION)
        return
    fix = collector.did_you_mean(need, position)
    if fix is None and 1 < len(position) <= 12:
        fix = "known tasks: " + ", ".join(other for other in position if other != name)
    collector.problem_at(path, f"the task {quoted(name)} needs {quoted(need)}, which does not exist", fix)


def check_encoding(collector: ProblemCollector, document: Document) -> bytes:
    """The encoded document; empty if there are problems. Lone surrogates come from JSON escapes and Python strings,
    and no store can keep them."""
    try:
        return encode_document(document)
    except UnicodeEncodeError:
        pass
    stack: list[tuple[Path, Any]] = [((), document)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, dict):
            for key, inner in reversed(item.items()):
                if not encodes(key):
                    collector.problem_at(
                        (*path, key), "the key contains half a character (a lone surrogate)", at="key"
                    )
                stack.append(((*path, key), inner))
        elif isinstance(item, (list, tuple)):
            stack += [((*path, at), inner) for at, inner in reversed(list(enumerate(item)))]
        elif isinstance(item, str) and not encodes(item):
            collector.problem_at(path, "the text contains half a character (a lone surrogate)", "remove it")
    return b""
