"""serve: the HTTP API and a node, in one process."""

import asyncio
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from weft.cli.commands.worker import watched
from weft.cli.exit_codes import BAD_INPUT, OK, UNREACHABLE, GiveUp
from weft.cli.interrupts import uninterrupted
from weft.cli.run_view.working import heeded_signals
from weft.cli.session import CommandSession
from weft.local_node.definition_directory import Directory, keep_applied
from weft.local_node.node_thread import NodeThread
from weft.local_node.process_tuning import tune
from weft.local_node.worker_service import worker_service
from weft.node.attempts.secrets import Secrets
from weft.operations.reading.run_tokens import scope_of_token

TOKEN_MIN = 16
WAIT_S = 2.0  # for a store that does not answer: whoever asks hears of it within 5 s


#: Called when requests are answered: with the server's address, and what makes a code for a token's one-time link.
WhenReady = Callable[[str, Callable[[str], str]], None]


def serve(args: Namespace, session: CommandSession) -> int:
    return serve_until_stopped(session, watched(args.dir), lambda url, make_code: None)


def serve_until_stopped(session: CommandSession, directory: Path | None, when_ready: WhenReady) -> int:
    try:
        with uninterrupted():
            import prometheus_client  # noqa: F401
            import starlette  # noqa: F401
            import uvicorn  # noqa: F401
    except ImportError as error:
        raise GiveUp(
            BAD_INPUT, f"weft serve needs {error.name}, which is not installed", "pip install 'weft[server]'"
        ) from None
    gate, listener, token = gate_and_listener(session)
    tune()
    asyncio.run(_serve(session, gate, listener, token, directory, when_ready))
    return OK


def gate_and_listener(session: CommandSession) -> tuple[Any, Any, str]:
    """Who may ask, where, and where the owner finds the token."""
    with uninterrupted():
        from weft.api.access.token_gate import Tokens
        from weft.api.serving import listening
        from weft.client.owner_token import server_token

    config = session.config
    token = os.environ.get("WEFT_TOKEN", "")
    if token and len(token) < TOKEN_MIN:
        raise GiveUp(BAD_INPUT, f"WEFT_TOKEN must have at least {TOKEN_MIN} characters")
    connection = session.local(create=True)
    name = place = "WEFT_TOKEN"
    if not token:
        token, path = server_token(connection.access.home)
        name, place = "local", str(path)
    gate = Tokens(connection.token_holder, token, name, scope_of=partial(scope_of_token, connection.access))
    try:
        listener = listening(config.host, config.port)
    except OSError as error:
        why = error.strerror or str(error)
        raise GiveUp(UNREACHABLE, f"cannot listen on {config.host}:{config.port}: {why}", "use --port") from None
    return gate, listener, place


async def _serve(
    session: CommandSession, gate: Any, listener: Any, token: str, directory: Path | None, when_ready: WhenReady
) -> None:
    from weft.api.app import create_app
    from weft.api.serving import Serving, url_of

    config = session.config
    connection = session.local(create=True)
    connection.access.wait_s = WAIT_S
    url = url_of(listener, config.host, secure=config.tls_cert is not None)
    log = logger_for(session)
    nodes = NodeThread(connection, config, {}, lambda message, fields: log("warning", message, fields), url, log)
    app = create_app(
        connection,
        gate=gate,
        hosts=[config.host, *config.allow_hosts],
        body_max=config.body_max,
        source=str(config.workdir or session.directory),
        listen=connection.link.on_commit,
        figures=connection.figures,
        ready=lambda: None if nodes.ready or nodes.left else "its node has no session",
        secrets=Secrets(os.environ, None if config.secrets_dir is None else str(config.secrets_dir)),
        mounted=_mounted(config.body_max),
        root_path=config.root_path,
        defaults=config.definition_defaults,
        workers=worker_service(connection, config, url),
    )
    log("info", "settings", session.shown_settings(connection.store.name))
    ready = {"url": url, "token": token, "role": config.role, "slots": config.slots, "pid": os.getpid()}
    tls = None if config.tls_cert is None else (config.tls_cert, config.tls_key)
    if config.grpc is not None:
        ready["grpc"] = _begin_grpc(app, config.host, config.grpc, config.body_max, tls)
    serving = Serving(app, listener, nodes.begin_worker, nodes.stop_worker, log, config.trusted_proxies, tls)
    watching = None
    if directory is not None:
        watching = asyncio.create_task(
            keep_applied(Directory(connection, directory, log, config.definition_defaults))
        )
    signals = [int(number) for number in heeded_signals()]
    try:
        await serving.run(signals, ready, lambda: when_ready(url + config.root_path, app.state.sign_ins.create))
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await asyncio.to_thread(nodes.close)
    log("info", "stopped", {})


def _mounted(body_max: int) -> dict[str, Any]:
    """MCP, where its extra is installed."""
    if find_spec("mcp") is None:
        return {}
    from weft.api.app import MCP_PATH
    from weft.mcp.http import Endpoint

    return {MCP_PATH: lambda served: Endpoint(served, body_max=body_max)}


def _begin_grpc(app: Any, host: str, port: int, message_max: int, tls: tuple[Path, Path | None] | None) -> str:
    """Its address. It answers as long as the API does."""
    try:
        with uninterrupted(), _silent_grpc():
            from weft.grpc_api.server import GrpcServer
    except ImportError as error:
        raise GiveUp(
            BAD_INPUT, f"weft serve --grpc needs {error.name}, which is not installed", "pip install 'weft[grpc]'"
        ) from None
    try:
        server = GrpcServer(app.state, host, port, message_max, tls)
    except OSError as error:
        why = error.strerror or str(error)
        raise GiveUp(UNREACHABLE, f"cannot listen on {host}:{port}: {why}", "use --grpc PORT") from None
    app.lifespans.append(server.lifespan)
    return server.address


@contextmanager
def _silent_grpc() -> Iterator[None]:
    """gRPC writes to standard error what any client can provoke, unless this is set when it is imported. Tasks of the
    node do not get the variable."""
    if "GRPC_VERBOSITY" in os.environ:
        yield
        return
    os.environ["GRPC_VERBOSITY"] = "NONE"
    try:
        yield
    finally:
        del os.environ["GRPC_VERBOSITY"]


def logger_for(session: CommandSession) -> Callable[[str, str, dict[str, Any]], None]:
    """Log lines on standard error; those of libraries, too."""

    def log(level: str, message: str, fields: dict[str, Any]) -> None:
        text = session.log(level, message, fields)
        if text is not None:
            sys.stderr.write(session.err.encoded(text) + "\n")
            sys.stderr.flush()

    _log_through(log)
    return log


def _log_through(log: Any) -> None:
    """What libraries log becomes lines like ours; what they merely mention is left out."""

    class Through(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            level = "error" if record.levelno >= logging.ERROR else "warning"
            text = self.format(record)
            log(level, text.splitlines()[0], {"detail": text} if "\n" in text else {})

    for name in ("weft", "uvicorn", "asyncio", "mcp", "grpc"):
        logger = logging.getLogger(name)
        logger.handlers = [Through(logging.WARNING)]
        logger.setLevel(logging.WARNING)
        logger.propagate = False
