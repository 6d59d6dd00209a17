"""What the Cloud Run Admin API v2 answers, as far as Weft reads it. Fields that are zero or empty are left out by the
API."""

from typing import Any

import msgspec


class RpcStatus(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class Variable(msgspec.Struct):
    name: str = ""
    value: str = ""


class ContainerTemplate(msgspec.Struct):
    env: list[Variable] = []


class TaskTemplate(msgspec.Struct, frozen=True):
    containers: list[ContainerTemplate] = []


class ExecutionCondition(msgspec.Struct, rename="camel"):
    type: str = ""
    state: str = ""
    message: str = ""
    reason: str = ""
    execution_reason: str = ""


class Execution(msgspec.Struct, rename="camel"):
    name: str = ""
    create_time: str = ""
    start_time: str = ""
    completion_time: str = ""
    task_count: int = 0
    running_count: int = 0
    succeeded_count: int = 0
    failed_count: int = 0
    cancelled_count: int = 0
    retried_count: int = 0
    log_uri: str = ""
    conditions: list[ExecutionCondition] = []
    template: TaskTemplate = TaskTemplate()

    @property
    def completed(self) -> ExecutionCondition | None:
        """The condition that says how it ended; None: it has not."""
        for condition in self.conditions:
            if condition.type == "Completed" and condition.state in ("CONDITION_SUCCEEDED", "CONDITION_FAILED"):
                return condition if self.running_count == 0 else None
        if self.completion_time and self.running_count == 0:
            whole = self.succeeded_count >= max(1, self.task_count)
            return ExecutionCondition("Completed", "CONDITION_SUCCEEDED" if whole else "CONDITION_FAILED")
        return None

    def marker(self, variable: str) -> str | None:
        for container in self.template.containers:
            for one in container.env:
                if one.name == variable:
                    return one.value
        return None


class ExecutionPage(msgspec.Struct, rename="camel"):
    executions: list[Execution] = []
    next_page_token: str = ""


class AttemptResult(msgspec.Struct, rename="camel"):
    exit_code: int | None = None
    status: RpcStatus = RpcStatus()


class ExecutionTask(msgspec.Struct, rename="camel"):
    """One of the tasks of an execution; without `index` it is the first."""

    index: int = 0
    retried: int = 0
    completion_time: str = ""
    last_attempt_result: AttemptResult | None = None

    @property
    def failed(self) -> bool:
        result = self.last_attempt_result
        return result is not None and (bool(result.exit_code) or result.status.code != 0)


class ExecutionTaskPage(msgspec.Struct, rename="camel"):
    tasks: list[ExecutionTask] = []
    next_page_token: str = ""


class LongRunningOperation(msgspec.Struct, rename="camel"):
    """A long-running one. Its metadata is the execution, once that has a name."""

    name: str = ""
    done: bool = False
    error: RpcStatus | None = None
    metadata: dict[str, Any] = {}
    response: dict[str, Any] = {}

    @property
    def execution(self) -> str | None:
        name = self.metadata.get("name") or self.response.get("name")
        return name if isinstance(name, str) and "/executions/" in name else None


class ErrorAnswer(msgspec.Struct):
    class Body(msgspec.Struct, frozen=True):
        code: int = 0
        message: str = ""
        status: str = ""

    error: Body = Body()
