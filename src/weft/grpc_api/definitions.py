"""Tasks and workflows in messages as definitions: the long form of tasks, which Weft reads anyway. What is wrong with
them is found where definitions are read, and named by the keys of that form."""

from typing import Any, Final

from weft.grpc_api.messages import object_in, values_of
from weft.operations.errors import ApiError

ALONE: Final = "task"  # the name of a task without one
_SPEC: Final = (("command", "command"), ("argv", "argv"), ("env", "env"), ("cwd", "cwd"), ("timeout_ms", "timeoutMs"))


def task_run(message: Any) -> dict[str, Any]:
    """Of a SubmitTaskRequest: the values of a request to run one task alone."""
    if not message.HasField("spec"):
        raise ApiError("body", "'spec' is missing", "spec: {command: …}")
    values = values_of(message)
    task = _long_form(message.spec)
    values.pop("spec")
    return {**values, "name": task.pop("key", ALONE), "task": task}


def workflow_run(message: Any) -> dict[str, Any]:
    """Of a SubmitWorkflowRequest: the values of a request to run tasks given here, a definition, or a workflow that
    the store knows."""
    options = object_in("options_json", message.options_json)
    tasks = [_member(one, number) for number, one in enumerate(message.tasks)]
    named = [name for name in ("definition", "workflow") if message.HasField(name)]
    if named and (tasks or options):
        detail = f"expected one of tasks, definition and workflow, found tasks or options_json beside {named[0]}"
        raise ApiError("body", detail, "keep one of them")
    values = values_of(message)
    values.pop("tasks", None)
    values.pop("options", None)
    if not named:
        name = values.pop("name", None)
        values["definition"] = {**({} if name is None else {"name": name}), **options, "tasks": tasks}
    return values


def _member(message: Any, number: int) -> dict[str, Any]:
    if not message.HasField("spec"):
        raise ApiError("body", f"tasks[{number}]: 'spec' is missing", "spec: {name: …, command: …}")
    task = _long_form(message.spec)
    if message.depends_on:
        task["dependsOn"] = list(message.depends_on)
    if message.HasField("condition"):
        task["condition"] = message.condition
    return task


def _long_form(message: Any) -> dict[str, Any]:
    values = values_of(message)
    spec = {key: values[name] for name, key in _SPEC if name in values}
    task: dict[str, Any] = {"type": values.get("type", "shell")}
    if "name" in values:
        task["key"] = values["name"]
    task["spec"] = {**object_in("spec_json", message.spec_json), **spec}
    if message.HasField("constraints"):
        task["constraints"] = _camel_case(message.constraints)
    if message.HasField("retry_policy"):
        task["retryPolicy"] = _camel_case(message.retry_policy)
    if "priority" in values:
        task["priority"] = values["priority"]
    return {**object_in("options_json", message.options_json), **task}


def _camel_case(message: Any) -> dict[str, Any]:
    """As definitions call its fields. A number that is whole is written as one."""
    return {field.json_name: _plain(value) for field, value in message.ListFields()}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value if isinstance(value, (str, int)) else list(value)
