"""What tools take besides what operations declare: pages are shorter, and some tools wait."""

from typing import Annotated

from msgspec import Meta

from weft.operations.declare import Request
from weft.operations.parameters import TaskRef, WorkflowName
from weft.operations.submission import KEY_MAX, PRIORITY_MAX

LIMIT_MAX = 100
WAIT_MAX_S = 50  # many clients give up on a call after a minute

Workflow = Annotated[WorkflowName, Meta(description="A workflow that the store knows")]
OnlyTask = Annotated[TaskRef | None, Meta(description="A task's name or an element's; a run of one task needs none")]
Version = Annotated[
    str, Meta(pattern="^[0-9a-f]{4,64}$", description="A version's hash or the beginning of one; default: the newest")
]
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="At most so many lines")]
WaitS = Annotated[
    float,
    Meta(ge=0, le=WAIT_MAX_S, description="Wait so many seconds for the end; 0 shows how it is now"),
]
Priority = Annotated[int, Meta(ge=0, le=PRIORITY_MAX, description="Higher goes first")]
Key = Annotated[
    str, Meta(min_length=1, max_length=KEY_MAX, description="One run per key for ever: a call sent again starts none")
]


class Arguments(Request):
    """The arguments of a tool. A misspelt name must not pass for something left out."""
