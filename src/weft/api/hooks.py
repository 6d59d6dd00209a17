"""Webhooks: callers from outside that start a run. Each is checked against its own secret, not against a token."""

from functools import partial
from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from weft.api import replies as r
from weft.api.problems import Trouble, store_silent
from weft.api.routes import Routes, Shared, reply
from weft.control.records import HookRefused
from weft.store.protocol import StoreError

routes = Routes("hooks")
CODES = {400: "delivery", 401: "unauthorized", 409: "paused", 413: "too_large", 422: "condition", 429: "rate_limited"}


HookName = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,128}$", description="The webhook's name")]
_hook = partial(
    routes, path="/v1/hooks/{name}", role="anyone", reply=r.HookTaken, status=(202, 200),
    refused=(400, 401, 404, 409, 413, 429), example={"ref": "refs/tags/v1"}, raw=True,
)  # fmt: skip


@_hook("PUT")
async def put_hook(served: Shared, request: Request, name: HookName) -> Response:
    """Start a run through a webhook, for callers that PUT. Otherwise like POST."""
    answer: Response = await take_hook(served, request, name)
    return answer


@_hook("POST")
async def take_hook(served: Shared, request: Request, name: HookName) -> Response:
    """Start a run through a webhook. The body becomes `trigger.body`; it is signed with HMAC-SHA256 in
    X-Weft-Signature (or X-Hub-Signature-256), or comes with a bearer token, as the trigger says. A signed delivery
    needs an id (Idempotency-Key, X-GitHub-Delivery) or a time (X-Weft-Timestamp, signed with it): one that comes
    again starts no second run."""
    body = await request.body()
    headers = dict(request.headers)

    def work() -> Response:
        try:
            done = served.control.fire_webhook(name, body, headers, served.secrets)
        except HookRefused as refused:
            if refused.status == 503:
                raise Trouble(503, "secret_missing", str(refused), "give the server this secret") from None
            later = {"Retry-After": str(refused.again_s)} if refused.again_s is not None else None
            code = CODES.get(refused.status, "refused")
            raise Trouble(refused.status, code, str(refused), headers=later) from None
        except StoreError:
            raise store_silent() from None
        told = r.HookTaken(
            trigger=done.data["trigger"], outcome=done.data["outcome"], run=done.run_id, existing=done.existing
        )  # fmt: skip
        return reply(told, 202 if told.outcome in ("started", "queued") and not told.existing else 200)

    return await served.carry_out(work)
