"""mcp install: writes an entry for Weft into the configuration files of MCP clients."""

import os
import shutil
import sys
from argparse import Namespace
from pathlib import Path

from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.session import CommandSession
from weft.client.opening import store_place
from weft.mcp.install import CLIENTS, CannotMerge, ClientFile, entry_of, merged, snippet, write_file
from weft.store.urls import StoreUrl


def install(args: Namespace, session: CommandSession) -> int:
    if not args.client:
        raise GiveUp(BAD_INPUT, "say for which client", _found(session.directory))
    argv = _command(args, session)
    env = _token() if args.write_token else {}
    code = OK
    for name in dict.fromkeys(args.client):
        client = CLIENTS[name]
        entry = entry_of(client, argv, env)
        path = client.path(session.directory, Path.home())
        if args.print:
            session.print(f"# {client.title}: {path}\n{snippet(client, entry)}".rstrip())
        elif not _write(args, session, name, client, path, entry):
            code = BAD_INPUT
    return code


def _write(
    args: Namespace, session: CommandSession, name: str, client: ClientFile, path: Path, entry: dict[str, object]
) -> bool:
    try:
        old = path.read_bytes().decode() if path.exists() else None
        new = (old or "") if args.remove and old is None else merged(client, old, None if args.remove else entry)
        backup = None
        if new != (old or ""):
            backup = write_file(path, new, old, private="env" in entry)
    except (CannotMerge, OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        session.warn(f"{path} was left as it is: {why}")
        what = "remove the entry `weft` from it" if args.remove else f"add this to it:\n{snippet(client, entry)}"
        session.warn(f"  {what}".rstrip())
        return False
    changed = new != (old or "")
    if args.json:
        kept = None if backup is None else str(backup)
        session.print_json({"client": name, "file": str(path), "changed": changed, "backup": kept}, line=True)
        return True
    done = ("removed from" if args.remove else "written to") if changed else "nothing to change in"
    session.print(f"{client.title}: {done} {path}" + ("" if backup is None else f" (before: {backup})"))
    return True


def _command(args: Namespace, session: CommandSession) -> list[str]:
    """What the client starts: this Weft, on this store or server."""
    script = shutil.which("weft", path=str(Path(sys.executable).parent))
    argv = [script, "mcp"] if script is not None else [sys.executable, "-m", "weft", "mcp"]
    argv += [flag for flag, given in (("--work", args.work), ("--read-only", args.read_only)) if given]
    if session.server is not None:
        return [*argv, "--server", session.server]
    place = store_place(session.config, session.directory)
    if isinstance(place, StoreUrl):
        if place.has_password:
            raise GiveUp(BAD_INPUT, "the store's address has a password, which is not written into other programs'"
                " files", "put it into ~/.pgpass, and leave it out of the address")  # fmt: skip
        return [*argv, "--store", str(place)]
    return [*argv, "--store", str(place.resolve())]


def _token() -> dict[str, str]:
    token = os.environ.get("WEFT_TOKEN")
    if not token:
        raise GiveUp(BAD_INPUT, "--write-token writes the token of WEFT_TOKEN, which is not set", "set it")
    return {"WEFT_TOKEN": token}


def _found(directory: Path) -> str:
    """Clients that seem to be used here."""
    known = [
        name for name, client in CLIENTS.items()
        if (path := client.path(directory, Path.home())).exists()
        or (path.parent.exists() and path.parent not in (directory, Path.home()))
    ]  # fmt: skip
    here = f"; found here: {', '.join(known)}" if known else ""
    return f"--client {'|'.join(CLIENTS)}{here}"
