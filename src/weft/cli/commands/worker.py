"""worker: a node that takes whatever is queued, until it is told to stop."""

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.cli.exit_codes import BAD_INPUT, INTERRUPTED, OK, UNREACHABLE, GiveUp
from weft.cli.run_view.working import heeded_signals
from weft.cli.session import CommandSession
from weft.client.local import StoreConnection
from weft.config import server_url
from weft.local_node.definition_directory import Directory, keep_applied
from weft.local_node.factory import make_node, node_options, node_settings
from weft.local_node.http_worker import make_http_worker, read_token, tls_context
from weft.local_node.process_tuning import tune
from weft.node.node import Node
from weft.node.ports import NodeSettings
from weft.node.workers.messages import Rejected

Log = Callable[[str, str, dict[str, Any]], None]


def worker(args: Namespace, session: CommandSession) -> int:
    directory = watched(args.dir)
    servers = args.servers or session.server
    if servers is not None:
        return _serve_workers_of(args, session, servers)
    connection = session.local(create=True)
    tune()
    asyncio.run(_work(session, connection, directory))
    return OK


def watched(name: str | None) -> Path | None:
    """The directory of `--dir`."""
    directory = None if name is None else Path(name)
    if directory is not None and not directory.is_dir():
        raise GiveUp(BAD_INPUT, f"{directory} is not a directory", "name one that holds definitions")
    return directory


def _serve_workers_of(args: Namespace, session: CommandSession, servers: str) -> int:
    """Work for servers, without a store."""
    if args.dir is not None:
        raise GiveUp(BAD_INPUT, "--dir needs a store, and a worker of a server has none", "use it with weft serve")
    try:
        urls = [server_url(url.strip()) for url in servers.split(",")]
    except ValueError as error:
        raise GiveUp(BAD_INPUT, f"--server: {error}, found {servers!r}") from None
    token, tls = read_token(args.token_file), tls_context(args.ca_file)
    tune()

    async def work() -> None:
        log = _logger(session)
        node, settings, link = make_http_worker(
            session.config, urls, token, tls, session.directory,
            lambda message, fields: log("warning", message, fields), log,
        )  # fmt: skip
        log("info", "settings", session.shown_settings(servers))
        try:
            await _run(session, node, settings, log)
        finally:
            await link.close()

    try:
        asyncio.run(work())
    except ImportError as error:
        raise GiveUp(BAD_INPUT, str(error), "pip install 'weft[http]'") from None
    except Rejected as error:
        raise GiveUp(
            UNREACHABLE, str(error), "see `weft token list` there; docs/guides/workers-over-http.md"
        ) from None
    return OK


def _logger(session: CommandSession) -> Log:
    def log(level: str, message: str, fields: dict[str, Any]) -> None:
        text = session.log(level, message, fields)
        if text is not None:
            sys.stderr.write(session.err.encoded(text) + "\n")
            sys.stderr.flush()

    return log


async def _work(session: CommandSession, connection: StoreConnection, directory: Path | None) -> None:
    config, log = session.config, _logger(session)
    settings = node_settings(connection, slots=config.slots, workdir=config.workdir, **node_options(config))
    node = make_node(
        connection,
        settings,
        python_runners=config.python_runners,
        log=lambda message, fields: log("warning", message, fields),
        log_line=log,
    )
    log("info", "settings", session.shown_settings(connection.store.name))
    applied = None if directory is None else Directory(connection, directory, log, config.definition_defaults)
    await _run(session, node, settings, log, applied)


async def _run(
    session: CommandSession, node: Node, settings: NodeSettings, log: Log, applied: Directory | None = None
) -> None:
    """Until it is stopped, or has been drained."""
    _stop_on_signals(node, session.config.drain, log)
    working = asyncio.create_task(node.run())
    ready = asyncio.create_task(node.ready())
    await asyncio.wait([working, ready], return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    watching = None
    if not working.done():
        facts = {"node": settings.name, "role": settings.role, "slots": settings.slots, "pid": os.getpid()}
        log("info", "ready", {"session": node.session, **facts})
        if applied is not None:
            watching = asyncio.create_task(keep_applied(applied))
    try:
        await working
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    log("info", "drained, and left" if node.drained else "stopped", {"session": node.session})


def _stop_on_signals(node: Node, drain_s: float, log: Log) -> None:
    """The first drains, the second kills, the third leaves at once."""
    stops = 0

    def stop() -> None:
        nonlocal stops
        stops += 1
        if stops == 1:
            log("info", "stopping: running tasks may end", {"within_s": drain_s})
        elif stops == 2:
            log("info", "killing what still runs", {})
        else:
            os._exit(INTERRUPTED)
        node.stop()

    for number in heeded_signals():
        asyncio.get_running_loop().add_signal_handler(number, stop)
