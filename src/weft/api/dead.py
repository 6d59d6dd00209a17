"""Dead letters: tasks whose retries are used up."""

from typing import Annotated

import msgspec

from weft.api import replies as r
from weft.api.paging import Cursor, Limit, cursor, keys
from weft.api.parameters import TASK_PATTERN, Run
from weft.api.routes import BODY, Asking, Routes
from weft.api.runs import changed

routes = Routes("dead letters")


@routes("GET", "/v1/dead", role="viewer", reply=r.TaskPage)
def list_dead(control: Asking, cursor_: Cursor = None, limit: Limit = 100) -> r.TaskPage:
    """List dead letters of all runs."""
    at = keys(cursor_, "dead", int)
    tasks, after = control.dead_letters(after=0 if at is None else at[0], limit=limit)
    return r.TaskPage(tasks=tasks, next=None if after is None else cursor("dead", after))


class RetryBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    #: Only these, and what needs them; without it, all of the run.
    tasks: (
        Annotated[
            list[Annotated[str, msgspec.Meta(pattern=TASK_PATTERN)]], msgspec.Meta(min_length=1, max_length=1000)
        ]
        | None
    ) = None


@routes(
    "POST", "/v1/runs/{run}/dead/retry", role="operator", reply=r.Changed, refused=(404, 409),
    example={"tasks": ["load"]},
)  # fmt: skip
def retry_dead(control: Asking, run: Run, body: Annotated[RetryBody, BODY]) -> r.Changed:
    """Run dead letters of a run that has ended again, and what needs them."""
    return changed(control.retry_dead(run, body.tasks))
