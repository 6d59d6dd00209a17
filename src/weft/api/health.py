"""Is the process there, and should it get requests?"""

from weft import __version__
from weft.api.problems import Trouble, store_silent
from weft.api.replies import Health
from weft.api.routes import Asking, Routes, Shared
from weft.store.protocol import StoreError

routes = Routes("health")


@routes("GET", "/healthz", role="anyone", reply=Health)
def healthz() -> Health:
    """The process is alive. The store is not asked."""
    return Health(status="ok", version=__version__)


@routes("GET", "/readyz", role="anyone", reply=Health)
def readyz(served: Shared, control: Asking) -> Health:
    """The store answers and takes writes, and the server takes requests; else 503."""
    try:
        why = "it is about to stop" if served.stopping.is_set() else served.ready()
        if why is not None:
            raise Trouble(503, "not_ready", why)
        control.now()
        control.last_event()
        control.check_writable()
    except StoreError:
        raise store_silent() from None
    return Health(status="ready", version=__version__)
