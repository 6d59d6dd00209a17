"""What tools take: names, pages and times, each said once with what it may look like."""

from typing import Annotated

import msgspec
from msgspec import Meta

from weft.api.parameters import TASK_PATTERN
from weft.control.submission import KEY_MAX, PRIORITY_MAX

LIMIT_MAX = 100
WAIT_MAX_S = 50  # many clients give up on a call after a minute

Run = Annotated[
    str, Meta(pattern=r"^[0-9a-z-]{1,64}$", description="A run's id, a unique beginning of one, or `last`")
]
Task = Annotated[
    str, Meta(pattern=TASK_PATTERN, description="A task's name, or an element's of a mapped task (`transform.3`)")
]
OnlyTask = Annotated[Task | None, Meta(description="A task's name or an element's; a run of one task needs none")]
Node = Annotated[
    str,
    Meta(pattern=r"^[^/\x00-\x1f\x7f]{1,64}$", description="A node's name, its session, or a unique beginning of it"),
]
WorkflowName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,128}$", description="A workflow that the store knows")]
Version = Annotated[
    str, Meta(pattern="^[0-9a-f]{4,64}$", description="A version's hash or the beginning of one; default: the newest")
]
Cursor = Annotated[str, Meta(max_length=512, description="`next` of the page before, as it is")]
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="At most so many lines")]
WaitS = Annotated[
    float,
    Meta(ge=0, le=WAIT_MAX_S, description="Wait so many seconds for the end; 0 tells how it is now"),
]
Reason = Annotated[str, Meta(max_length=1000, description="Kept in the history")]
Priority = Annotated[int, Meta(ge=0, le=PRIORITY_MAX, description="Higher goes first")]
Key = Annotated[
    str, Meta(min_length=1, max_length=KEY_MAX, description="One run per key for ever: a call said again starts none")
]
Directory = Annotated[
    str,
    Meta(min_length=1, max_length=4096, description="Where tasks start: an absolute path; default: where Weft began"),
]


class Given(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool. A slip of the pen must not pass for something left out."""
