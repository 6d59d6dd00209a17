"""Is the process there, should it get requests, and who asks?"""

from starlette.responses import Response

from weft import __version__
from weft.api.calls import OperationCall, handles
from weft.api.responses import reply
from weft.operations.errors import ApiError, store_silent
from weft.operations.replies import CallerInfo
from weft.operations.resources.server import Health, get_caller, healthz, readyz
from weft.store.protocol import StoreError


@handles(healthz)
def is_alive(call: OperationCall) -> Response:
    return reply(Health(status="ok", version=__version__))


@handles(readyz)
def is_ready(call: OperationCall) -> Response:
    state = call.state
    try:
        why = "it is about to stop" if state.stopping.is_set() else state.ready()
        if why is not None:
            raise ApiError("not_ready", why)
        state.connection.last_event()
        state.connection.check_writable()
    except StoreError:
        raise store_silent() from None
    return reply(Health(status="ready", version=__version__))


@handles(get_caller)
def who_asks(call: OperationCall) -> Response:
    assert call.caller is not None  # the route needs a role
    observing = call.state.connection.role == "observer"
    return reply(CallerInfo(name=call.caller.name, role="viewer" if observing else call.caller.role))
