"""ui: the page in a browser, signed in; with a server if none answers. `weft run --ui` opens a run there."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import webbrowser
from argparse import Namespace

from weft.cli.commands.serve import serve_until_stopped
from weft.cli.commands.worker import watched
from weft.cli.exit_codes import BAD_INPUT, OK, UNREACHABLE, GiveUp
from weft.cli.session import CommandSession
from weft.client.owner_token import server_token, token_for
from weft.client.remote import ServerConnection
from weft.core.commands import Refused
from weft.operations.declare import NoArguments
from weft.operations.resources.server import create_sign_in

CONNECT_S = 1.0


def ui(args: Namespace, session: CommandSession) -> int:
    def show(url: str, code: str) -> None:
        link = f"{url}/#/sign-in?code={code}"
        opened = not args.no_open and _opened(link)
        if args.json:
            session.print_json({"url": f"{url}/", "link": link, "opened": opened}, line=True)
        else:
            session.print(_text(url, link, opened))
            sys.stdout.flush()

    if session.server is None and not _listens(session.config.host, session.config.port):
        return serve_until_stopped(session, watched(args.dir), lambda url, make: show(url, make(_own_token(session))))
    show(*_asked(session))
    return OK


class PageOfRun:
    """The page of one run: of a server that answers for its store, else of one beside this process."""

    def __init__(self, session: CommandSession, run_id: str) -> None:
        self._beside: subprocess.Popen[str] | None = None
        found = _asked(session) if session.server is not None or _listens_for_us(session) else self._start(session)
        self._url, code = found
        link = f"{self._url}/#/sign-in?code={code}&run={run_id}"
        session.warn(_text(self._url, link, _opened(link)))

    def _start(self, session: CommandSession) -> tuple[str, str]:
        taken = _listens(session.config.host, session.config.port)
        words = ["ui", "--no-open", "--json", "--slots", "0", *(["--port", "0"] if taken else [])]
        words += [] if session.args.store is None else ["--store", str(session.args.store)]
        self._beside = subprocess.Popen(
            [sys.executable, "-m", "weft", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._beside.stdout is not None
        line = self._beside.stdout.readline()
        if not line:
            raise GiveUp(UNREACHABLE, "no server could be started for the page", "see what `weft ui` says")
        url, _, code = str(json.loads(line)["link"]).partition("/#/sign-in?code=")
        return url, code

    def stay(self, session: CommandSession) -> None:
        """Until ^C, if the server is ours: the run is over, and people look at it now."""
        if self._beside is None:
            return
        if self._beside.poll() is None:
            session.warn(f"{self._url}/ stays until ^C")
        with contextlib.suppress(KeyboardInterrupt):
            self._beside.wait()

    def close(self) -> None:
        if self._beside is not None:
            self._beside.terminate()
            self._beside.wait()


def _asked(session: CommandSession) -> tuple[str, str]:
    """(address, a code for a link) of the server."""
    url = session.server or f"http://{session.config.host}:{session.config.port}"
    connection = ServerConnection(url, token_for(url, session.config, session.directory))
    try:
        return url, connection.call(create_sign_in, NoArguments()).code
    except Refused as error:
        if session.server is not None:
            raise
        fix = "weft ui --port N starts one for this store, weft ui --server URL opens the page of that one"
        raise GiveUp(BAD_INPUT, f"the server at {url} is not this store's: {error}", fix) from None
    finally:
        connection.close()


def _listens_for_us(session: CommandSession) -> bool:
    """A server answers at the address, takes our token, and has the same store."""
    url = f"http://{session.config.host}:{session.config.port}"
    if not _listens(session.config.host, session.config.port):
        return False
    connection = ServerConnection(url, token_for(url, session.config, session.directory))
    try:
        return connection.info().location == session.local().info().location
    except Exception:  # whatever it is, it is not ours
        return False
    finally:
        connection.close()


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


def _opened(link: str) -> bool:
    return _has_screen() and webbrowser.open(link)


def _has_screen() -> bool:
    """Without one, Python would start a browser for terminals."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _text(url: str, link: str, opened: bool) -> str:
    if opened:
        return f"{url}/ is open in the browser"
    return f"open {link}\n(the link works once, within a minute; {url}/ asks for a token)"
