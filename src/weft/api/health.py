"""Is the process there, should it get requests, and who asks?"""

from starlette.responses import Response

from weft import __version__
from weft.api.app_state import AppState
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
    try:
        why = why_not_ready(call.state)
    except StoreError:
        raise store_silent() from None
    if why is not None:
        raise ApiError("not_ready", why)
    return reply(Health(status="ready", version=__version__))


def why_not_ready(state: AppState) -> str | None:
    """Why the server should get no requests; None: it should. A store that does not answer is an error."""
    why = "it is about to stop" if state.stopping.is_set() else state.ready()
    if why is None:
        state.connection.last_event()
        state.connection.check_writable()
    return why
