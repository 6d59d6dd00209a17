"""What is checked of a definition as a whole: needs that exist, cycles, signals, secrets, modes, encoding."""

from typing import Any

from weft.core.definition.document import Document, encode_document
from weft.core.definition.expression_checks import ExpressionChecker
from weft.core.definition.inferred_needs import all_edges
from weft.core.definition.problems import NO_EXPRESSION, Path, Reader, encodes, has_expression, quoted
from weft.core.definition.source_paths import Written
from weft.core.graph import cycles_of, successors_of


def check_graph(reader: Reader, written: Written, checker: ExpressionChecker, tasks: dict[str, Any]) -> None:
    """What the tasks need, and what they name: both must be there, and none may wait for itself."""
    position = {name: pos for pos, name in enumerate(tasks)}
    said: list[list[int]] = []
    named: list[list[int]] = []
    for name, task in tasks.items():
        needed = []
        for need in task.get("needs", ()):
            pos = position.get(need)
            if pos is None:
                _unknown_need(reader, written, name, need, position)
            elif need == name:
                own = written.need(name, need) or written.task(name)[0]
                reader.problem_at(own, f"the task {quoted(name)} needs itself", "remove it from its needs")
            else:
                needed.append(pos)
        said.append(needed)
        named.append([position[other] for other in checker.task(name, task)])
    names = list(tasks)
    edges = all_edges(said, named)
    for cycle in cycles_of(edges, successors_of(edges)):
        first, last = names[cycle[0]], names[cycle[-1]]
        need = written.need(first, last)
        path, spot = (need, None) if need is not None else checker.where(first, tasks[first], last)
        shown = [names[pos] for pos in (*cycle, cycle[0])]
        if len(shown) > 12:
            shown = [*shown[:6], f"… {len(shown) - 10:,} more …", *shown[-4:]]
        fix = "remove one of these needs" + ("" if spot is None else "; naming a task makes it a need")
        reader.problem_at(path, f"these tasks wait for each other: {' -> '.join(shown)}", fix, spot=spot)


def check_signals(reader: Reader, written: Written, tasks: dict[str, Any]) -> None:
    """A signal is an answer to one wait."""
    first: dict[str, str] = {}
    for name, task in tasks.items():
        signal = task.get("wait", {}).get("signal")
        if signal is None:
            continue
        other = first.setdefault(signal, name)
        if other != name:
            reader.problem_at(
                (*written.task(name)[0], "wait", "signal"),
                f"the task {quoted(other)} waits for the signal {quoted(signal)} already",
                f"give it a name of its own, or let both need {other}",
            )


def check_secrets(reader: Reader, written: Written, tasks: dict[str, Any], document: Document) -> None:
    """A variable has one value: the definition's own, or the secret."""
    defaults = document.get("defaults", {})
    shared = {**document.get("env", {}), **defaults.get("env", {})}
    for name, task in tasks.items():
        secrets = task.get("secrets", defaults.get("secrets", ()) if "wait" not in task else ())
        for secret in secrets:
            if secret in shared or secret in task.get("env", ()):
                path = (*written.task(name)[0], "secrets") if "secrets" in task else ("defaults", "secrets")
                message = f"{quoted(secret)} is a secret of the task {quoted(name)} and a variable in its `env`, too"
                reader.problem_at(path, message, "give one of them another name")


def check_mode(reader: Reader, document: Document) -> None:
    in_levels = document.get("mode") == "levels"
    if in_levels and document.get("on_failure") == "continue":
        reader.problem_at(
            ("on_failure",),
            "with mode: levels the first failure ends its level, so the run cannot continue past it",
            "use halt, mark tasks that may fail with allow_failure, or use mode: eager",
        )
    if in_levels and document.get("ownership") == "task":
        reader.problem_at(("ownership",), "with mode: levels one node owns the run", "use run, or remove this key")
    for name, task in document["tasks"].items() if in_levels else ():
        if "workflow" in task:
            what = (
                "with mode: levels one node owns all of a run, and the run of another workflow has nodes of its own"
            )
            reader.problem_at(
                ("tasks", name, "workflow"), what, "use mode: eager here; what it runs may have levels", "key"
            )
    if not in_levels and document.get("max_parallel") == 0:
        reader.problem_at(
            ("max_parallel",),
            "max_parallel: 0 (one by one, by name) needs mode: levels",
            "use 1, or add mode: levels",
        )
    if in_levels or document.get("ownership") == "run":
        _check_owned(reader, document)


def _check_owned(reader: Reader, document: Document) -> None:
    """Its owner takes the tasks of a run as they come: nothing is counted task by task."""
    why = "a run that one node owns (mode: levels, ownership: run) counts nothing task by task"
    for key in ("concurrency", "placement"):
        if key in document and document[key] != "pull":
            reader.problem_at((key,), f"{why}, so it has no `{key}`", "remove it", "key")
    for name, task in document["tasks"].items():
        if "pools" in task:
            reader.problem_at(("tasks", name, "pools"), f"{why}, so it takes no pools", "remove them", "key")
        for counted in ("memory", "disk", "gpu", "max_per_node"):
            if counted in task.get("requires", ()):
                fix = "remove it, or ask for a label or a capability"
                path = ("tasks", name, "requires", counted)
                reader.problem_at(path, f"{why}, so it reserves no `{counted}`", fix, "key")


def _unknown_need(reader: Reader, written: Written, name: str, need: str, position: dict[str, int]) -> None:
    path = written.need(name, need) or written.task(name)[0]
    if has_expression(need):
        reader.problem_at(path, *NO_EXPRESSION)
        return
    fix = reader.did_you_mean(need, position)
    if fix is None and len(position) <= 12:
        fix = "known tasks: " + ", ".join(position)
    reader.problem_at(path, f"the task {quoted(name)} needs {quoted(need)}, which does not exist", fix)


def check_encoding(reader: Reader, document: Document) -> None:
    """Lone surrogates come in through JSON escapes and Python texts, and no store can keep them."""
    try:
        encode_document(document)
        return
    except UnicodeEncodeError:
        pass
    stack: list[tuple[Path, Any]] = [((), document)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, dict):
            for key, inner in reversed(item.items()):
                if not encodes(key):
                    reader.problem_at((*path, key), "the key holds half a character (a lone surrogate)", at="key")
                stack.append(((*path, key), inner))
        elif isinstance(item, (list, tuple)):
            stack += [((*path, at), inner) for at, inner in reversed(list(enumerate(item)))]
        elif isinstance(item, str) and not encodes(item):
            reader.problem_at(path, "the text holds half a character (a lone surrogate)", "remove it")
