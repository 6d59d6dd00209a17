"""serve: the HTTP API and a node, in one process."""

import asyncio
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from weft.cli.exits import BAD_INPUT, OK, UNREACHABLE, GiveUp
from weft.cli.session import Session
from weft.cli.worker import watched
from weft.cli.working import heeded_signals
from weft.control.node_thread import NodeThread
from weft.control.process import tune
from weft.control.watching import Directory, keep_applied
from weft.node.secrets import Secrets

TOKEN_MIN = 16
WAIT_S = 2.0  # for a store that does not answer: whoever asks hears of it within 5 s


def serve(args: Namespace, session: Session) -> int:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise GiveUp(
            BAD_INPUT, f"weft serve needs {error.name}, which is not installed", "install weft[server]"
        ) from None
    directory = watched(args.dir)
    gate, listener = gate_and_listener(session)
    tune()
    asyncio.run(_serve(session, gate, listener, directory))
    return OK


def gate_and_listener(session: Session) -> tuple[Any, Any]:
    """Who may ask, and where: refused if others could reach it without a token."""
    from weft.api.auth import Gate, Open
    from weft.api.door import is_loopback
    from weft.api.serving import listening
    from weft.api.token_gate import Tokens

    config = session.config
    token = os.environ.get("WEFT_TOKEN", "")
    if token and len(token) < TOKEN_MIN:
        raise GiveUp(BAD_INPUT, f"WEFT_TOKEN must have at least {TOKEN_MIN} characters")
    open_to_all = not is_loopback(config.host)
    if open_to_all and not token and not session.has_store():
        raise _no_token(config.host)  # before a store is made for nothing
    control = session.local(create=True)
    made = control.tokens()
    if open_to_all and not token and not any(one.state == "valid" for one in made):
        raise _no_token(config.host)
    gate: Gate = Open()
    if token or any(one.state != "revoked" for one in made):
        gate = Tokens(control.token_holder, token or None)
    try:
        listener = listening(config.host, config.port)
    except OSError as error:
        why = error.strerror or str(error)
        raise GiveUp(UNREACHABLE, f"cannot listen on {config.host}:{config.port}: {why}", "use --port") from None
    return gate, listener


def _no_token(host: str) -> GiveUp:
    return GiveUp(
        BAD_INPUT,
        f"{host} can be reached from other machines, and there is no token",
        "make one with `weft token create`, or set WEFT_TOKEN, or leave --host at 127.0.0.1",
    )


async def _serve(session: Session, gate: Any, listener: Any, directory: Path | None) -> None:
    from weft.api.app import create_app
    from weft.api.serving import Serving, url_of

    config = session.config
    control = session.local(create=True)
    control.wait_s = WAIT_S
    url = url_of(listener, config.host)
    say = sayer(session)
    nodes = NodeThread(control, config, {}, lambda message, fields: say("warning", message, fields), url, say)
    app = create_app(
        control,
        gate=gate,
        hosts=[config.host, *config.allow_hosts],
        body_max=config.body_max,
        source=str(config.workdir or session.directory),
        listen=control.link.on_commit,
        figures=control.figures,
        ready=lambda: None if nodes.ready else "its node has no session yet",
        secrets=Secrets(os.environ, None if config.secrets_dir is None else str(config.secrets_dir)),
        mounted=_mounted(config.body_max),
    )
    say("info", "settings", session.told_settings(control.store.name))
    ready = {"url": url, "role": config.role, "slots": config.slots, "pid": os.getpid()}
    serving = Serving(app, listener, nodes.begin_worker, nodes.stop_worker, say)
    watching = None
    if directory is not None:
        watching = asyncio.create_task(keep_applied(Directory(control, directory, say)))
    try:
        await serving.run([int(number) for number in heeded_signals()], ready)
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await asyncio.to_thread(nodes.close)
    say("info", "stopped", {})


def _mounted(body_max: int) -> dict[str, Any]:
    """MCP, where its extra is installed."""
    if find_spec("mcp") is None:
        return {}
    from weft.api.app import MCP_PATH
    from weft.mcp.http import Endpoint

    return {MCP_PATH: lambda served: Endpoint(served, body_max=body_max)}


def sayer(session: Session) -> Callable[[str, str, dict[str, Any]], None]:
    """Log lines on standard error; those of libraries, too."""

    def say(level: str, message: str, fields: dict[str, Any]) -> None:
        text = session.log(level, message, fields)
        if text is not None:
            sys.stderr.write(session.err.encoded(text) + "\n")
            sys.stderr.flush()

    _log_through(say)
    return say


def _log_through(say: Any) -> None:
    """What libraries log becomes lines like ours; what they merely mention is left out."""

    class Through(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            level = "error" if record.levelno >= logging.ERROR else "warning"
            text = self.format(record)
            say(level, text.splitlines()[0], {"detail": text} if "\n" in text else {})

    for name in ("weft", "uvicorn", "asyncio", "mcp"):
        logger = logging.getLogger(name)
        logger.handlers = [Through(logging.WARNING)]
        logger.setLevel(logging.WARNING)
        logger.propagate = False
