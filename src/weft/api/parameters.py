"""Names in paths and queries, and what they may look like."""

from typing import Annotated

from fastapi import Path, Query

from weft.core.states import RunState, TaskState

TASK_PATTERN = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}(\.[0-9]{1,9})?$"

Run = Annotated[
    str, Path(pattern=r"^[0-9a-z-]{1,64}$", description="A run's id, a unique beginning of one, or `last`")
]
Task = Annotated[str, Path(pattern=TASK_PATTERN, description="A task's name, or an element's (`transform.3`)")]
Node = Annotated[
    str,
    Path(
        pattern=r"^[^/\x00-\x1f\x7f]{1,64}$",
        description="A node's name, its session, or a unique beginning of that",
    ),
]
WorkflowName = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,128}$", description="A workflow's name")]
Hash = Annotated[str, Path(pattern=r"^[0-9a-f]{4,64}$", description="A version's hash, or a unique beginning of it")]
WholeHash = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="A version's hash")]
HashQuery = Annotated[
    str | None, Query(pattern=r"^[0-9a-f]{4,64}$", description="A version's hash, or the beginning of it")
]
PoolName = Annotated[str, Path(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$", description="A pool's name")]

RunStates = Annotated[
    list[RunState] | None, Query(alias="state", description="Only runs in this state; may be repeated")
]
TaskStates = Annotated[
    list[TaskState] | None, Query(alias="state", description="Only tasks in this state; may be repeated")
]
Moment = Annotated[int | None, Query(ge=0, le=2**53, description="A moment of the store's clock, in ms since 1970")]
