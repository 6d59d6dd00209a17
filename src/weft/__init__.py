"""Weft runs graphs of tasks, durably and in parallel.

    from weft import flow, task

    @task(retries=3)
    def extract(day: str) -> list[str]: ...

    @flow
    def nightly(day: str) -> list[str]:
        return extract(day)

    nightly.run(day="2026-01-01")

What is named here is imported when it is asked for: `import weft` alone costs nothing.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from weft.authoring.errors import DefinitionErrors as DefinitionErrors
    from weft.authoring.sdk_errors import FlowError as FlowError
    from weft.authoring.sdk_tasks import Task as Task
    from weft.authoring.sdk_tasks import shell as shell
    from weft.authoring.sdk_tasks import task as task
    from weft.authoring.sdk_tasks import wait as wait
    from weft.control.client import Client as Client
    from weft.control.embedded import Closed as Closed
    from weft.control.embedded import RunFailed as RunFailed
    from weft.control.embedded import TaskFailure as TaskFailure
    from weft.control.embedded import Weft as Weft
    from weft.control.embedded import open as open
    from weft.control.flows import Flow as Flow
    from weft.control.flows import flow as flow
    from weft.executors.python_functions.attempt_context import Stopped as Stopped
    from weft.executors.python_functions.attempt_context import context_update as context_update
    from weft.executors.python_functions.attempt_context import variables as variables
    from weft.executors.python_functions.current_attempt import CurrentAttempt as CurrentAttempt
    from weft.executors.python_functions.current_attempt import current as current
    from weft.executors.python_functions.current_attempt import fake_attempt as fake_attempt
    from weft.executors.python_functions.once import AttemptOver as AttemptOver
    from weft.executors.python_functions.once import OutcomeUnknown as OutcomeUnknown
    from weft.executors.python_functions.once import once as once

_HOMES = {
    "flow": "weft.control.flows",
    "Flow": "weft.control.flows",
    "task": "weft.authoring.sdk_tasks",
    "Task": "weft.authoring.sdk_tasks",
    "shell": "weft.authoring.sdk_tasks",
    "wait": "weft.authoring.sdk_tasks",
    "Client": "weft.control.client",
    "open": "weft.control.embedded",
    "Weft": "weft.control.embedded",
    "Closed": "weft.control.embedded",
    "RunFailed": "weft.control.embedded",
    "TaskFailure": "weft.control.embedded",
    "FlowError": "weft.authoring.sdk_errors",
    "Stopped": "weft.executors.python_functions.attempt_context",
    "context_update": "weft.executors.python_functions.attempt_context",
    "current": "weft.executors.python_functions.current_attempt",
    "fake_attempt": "weft.executors.python_functions.current_attempt",
    "CurrentAttempt": "weft.executors.python_functions.current_attempt",
    "variables": "weft.executors.python_functions.attempt_context",
    "once": "weft.executors.python_functions.once",
    "OutcomeUnknown": "weft.executors.python_functions.once",
    "AttemptOver": "weft.executors.python_functions.once",
    "DefinitionErrors": "weft.authoring.errors",
}


if not TYPE_CHECKING:  # a type checker knows the names above, and no others

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
