"""ui: the page in a browser, signed in; with a server of its own if none answers."""

import os
import socket
import sys
import webbrowser
from argparse import Namespace

from weft.cli.commands.serve import serve_until_stopped
from weft.cli.commands.worker import watched
from weft.cli.exit_codes import OK
from weft.cli.session import CommandSession
from weft.client.owner_token import server_token, token_for
from weft.client.remote import ServerConnection
from weft.operations.declare import NoArguments
from weft.operations.resources.server import create_sign_in

CONNECT_S = 1.0


def ui(args: Namespace, session: CommandSession) -> int:
    def show(url: str, code: str) -> None:
        link = f"{url}/#/sign-in?code={code}"
        opened = not args.no_open and _has_screen() and webbrowser.open(link)
        if args.json:
            session.print_json({"url": f"{url}/", "link": link, "opened": opened}, line=True)
        else:
            session.print(_text(url, link, opened))
            sys.stdout.flush()

    if session.server is None and not _listens(session.config.host, session.config.port):
        return serve_until_stopped(session, watched(args.dir), lambda url, make: show(url, make(_own_token(session))))
    url = session.server or f"http://{session.config.host}:{session.config.port}"
    connection = ServerConnection(url, token_for(url, session.config, session.directory))
    try:
        show(url, connection.call(create_sign_in, NoArguments()).code)
    finally:
        connection.close()
    return OK


def _own_token(session: CommandSession) -> str:
    return os.environ.get("WEFT_TOKEN") or server_token(session.local().access.home)[0]


def _listens(host: str, port: int) -> bool:
    if port == 0:
        return False
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError:
        return False
    return True


def _has_screen() -> bool:
    """Without one, Python would start a browser for terminals."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _text(url: str, link: str, opened: bool) -> str:
    if opened:
        return f"{url}/ is open in the browser"
    return f"open {link}\n(the link works once, within a minute; {url}/ asks for a token)"
