"""What only a server has: health checks, metrics, webhooks and the page. Carried out by hand in api/."""

from typing import Annotated

import msgspec
from msgspec import Meta

from weft.operations.declare import NoArguments, Request, Resource
from weft.operations.errors import FINDABLE
from weft.operations.parameters import TIME_MAX, Limit, RunRef, RunStates
from weft.operations.replies import CallerInfo

resource = Resource("server")


class Health(msgspec.Struct, kw_only=True):
    status: str
    version: str


healthz = resource.handwritten(
    "healthz", "GET", "/healthz", "The process is alive. The store is not asked.",
    role="anyone", request=NoArguments, reply=Health,
)  # fmt: skip
readyz = resource.handwritten(
    "readyz", "GET", "/readyz", "The store answers and takes writes, and the server takes requests; else 503.",
    role="anyone", request=NoArguments, reply=Health, errors=("not_ready",),
)  # fmt: skip
get_caller = resource.handwritten(
    "get_caller", "GET", "/v1/caller",
    "Whose token this is, and the role that decides what it may do; never more than viewer where an observer serves.",
    role="viewer", request=NoArguments, reply=CallerInfo,
)  # fmt: skip
get_metrics = resource.handwritten(
    "get_metrics", "GET", "/metrics",
    "Figures for Prometheus. What nodes have counted comes from them every ten seconds, all else is of now.",
    role="viewer", request=NoArguments, media="text/plain", errors=("no_metrics",),
)  # fmt: skip


class HookTaken(msgspec.Struct, kw_only=True):
    """What became of the call: started, queued, skipped, failed, or ignored because its condition did not hold."""

    trigger: str
    outcome: str
    run: str | None
    existing: bool  # this delivery had come before


class CallHookRequest(Request):
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,128}$", description="The webhook's name")]


HOOK_ERRORS = (
    "delivery", "unauthorized", "not_found", "paused", "conflict", "observer", "too_large", "condition",
    "rate_limited", "secret_missing",
)  # fmt: skip
post_hook = resource.handwritten(
    "post_hook", "POST", "/v1/hooks/{name}",
    """
    Start a run through a webhook. The body becomes `trigger.body`; it is signed with HMAC-SHA256 in
    X-Weft-Signature (or X-Hub-Signature-256), or comes with a bearer token, as the trigger says. A signed delivery
    needs an id (Idempotency-Key, X-GitHub-Delivery) or a time (X-Weft-Timestamp, signed with it): one that comes
    again starts no second run.
    """,
    role="anyone", request=CallHookRequest, reply=HookTaken, statuses=(202, 200), errors=HOOK_ERRORS,
    example={"ref": "refs/tags/v1"}, any_body=True,
)  # fmt: skip
put_hook = resource.handwritten(
    "put_hook", "PUT", "/v1/hooks/{name}",
    "Start a run through a webhook, for callers that PUT. Otherwise like POST.",
    role="anyone", request=CallHookRequest, reply=HookTaken, statuses=(202, 200), errors=HOOK_ERRORS,
    example={"ref": "refs/tags/v1"}, any_body=True,
)  # fmt: skip


class GetPageRequest(Request):
    run: RunRef | None = None
    state: RunStates | None = None
    before: Annotated[int, Meta(ge=0, le=TIME_MAX, description="Only runs with a lower number")] | None = None
    limit: Limit = 50


get_page = resource.handwritten(
    "get_page", "GET", "/plain",
    """
    A page without scripts: recent runs and nodes, or the tasks of one run. A browser without a token gets a form with
    the 401 that asks for it (text/html), and then a cookie for this page alone. The page with everything is at `/`.
    """,
    role="viewer", request=GetPageRequest, media="text/html", errors=FINDABLE,
)  # fmt: skip


class SignInLink(msgspec.Struct, kw_only=True):
    code: str
    expires_in_ms: int


class UseSignInRequest(Request):
    code: Annotated[str, Meta(pattern=r"^[0-9a-z]{32}$", description="Of a link that has not been used")]


class SignedIn(msgspec.Struct, kw_only=True):
    token: str


create_sign_in = resource.handwritten(
    "create_sign_in", "POST", "/v1/sign-ins",
    "A code that one browser can exchange for the token of this request, once and within a minute.",
    role="viewer", request=NoArguments, reply=SignInLink, statuses=(201,),
)  # fmt: skip
use_sign_in = resource.handwritten(
    "use_sign_in", "POST", "/v1/sign-ins/{code}",
    "Exchange a code of `create_sign_in` for its token. It works once, on the server that made it.",
    role="anyone", request=UseSignInRequest, reply=SignedIn, errors=("not_found",),
)  # fmt: skip
