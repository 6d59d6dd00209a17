"""Checks of how tasks are run and tried again that depend on the defaults too: images, retries that can happen."""

from typing import Any, Final

from weft.core.definition.field_types.remote_fields import IN_CONTAINER, container_of
from weft.core.definition.field_types.retry_fields import FAILURE_WORDS, contradictions
from weft.core.definition.problems import Path, ProblemCollector, quoted
from weft.core.definition.source_paths import SourcePaths

_NOT_SEEN: Final = "only container and kubernetes tasks say that they ran out of memory"
_CHOOSING: Final = ("on", "not_on", "memory")


def check_attempts(
    collector: ProblemCollector, source: SourcePaths, tasks: dict[str, Any], defaults: dict[str, Any]
) -> None:
    """A task has an image if it runs in a container, and its `retry` can do what it says."""
    shared = defaults.get("container")
    if shared and "image" not in shared:
        _check_shared_image(collector, tasks)
    for name, task in tasks.items() if shared else ():
        if "container" not in task and "kubernetes" not in task:
            _check_shared_container(collector, source.task(name)[0], task)
    for name, task in tasks.items():
        if "retry" not in task and "container" not in task and "kubernetes" not in task:
            continue
        elsewhere = "cloud_run" in task or "type" in task  # a plugin's attempts may run on engines
        path, written = source.task(name)
        container = container_of(task, defaults)
        remote = container is not None or "kubernetes" in task
        if "retry" in task:
            _Retries(collector, (*path, "retry"), task, defaults.get("retry", {}), remote, elsewhere).check()
        for key, remote_spec in (("container", container), ("kubernetes", task.get("kubernetes"))):
            if key not in task or remote_spec is None or "image" in remote_spec:
                continue
            at = key if isinstance(written, dict) and key in written else "spec"
            given = written.get(at) if isinstance(written, dict) else None
            if not (isinstance(given, dict) and "image" in given):  # else its problem was reported already
                fix = "add image: …" + (", here or in defaults.container" if key == "container" else "")
                collector.problem_at((*path, at), f"`{key}` of the task {quoted(name)} has no image", fix, "key")


def _check_shared_container(collector: ProblemCollector, path: Path, task: dict[str, Any]) -> None:
    """Of a task that runs in the container of the defaults."""
    said = "defaults.container says that it runs in a container"
    if isinstance(task.get("python"), dict):
        collector.problem_at((*path, "python"), f"{said}, whose image has its Python", "add container: null", "key")
    for key in ("artifacts", "files"):
        if key in task and any(kind in task for kind in IN_CONTAINER):
            collector.problem_at((*path, key), f"{said}, whose files stay there", "add container: null", "key")


def _check_shared_image(collector: ProblemCollector, tasks: dict[str, Any]) -> None:
    """Reported once: all tasks of such a definition would have the same problem."""
    for name, task in tasks.items():
        if "container" not in task and "kubernetes" not in task and any(key in task for key in IN_CONTAINER):
            collector.problem_at(
                ("defaults", "container"),
                f"the container of the task {quoted(name)} has no image: there is none in defaults.container",
                "add image: …, or say container: null in tasks without a container",
                "key",
            )
            return


class _Retries:
    """The checks of one task's `retry`, at its path."""

    def __init__(
        self,
        collector: ProblemCollector,
        path: Path,
        task: dict[str, Any],
        shared: dict[str, Any],
        remote: bool,
        elsewhere: bool,
    ) -> None:
        self._collector = collector
        self._path = path
        self._task = task
        self._own: dict[str, Any] = task["retry"]
        self._merged = {**shared, **self._own}
        self._remote = remote
        self._elsewhere = elsewhere

    def check(self) -> None:
        known = contradictions(self._own)
        for key, message, fix in contradictions(self._merged):
            if (key, message, fix) not in known:
                self._problem(key, f"{message} (with the keys of defaults.retry)", fix)
        if "workflow" in self._task:
            self._check_child()
            return
        if self._own.get("on_lost") == "adopt" and not self._remote and not self._elsewhere:
            message = "a process ends with its node, so no later attempt can adopt it: adopt is for container,"
            self._problem("on_lost", f"{message} kubernetes and cloud_run tasks", "use true or false")
        if "memory" in self._own:
            self._check_memory()
        self._check_failures()

    def _check_child(self) -> None:
        for key in (*_CHOOSING, *(["on_lost"] if self._own.get("on_lost") == "adopt" else [])):
            if key in self._own:
                message = f"`{key}` is about attempts, and this task runs another workflow, whose tasks have them"
                self._problem(key, message, "set it in that workflow")

    def _check_memory(self) -> None:
        required = "memory" in self._task.get("requires", ()) or "minMemoryMb" in self._task.get("constraints", ())
        if not self._remote:
            self._problem("memory", _NOT_SEEN, "remove it")
        elif not required:
            self._problem(
                "memory",
                "`memory` multiplies what the task requires, and it requires none",
                "add requires: {memory: …}",
            )
        elif not self._merged.get("max"):
            self._problem("memory", "no retry is allowed that could have more memory", "add max: 3")

    def _check_failures(self) -> None:
        failures = self._own.get("on", ())
        if "oom" in failures and not self._remote:
            self._problem("on", _NOT_SEEN, "remove oom")
        if any(failure != "lost" for failure in failures) and not self._merged.get("max"):
            self._problem("on", "`on` names failures that are retried, and no retry is allowed", "add max: 3")
        names = [one for one in failures if isinstance(one, str) and one not in FAILURE_WORDS]
        if names and not any(kind in self._task for kind in ("python", "inline", "type")):
            message = f"a command ends with an exit code, and raises no {names[0]}"
            self._problem("on", message, "use the exit code, e.g. on: [75]")

    def _problem(self, key: str, message: str, fix: str) -> None:
        self._collector.problem_at((*self._path, key), message, fix, "key" if key in self._own else "value")
