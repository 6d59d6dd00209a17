"""Calls of workers: a message in, a message out. What they mean is in node/workers."""

from starlette.responses import Response

from weft.api.calls import OperationCall, handles
from weft.node.workers.messages import CALLS, MEDIA_TYPE, BadMessage
from weft.operations.errors import ApiError
from weft.operations.resources.nodes import call_worker


@handles(call_worker)
async def answer_worker(call: OperationCall) -> Response:
    name, body = call.path["call"], await call.http.body()
    service = call.state.workers
    if service is None or name not in CALLS:
        raise ApiError("no_route", "there is nothing here", "workers and servers need the same version of Weft")
    assert call.caller is not None
    assert call.caller.worker is not None
    try:
        answer = await service.answer(call.caller.worker, name, body)
    except BadMessage as error:
        raise ApiError("worker_message", str(error), "install the same version of Weft on both sides") from None
    return Response(answer, media_type=MEDIA_TYPE)
