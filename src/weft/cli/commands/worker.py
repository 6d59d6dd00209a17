"""worker: a node that takes whatever is queued, until it is told to stop."""

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.cli.exit_codes import BAD_INPUT, INTERRUPTED, OK, GiveUp
from weft.cli.run_view.working import heeded_signals
from weft.cli.session import CommandSession
from weft.client.local import StoreConnection
from weft.local_node.definition_directory import Directory, keep_applied
from weft.local_node.factory import make_node, node_options, node_settings
from weft.local_node.process_tuning import tune
from weft.node.node import Node


def worker(args: Namespace, session: CommandSession) -> int:
    directory = watched(args.dir)
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


async def _work(session: CommandSession, connection: StoreConnection, directory: Path | None) -> None:
    config = session.config

    def log(level: str, message: str, fields: dict[str, Any]) -> None:
        text = session.log(level, message, fields)
        if text is not None:
            sys.stderr.write(session.err.encoded(text) + "\n")
            sys.stderr.flush()

    settings = node_settings(connection, slots=config.slots, workdir=config.workdir, **node_options(config))
    node = make_node(
        connection,
        settings,
        python_runners=config.python_runners,
        log=lambda message, fields: log("warning", message, fields),
        log_line=log,
    )
    log("info", "settings", session.shown_settings(connection.store.name))
    _stop_on_signals(node, config.drain, log)
    working = asyncio.create_task(node.run())
    ready = asyncio.create_task(node.ready())
    await asyncio.wait([working, ready], return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    watching = None
    if not working.done():
        facts = {"node": settings.name, "role": settings.role, "slots": settings.slots, "pid": os.getpid()}
        log("info", "ready", {"session": node.session, **facts})
        if directory is not None:
            applied = Directory(connection, directory, log, config.definition_defaults)
            watching = asyncio.create_task(keep_applied(applied))
    try:
        await working
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    log("info", "drained, and left" if node.drained else "stopped", {"session": node.session})


def _stop_on_signals(node: Node, drain_s: float, log: Callable[[str, str, dict[str, Any]], None]) -> None:
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
