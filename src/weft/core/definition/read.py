"""Reads a definition: a plain value from YAML, JSON or Python becomes the canonical document, or all of its problems.

The canonical document is what is stored and hashed. It is in the short form, has its keys in the order of the
field table and its tasks in the author's order (positions depend on it), and reading it again changes nothing.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from weft.core.definition.child_workflows import OF_CHILDREN
from weft.core.definition.container_types import Record
from weft.core.definition.durations import format_duration
from weft.core.definition.expression_checks import ExpressionChecker
from weft.core.definition.fields import (
    COMMAND,
    DEFAULTS,
    KINDS,
    OF_WAITS,
    TASK,
    TASK_NAME,
    TASKS_MAX,
    workflow_record,
)
from weft.core.definition.inferred_needs import all_edges
from weft.core.definition.inputs import INPUTS, define_inputs
from weft.core.definition.long_form import LONG_TASK, is_long, read_long
from weft.core.definition.problems import (
    BAD,
    NO_EXPRESSION,
    Path,
    Problem,
    Reader,
    encodes,
    has_expression,
    mismatch,
    quoted,
)
from weft.core.definition.site_defaults import SiteDefaults
from weft.core.definition.source_paths import NAME_KEYS, Written
from weft.core.definition.task_references import Mentions, names_element
from weft.core.definition.triggers import TRIGGERS, check_triggers
from weft.core.graph import cycles_of, successors_of

Document = dict[str, Any]


class Reading(msgspec.Struct, frozen=True):
    """`document` is None if there are problems; `more` counts those left out of the list."""

    document: Document | None
    problems: tuple[Problem, ...]
    more: int = 0
    mentions: Mentions = {}  # what its expressions name: the compiler need not parse them again


def read(value: Any, name: str = "workflow") -> Reading:
    """`name` is the workflow's if the value gives none."""
    reader = Reader()
    mentions: Mentions = {}
    document = _read_document(reader, value, name, mentions)
    if document is not BAD and not reader.problems:
        _check_encoding(reader, document)
    if document is BAD or reader.problems:
        return Reading(None, tuple(reader.problems), reader.more)
    return Reading(document, (), mentions=mentions)


def encode_document(document: Document) -> bytes:
    return msgspec.json.encode(document)


def decode_document(data: bytes | str) -> Document:
    return cast(Document, msgspec.json.decode(data))


def document_hash(document: Document) -> str:
    return hashlib.sha256(encode_document(document)).hexdigest()


def completed(document: Document, defaults: SiteDefaults) -> Document:
    """With the settings of a site where the document says nothing. They are part of what is stored, so that a run
    means the same wherever it goes on; its hash is the one of a document in which they are written."""
    out = dict(document)
    policy = defaults.on_failure
    if policy is not None and not (policy == "continue" and document.get("mode") == "levels"):  # which cannot
        out.setdefault("on_failure", policy)
    if defaults.task_timeout_ms is not None:
        timeout = format_duration(defaults.task_timeout_ms)
        out["defaults"] = _in_order({"timeout": timeout, **document.get("defaults", {})}, DEFAULTS)
    return _in_order(out, WORKFLOW)


def _in_order(value: dict[str, Any], record: Record) -> dict[str, Any]:
    """As reading would have made it: the order of the keys counts for the hash."""
    names = [field.target or field.name for field in record.fields]
    return {name: value[name] for name in dict.fromkeys(names) if name in value}


def _read_document(reader: Reader, value: Any, name: str, mentions: Mentions) -> Any:
    if isinstance(value, (list, tuple)):
        document = {"name": name, "chain": True, "tasks": _read_chain(reader, value)}
    elif isinstance(value, dict):
        document = {"name": name, **WORKFLOW.read(reader, value)}
        if "tasks" not in value:
            at = next((key for key in value if isinstance(key, str) and key.lower() in ("jobs", "steps")), None)
            return reader.problem("the workflow has no tasks", f"rename '{at}' to tasks" if at else "add tasks:")
    else:
        return mismatch(reader, "a workflow: a mapping with tasks, or a list of commands", value)
    tasks = document.get("tasks", BAD)
    if tasks is BAD:
        return BAD
    written = Written(value)
    checker = ExpressionChecker(reader, written, tasks, _declared_inputs(value), document.get("defaults", {}))
    _check_graph(reader, written, checker, tasks)
    _check_signals(reader, written, tasks)
    _check_secrets(reader, written, tasks, document)
    _check_mode(reader, document)
    for key in ("env", "defaults"):
        checker.shared((key,), document.get(key))
    checker.output(("output",), document.get("output"))
    if document.get("triggers"):
        good = not any(problem.path[:1] == ("inputs",) for problem in reader.problems)
        check_triggers(reader, document, define_inputs(document.get("inputs", {})) if good else None)
    mentions.update(checker.mentions)
    return document


def _declared_inputs(value: Any) -> dict[str, Any] | None:
    """As written: an input whose declaration is wrong is there all the same."""
    inputs = value.get("inputs", {}) if isinstance(value, dict) else {}
    return inputs if isinstance(inputs, dict) else None


def _read_chain(reader: Reader, value: Any) -> Any:
    """A bare list: each task needs the one before it, unless it says itself what it needs."""
    if not value:
        return reader.problem("the list of commands is empty", "add a command")
    out: dict[str, Any] = {}
    last: str | None = None
    for at, item in enumerate(value):
        reader.path.append(at)
        name = item.get("name", f"t{at + 1}") if isinstance(item, dict) else f"t{at + 1}"
        task = _read_task(reader, item, ("name",))
        name = _read_name(reader, name, out, "name")
        reader.path.pop()
        if name is BAD:
            continue
        says_needs = isinstance(item, dict) and ("needs" in item or "dependsOn" in item)
        if task is not BAD and last is not None and not says_needs:
            task = _ordered({**task, "needs": [last]})
        out[name] = {} if task is BAD else task
        last = name
    return out


def _read_name(reader: Reader, name: Any, others: dict[str, Any], key: str) -> Any:
    reader.path.append(key)
    good = TASK_NAME.read(reader, name)
    if good is not BAD and good in others:
        good = reader.problem(f"there are two tasks named {quoted(name)}", "give one of them another name")
    reader.path.pop()
    return good


@dataclass(frozen=True, slots=True)
class Tasks:
    """A mapping of names to tasks, or a list of tasks that name themselves. A task that could not be read is
    kept empty, so that those which need it are not blamed too."""

    def read(self, reader: Reader, value: Any) -> Any:
        if not isinstance(value, (list, tuple, dict)):
            return mismatch(reader, "a mapping of names to tasks", value, "write tasks as `name: command`")
        if not value:
            return reader.problem("the workflow has no tasks", "add a task, e.g. hello: echo hello")
        if len(value) > TASKS_MAX:
            return reader.problem(f"the workflow has {len(value):,} tasks; {TASKS_MAX:,} is the limit")
        return self._read_list(reader, value) if not isinstance(value, dict) else self._read_map(reader, value)

    def _read_map(self, reader: Reader, value: dict[Any, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        path = reader.path
        path.append("")
        for name, item in value.items():
            path[-1] = name
            before = len(reader.problems)
            if TASK_NAME.read(reader, name) is BAD:
                reader.problems[before:] = [msgspec.structs.replace(p, at="key") for p in reader.problems[before:]]
            task = _read_task(reader, item, ())
            out[name] = {} if task is BAD else task
            if isinstance(item, dict):
                _same_name(reader, item, name)
        path.pop()
        return out

    def _read_list(self, reader: Reader, value: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for at, item in enumerate(value):
            reader.path.append(at)
            name, key = BAD, "name"
            if isinstance(item, dict):
                key = next((key for key in NAME_KEYS if key in item), "")
                if key:
                    name = _read_name(reader, item[key], out, key)
                else:
                    reader.problem("a task in a list must say its name", "add `key: …`, or write tasks as a mapping")
                task = _read_task(reader, item, NAME_KEYS)
                if name is not BAD:
                    out[name] = {} if task is BAD else task
            else:
                mismatch(
                    reader, "a task with its name", item,
                    "write tasks as `name: command`; a list of commands can only be the whole file",
                )  # fmt: skip
            reader.path.pop()
        return out

    def schema(self) -> dict[str, Any]:
        by_name = {
            "type": "object",
            "propertyNames": TASK_NAME.schema(),
            "additionalProperties": {"$ref": "#/$defs/task"},
            "minProperties": 1,
        }
        listed = {"type": "array", "items": {"$ref": "#/$defs/namedTask"}, "minItems": 1}
        return {"anyOf": [by_name, listed]}


WORKFLOW: Final = workflow_record(Tasks(), INPUTS, TRIGGERS)


def _same_name(reader: Reader, item: dict[Any, Any], name: str) -> None:
    for key in ("key", "id"):
        if key in item and is_long(item) and isinstance(item[key], str) and item[key] != name:
            reader.problem_at((*reader.path, key), f"the task is named {quoted(name)} already", "remove this key")


def _read_task(reader: Reader, value: Any, name_keys: tuple[str, ...]) -> Any:
    """One task in canonical form. `name_keys` are not options of it: whoever lists the tasks reads them."""
    if isinstance(value, (str, bool)):
        command = COMMAND.read(reader, value)
        return BAD if command is BAD else {"run": command}
    if not isinstance(value, dict):
        return mismatch(reader, "a task: a command, or a mapping with `run`", value)
    if is_long(value):
        return _checked(reader, value, read_long(reader, value))
    if name_keys:
        value = {key: item for key, item in value.items() if key not in name_keys}
    out = TASK.read(reader, value)
    if "condition" in out:
        out["long_form"] = True
    kinds = [kind for kind in KINDS if kind in value]
    if len(kinds) > 1:
        reader.problem(f"a task has only one of {' and '.join(kinds)}", "split it into two tasks", at="key")
    elif not kinds and not reader.slip(value, TASK.by_name, KINDS):
        reader.problem("the task does nothing", "add `run: …` or `argv: […]`", at="key")
    return _checked(reader, value, out)


def _checked(reader: Reader, value: dict[Any, Any], out: Any) -> Any:
    """What depends on more than one key of a task."""
    if out is BAD:
        return BAD
    if not out.get("needs", True):
        del out["needs"]
    if "shell" in out and "run" not in value:
        reader.problem_at((*reader.path, "shell"), "`shell` has a meaning for `run` only", "remove it", "key")
    if "wait" in value:
        _check_wait(reader, value)
    else:
        _check_elements(reader, value)
        _check_cache(reader, value, out)
    if "inline" in value and "secrets" in out:
        fix = "an inline function runs in the node itself, which has its environment: remove it"
        reader.problem_at((*reader.path, "secrets"), "`secrets` has no meaning for `inline`", fix, "key")
    if "workflow" in value:
        _check_child(reader, value)
    if "if" in out and "condition" in out:
        reader.problem_at((*reader.path, "condition"), "`if` and `condition` say the same", "keep one", "key")
    return out


def _check_elements(reader: Reader, value: dict[Any, Any]) -> None:
    """What is said about elements needs something to make them from."""
    if "map" in value and "replicas" in value:
        reader.problem_at(
            (*reader.path, "replicas"), "a task has only one of map and replicas", "remove one of them", "key"
        )
    if "batch" in value and "map" not in value:
        reader.problem_at(
            (*reader.path, "batch"), "`batch` has a meaning for `map` only", "add map, or remove it", "key"
        )
    if "map" in value or "replicas" in value:
        return
    for key, what in (("max_parallel", "limits its elements"), ("tolerate", "is about its elements")):
        if key in value:
            fix = "add map or replicas, or " + (
                "set max_parallel on the workflow" if key == "max_parallel" else "remove it"
            )
            reader.problem_at((*reader.path, key), f"on a task, `{key}` {what}, and it has none", fix, "key")


def _check_cache(reader: Reader, value: dict[Any, Any], out: dict[str, Any]) -> None:
    """A key must tell apart what gives different results."""
    cache = out.get("cache", False)
    if cache is False:
        return
    key = cache.get("key") if isinstance(cache, dict) else None
    path = (*reader.path, "cache")
    if key is None and "inline" in value:
        reader.problem_at(
            path, "nobody can see the source of an inline function, so its result has no key", "add cache: {key: …}"
        )
    if key is not None and ("map" in value or "replicas" in value) and not names_element(key):
        reader.problem_at(
            (*path, "key"),
            "all elements would share one result under this key",
            "put ${{ item }} or ${{ index }} into it",
        )


def _check_wait(reader: Reader, value: dict[Any, Any]) -> None:
    """A wait runs nowhere: whatever is about running has no meaning for it."""
    for key in value:
        known = TASK.by_name.get(key) if isinstance(key, str) else None
        if known is None or known.later or key in KINDS or key in OF_WAITS:
            continue
        fix = "remove it"
        if key == "timeout":
            fix = "write it inside: wait: {signal: …, timeout: 24h}"
        elif key in ("map", "replicas"):
            fix = "one wait can't be many: let the tasks before it be mapped"
        reader.problem_at((*reader.path, key), f"`{key}` has no meaning for a wait", fix, "key")


def _check_child(reader: Reader, value: dict[Any, Any]) -> None:
    """Another workflow runs by its own definition: what is about running belongs there."""
    for key in value:
        known = TASK.by_name.get(key) if isinstance(key, str) else None
        if known is None or known.later or key in KINDS or key in OF_CHILDREN or key == "shell":
            continue
        fix = "set it there" if key != "env" else "set it there, or pass it on in with"
        reader.problem_at((*reader.path, key), f"`{key}` belongs into the workflow that is run", fix, "key")


def _ordered(task: dict[str, Any]) -> dict[str, Any]:
    return {key: task[key] for key in sorted(task, key=TASK.rank.__getitem__)}


def _check_graph(reader: Reader, written: Written, checker: ExpressionChecker, tasks: dict[str, Any]) -> None:
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


def _check_signals(reader: Reader, written: Written, tasks: dict[str, Any]) -> None:
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


def _check_secrets(reader: Reader, written: Written, tasks: dict[str, Any], document: Document) -> None:
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


def _check_mode(reader: Reader, document: Document) -> None:
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


def _check_encoding(reader: Reader, document: Document) -> None:
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


__all__ = ["LONG_TASK", "WORKFLOW", "Document", "Reading", "decode_document", "document_hash",
           "encode_document", "read"]  # fmt: skip
