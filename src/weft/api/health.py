"""Is the process there, should it get requests, and who asks?"""

from starlette.responses import Response

from weft import __version__
from weft.api.calls import OperationCall, handles
from weft.api.responses import reply
from weft.operations.errors import ApiError, store_silent
from weft.operations.resources.server import Health, healthz, readyz
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
