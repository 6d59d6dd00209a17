"""mcp: tools for AI agents, over standard input and output or over HTTP."""

import asyncio
import os
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

from weft.cli.commands.serve import WAIT_S, gate_and_listener, logger_for
from weft.cli.exit_codes import BAD_INPUT, INTERRUPTED, OK, GiveUp
from weft.cli.interrupts import uninterrupted
from weft.cli.run_view.working import heeded_signals
from weft.cli.session import CommandSession
from weft.client.local import StoreConnection
from weft.client.verbs import Connection
from weft.local_node.node_thread import NodeThread
from weft.local_node.process_tuning import tune
from weft.node.attempts.run_tokens import PREFIX, VARIABLE
from weft.node.attempts.secrets import Secrets
from weft.operations.reading.run_tokens import scope_of_token
from weft.operations.run_scope import Permission, RunScope

OF_INSTALL = ("client", "print", "remove", "write_token")
OF_HTTP = ("host", "port", "root_path", "allow_host")


def mcp(args: Namespace, session: CommandSession) -> int:
    if args.action == "install":
        from weft.cli.commands.mcp_install import install

        return install(args, session)
    given = next((name for name in OF_INSTALL if getattr(args, name)), None)
    if given is not None:
        raise GiveUp(BAD_INPUT, f"--{given.replace('_', '-')} is about `weft mcp install`", "add install")
    try:
        with uninterrupted():
            import mcp  # noqa: F401
            import starlette  # noqa: F401
            import uvicorn  # noqa: F401
    except ImportError as error:
        raise GiveUp(
            BAD_INPUT, f"weft mcp needs {error.name}, which is not installed", "pip install 'weft[mcp]'"
        ) from None
    if args.work and args.read_only:
        raise GiveUp(BAD_INPUT, "a node that works changes something", "leave --work or --read-only out")
    if args.http:
        gate, listener, token = gate_and_listener(session)
        tune()
        asyncio.run(_over_http(args, session, gate, listener, token))
        return OK
    given = next((name for name in OF_HTTP if getattr(args, name)), None)
    if given is not None:
        raise GiveUp(BAD_INPUT, f"--{given.replace('_', '-')} is about HTTP", "add --http")
    tune()
    asyncio.run(_over_stdio(args, session))
    return OK


async def _over_stdio(args: Namespace, session: CommandSession) -> None:
    from weft.api.access.auth import Open
    from weft.api.app_state import THREADS, AppState
    from weft.client.definition_loader import DefinitionLoader
    from weft.mcp.stdio import Lines, serve

    config = session.config
    connection, place = _connection(args, session)
    log = logger_for(session)
    definitions = DefinitionLoader(connection, _source(session), config.definition_defaults)
    state = AppState(connection, Open(), definitions, lambda: None, THREADS, Secrets({}))
    nodes = _nodes(args, session, log)
    lines = Lines(0, config.body_max)
    stops = 0

    def stop() -> None:
        nonlocal stops
        stops += 1
        if stops > 2:
            os._exit(INTERRUPTED)
        log("info", "killing what still runs" if stops > 1 else "stopping: running tasks may end", {})
        state.begin_stopping()
        lines.stop()
        if nodes is not None:
            nodes.stop_worker()

    for number in heeded_signals():
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        if nodes is not None:
            nodes.begin_worker()
        log("info", "ready", {"store": place, "pid": os.getpid()})
        scope_of = _scope_of(connection, os.environ.get(VARIABLE))
        await serve(state, lines, read_only=args.read_only, scope_of=scope_of)
    finally:
        state.begin_stopping()
        if nodes is not None:
            await asyncio.to_thread(nodes.close)
        state.close()
    log("info", "stopped", {})


async def _over_http(args: Namespace, session: CommandSession, gate: Any, listener: Any, token: str) -> None:
    from weft.api.app import MCP_PATH, create_app
    from weft.api.serving import Serving, url_of
    from weft.mcp.http import Endpoint
    from weft.operations.resources.server import healthz, readyz

    config = session.config
    connection, place = _connection(args, session)
    log = logger_for(session)
    nodes = _nodes(args, session, log)
    app = create_app(
        connection,
        gate=gate,
        hosts=[config.host, *config.allow_hosts],
        body_max=config.body_max,
        source=_source(session),
        operations=(healthz, readyz),
        root_path=config.root_path,
        defaults=config.definition_defaults,
        mounted={MCP_PATH: lambda state: Endpoint(state, read_only=args.read_only, body_max=config.body_max)},
    )
    ready = {"url": url_of(listener, config.host) + MCP_PATH, "token": token, "store": place, "pid": os.getpid()}
    serving = Serving(
        app, listener, None if nodes is None else nodes.begin_worker,
        (lambda: None) if nodes is None else nodes.stop_worker, log, config.trusted_proxies,
    )  # fmt: skip
    try:
        await serving.run([int(number) for number in heeded_signals()], ready)
    finally:
        if nodes is not None:
            await asyncio.to_thread(nodes.close)
    log("info", "stopped", {})


def _connection(args: Namespace, session: CommandSession) -> tuple[Connection, str]:
    """And what it is called: a store, or a server where nothing is to be worked on here."""
    if session.server is not None and not args.work:
        return session.connection(), session.server
    connection = session.local(create=not args.read_only)
    connection.access.wait_s = WAIT_S
    return connection, connection.store.name


def _scope_of(connection: Connection, token: str | None) -> Callable[[], RunScope | None] | None:
    """With the token of an attempt (WEFT_TOKEN of a task), only what that opens. A server checks it itself: then all
    tools are listed that such a token can have."""
    if token is None or not token.startswith(PREFIX):
        return None
    if isinstance(connection, StoreConnection):
        return partial(scope_of_token, connection.access, token)
    return lambda: RunScope(0, "", "", "", get_args(Permission))


def _nodes(args: Namespace, session: CommandSession, log: Any) -> NodeThread | None:
    if not args.work:
        return None
    return NodeThread(session.local(), session.config, {}, lambda message, fields: log("warning", message, fields))


def _source(session: CommandSession) -> str:
    return str(session.config.workdir or session.directory)
