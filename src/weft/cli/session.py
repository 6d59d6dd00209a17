"""What a command needs around it: the settings, the terminal, the store, and printing."""

import json
import os
import sys
from argparse import Namespace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import config as settings
from weft.cli.arguments import shown
from weft.cli.exit_codes import BAD_INPUT, NOT_FOUND, GiveUp
from weft.cli.terminal.terminal import Terminal, printable
from weft.core.definition.problems import encodes
from weft.store.urls import StoreUrl

if TYPE_CHECKING:
    from weft.client.local import StoreConnection
    from weft.client.remote import ServerConnection
    from weft.client.verbs import Connection

_FLAGS = (
    "store",
    "server",
    "slots",
    "python_runners",
    "drain",
    "name",
    "role",
    "run_as",
    "memory",
    "disk",
    "cpus",
    "gpus",
    "host",
    "port",
    "grpc",
    "root_path",
    "tls_cert",
    "tls_key",
    "log_format",
)

OF_NODES = ("run", "worker", "serve", "ui", "mcp", "resume", "advance", "rerun")  # commands that may run tasks
LOGGING = ("worker", "serve", "ui", "mcp")  # commands that say what happens, and nothing else


class CommandSession:
    def __init__(self, args: Namespace) -> None:
        self.args = args
        self.directory = _working_directory()
        flags = {name: getattr(args, name, None) for name in _FLAGS if args.command != "ls" or name != "name"}
        if getattr(args, "label", None):
            flags["labels"] = args.label
        if getattr(args, "capability", None):
            flags["capabilities"] = args.capability
        if getattr(args, "allow_host", None):
            flags["allow_hosts"] = args.allow_host
        if getattr(args, "verbose", False):
            flags["log"] = "info"
        self.config = settings.load(os.environ, self.directory, flags, idle=args.command in ("serve", "ui", "mcp"))
        self.out = Terminal(sys.stdout, self.config.color, os.environ)
        self.err = Terminal(sys.stderr, self.config.color, os.environ)
        self.server = _server(self.config)  # that is asked instead of a store
        self._connection: StoreConnection | None = None
        self._remote: ServerConnection | None = None

    # -- the store ---------------------------------------------------------------------------------------

    def connection(self, *, create: bool = False) -> "Connection":
        """A server, or a store. `create`: make a store if there is none yet. Looking never makes one."""
        if self.server is None:
            return self.local(create=create)
        if self._remote is None:
            from weft.client.owner_token import token_for
            from weft.client.remote import ServerConnection

            self._remote = ServerConnection(self.server, token_for(self.server, self.config, self.directory))
            self._remote.notify(self.warn)
        return self._remote

    def local(self, *, create: bool = False) -> "StoreConnection":
        """The store itself, for commands that a server cannot do for us."""
        self.refuse_server()
        if self._connection is None:
            from weft.client.opening import open_connection, store_place

            self._check(store_place(self.config, self.directory), create)
            if self.args.command in OF_NODES:
                self._check_node()
            self._connection = open_connection(
                self.config, self.directory, self._say_of_store, node=self.args.command in OF_NODES
            )
            if getattr(self.args, "consistent", False) and self._connection.store.kind == "etcd":
                from weft.store.replicated.log_store import LogStore

                assert isinstance(self._connection.store, LogStore)
                self._connection.store.wait_for_head()
        return self._connection

    def _check_node(self) -> None:
        if self.config.run_as is not None:
            from weft.executors.run_as import BadUser, find_user

            try:
                find_user(self.config.run_as)
            except BadUser as error:
                raise GiveUp(BAD_INPUT, str(error)) from None
        # Arguments can be read by everybody on the machine for as long as the process lives.
        store = self.config.store
        if self.config.sources["store"] == "flag" and isinstance(store, StoreUrl) and store.has_password:
            self._say_of_store(
                "every user of this machine can read the password in --store while this runs:"
                " give the address in WEFT_STORE, or the password in ~/.pgpass"
            )

    def place(self) -> str:
        """What is asked, for people: the server, or the store without its password."""
        from weft.client.opening import store_place

        found = self.server or store_place(self.config, self.directory)
        return found.shown if isinstance(found, StoreUrl) else str(found)

    def has_store(self) -> bool:
        """There is one already, or it is a server's."""
        from weft.client.opening import store_place

        place = store_place(self.config, self.directory)
        return not isinstance(place, Path) or place.exists()

    def refuse_server(self) -> None:
        if self.server is not None:
            raise GiveUp(
                BAD_INPUT, f"weft {self.args.command} works on a store, and {self.server} is a server",
                "use --store, or unset WEFT_SERVER (`server` in weft.toml)",
            )  # fmt: skip

    def _check(self, path: "Path | StoreUrl", create: bool) -> None:
        """Errors that are clearer when they come before a store is opened."""
        if not isinstance(path, Path):
            return
        try:
            path.exists()
        except OSError as error:
            raise GiveUp(BAD_INPUT, f"{path} cannot be looked at: {error.strerror}", "use --store") from None
        if not create and not path.exists():
            raise GiveUp(NOT_FOUND, f"there is no store at {path} yet", "weft run FILE makes one")
        if path.parent.exists() and not path.parent.is_dir():
            raise GiveUp(BAD_INPUT, f"{path.parent} is a file, not a directory for the store", "use --store")
        if create and not path.parent.exists() and not path.parent.parent.is_dir():
            raise GiveUp(BAD_INPUT, f"there is no directory {path.parent} for the store", "make it, or use --store")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._remote is not None:
            self._remote.close()
            self._remote = None

    # -- printing ----------------------------------------------------------------------------------------

    def print(self, text: str = "") -> None:
        self.out.print(text)

    def warn(self, text: str) -> None:
        sys.stdout.flush()
        self.err.print(text)

    def _say_of_store(self, text: str) -> None:
        """What is waited for; a log line where the command logs."""
        line = self.log("warning", text, {}) if self.args.command in LOGGING else text
        if line is not None:
            self.warn(line)

    def print_json(self, value: Any, *, line: bool = False) -> None:
        """`value` may hold records; `line` keeps it on one line, for streams of values."""
        sys.stdout.write(json_text(value, indent=None if line else 2) + "\n")
        if line:
            sys.stdout.flush()

    def log(self, level: str, message: str, fields: dict[str, Any]) -> str | None:
        """A log line to be shown, or None if this level is not."""
        levels = settings.BY_NAME["log"].choices
        shown = self.config.log or ("info" if self.args.command in LOGGING else "warning")
        if levels.index(level) > levels.index(shown):
            return None
        from weft.cli.terminal.formats import clock_now

        if self._logs_json:
            return json_text({"at": _stamp(), "level": level, "message": message, **fields})
        long = {name: value for name, value in fields.items() if isinstance(value, str) and "\n" in value}
        short = "".join(f"  {name}={_plain(value)}" for name, value in fields.items() if name not in long)
        below = "".join(f"\n    {printable(line)}" for value in long.values() for line in value.splitlines())
        return f"{clock_now()}  {level}  {message}{short}{below}"

    def shown_settings(self, store: str) -> dict[str, Any]:
        """For the log: all of them for machines; for people those that somebody set."""
        shown = {**self.config.described(), "store": store}
        if self._logs_json:
            return shown
        set_here = self.config.sources
        return {name: value for name, value in shown.items() if name == "store" or set_here.get(name) != "default"}

    @property
    def _logs_json(self) -> bool:
        return self.config.log_format == "json" or (self.args.json and self.args.command in LOGGING)


def _stamp() -> str:
    """A machine's moment: whole, with its zone."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def _server(config: settings.Config) -> str | None:
    """What is said nearer wins: a flag over a variable, a variable over the file."""
    near = {"flag": 2, "variable": 1}
    server, store = (near.get(config.sources[name], 0) for name in ("server", "store"))
    if config.server is None or config.store is None:
        return config.server
    if server == store == 2:
        raise GiveUp(BAD_INPUT, "--server and --store exclude each other", "leave one of them out")
    return config.server if server >= store else None


def json_text(value: Any, indent: int | None = None) -> str:
    import msgspec

    return json.dumps(msgspec.to_builtins(value), indent=indent, ensure_ascii=not _utf8_out(), default=str)


def _utf8_out() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text else text


def _working_directory() -> Path:
    try:
        directory = Path.cwd()
    except OSError as error:
        why = "is gone" if isinstance(error, FileNotFoundError) else f"cannot be used: {error.strerror}"
        raise GiveUp(BAD_INPUT, f"the working directory {why}", "change into one that exists") from None
    if not encodes(str(directory)):
        raise GiveUp(BAD_INPUT, f"the working directory's path is not UTF-8: {shown(str(directory))}", "rename it")
    return directory
