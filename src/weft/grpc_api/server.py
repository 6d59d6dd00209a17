"""The gRPC server beside the HTTP API: on the same event loop, with the same gate, threads, batches and streams.

Host and Origin are not looked at: no page in a browser can speak gRPC without a proxy of its own.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from weft.api.app_state import WAITING_MAX, AppState
from weft.api.serving import HEAD_MAX, HEAD_MAX_S, REQUESTS_MAX_S, listening
from weft.api.streams.hub import READERS_MAX
from weft.grpc_api.calls import handler_of
from weft.grpc_api.health import HealthService
from weft.grpc_api.methods import METHODS
from weft.grpc_api.weft_pb2 import DESCRIPTOR

SERVICE: Final = DESCRIPTOR.services_by_name["Weft"]
#: A connection that answers no ping within PING_MAX_S is closed, with its streams.
PING_EVERY_S: Final = 15
PING_MAX_S: Final = 10


class GrpcServer:
    """The port is taken when this is made, or an OSError; calls are answered within `lifespan`. `tls` are files:
    certificate, key."""

    def __init__(
        self,
        state: AppState,
        host: str,
        port: int,
        message_max: int,
        tls: tuple[Path, Path | None] | None = None,
    ) -> None:
        listening(host, port).close()  # if the address is taken, the error is the system's own
        self.state = state  # requests know this as their application
        self._server = grpc.aio.server(
            options=_options(message_max), maximum_concurrent_rpcs=WAITING_MAX + READERS_MAX
        )
        handlers = {
            name: handler_of(state, self, SERVICE.methods_by_name[name], method) for name, method in METHODS.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE.full_name, handlers),))
        names = (SERVICE.full_name, health.SERVICE_NAME, reflection.SERVICE_NAME)
        health_pb2_grpc.add_HealthServicer_to_server(HealthService(state, names[:1]), self._server)
        reflection.enable_server_reflection(names, self._server)
        try:
            bound = self._listen(address_of(host, port), tls)
        except RuntimeError as error:
            raise OSError(0, str(error)) from None
        self.address = address_of(host, bound)

    def _listen(self, address: str, tls: tuple[Path, Path | None] | None) -> int:
        if tls is None:
            return int(self._server.add_insecure_port(address))
        certificate = tls[0].read_bytes()
        key = certificate if tls[1] is None else tls[1].read_bytes()
        return int(self._server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)])))

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        await self._server.start()
        yield
        await self._server.stop(REQUESTS_MAX_S)


def address_of(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _options(message_max: int) -> Sequence[tuple[str, Any]]:
    return (
        ("grpc.max_receive_message_length", message_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", HEAD_MAX),
        ("grpc.absolute_max_metadata_size", HEAD_MAX),
        ("grpc.max_concurrent_streams", READERS_MAX),
        ("grpc.server_handshake_timeout_ms", int(HEAD_MAX_S * 1000)),
        ("grpc.keepalive_time_ms", PING_EVERY_S * 1000),
        ("grpc.keepalive_timeout_ms", PING_MAX_S * 1000),
        ("grpc.so_reuseport", 0),  # an address that is taken is an error
        # No compressed requests: the bound on messages is on their compressed size, and a small one may unpack to
        # more memory than the machine has.
        ("grpc.compression_enabled_algorithms_bitset", 1),
    )
