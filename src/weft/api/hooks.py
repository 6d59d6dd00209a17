"""Webhooks: callers from outside that start a run. Each is checked against its own secret, not against a token."""

from starlette.responses import Response

from weft.api.calls import OperationCall, handles
from weft.api.responses import reply
from weft.client.local import StoreConnection
from weft.operations.errors import ApiError, store_silent
from weft.operations.resources.server import CallHookRequest, HookTaken, post_hook, put_hook
from weft.operations.webhooks import HookRefused, fire_webhook
from weft.store.protocol import StoreError

CODES = {
    400: "delivery", 401: "unauthorized", 409: "paused", 413: "too_large", 422: "condition", 429: "rate_limited",
    503: "secret_missing",
}  # fmt: skip


@handles(post_hook, put_hook)
async def take_hook(call: OperationCall) -> Response:
    body = await call.http.body()

    def work() -> Response:
        request = call.request(CallHookRequest)
        connection = call.connection
        assert isinstance(connection, StoreConnection), "a server without a store has no webhooks"
        try:
            done = fire_webhook(connection.access, request.name, body, dict(call.http.headers), call.state.secrets)
        except HookRefused as refused:
            fix = "give the server this secret" if refused.status == 503 else None
            later = {"Retry-After": str(refused.again_s)} if refused.again_s is not None else None
            raise ApiError(CODES[refused.status], str(refused), fix, headers=later) from None
        except StoreError:
            raise store_silent() from None
        taken = HookTaken(
            trigger=done.data["trigger"], outcome=done.data["outcome"], run=done.run_id, existing=done.existing
        )
        return reply(taken, 202 if taken.outcome in ("started", "queued") and not taken.existing else 200)

    return await call.state.off_loop(work)
