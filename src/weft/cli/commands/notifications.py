"""notifications: list them, have them delivered again, and set targets for all workflows."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import msgspec

from weft.authoring.yaml_text import build
from weft.cli.commands.ls import limit_of
from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import ago
from weft.cli.terminal.tables import table
from weft.cli.terminal.terminal import printable
from weft.operations.replies import NotificationInfo

LISTED = 100


def notifications(args: Namespace, session: CommandSession) -> int:
    if args.action != "retry" and (args.ids or args.failed):
        raise GiveUp(BAD_INPUT, "IDs and --failed have a meaning for `retry` only", "weft notifications retry ID…")
    if args.action != "default" and (args.file is not None or args.none):
        raise GiveUp(BAD_INPUT, "--file and --none have a meaning for `default` only")
    return {"list": _list, "retry": _retry, "default": _default}[args.action](args, session)


def _list(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    found = connection.notifications(state=args.state, run=args.run, limit=limit_of(args, LISTED))
    if args.json:
        session.print_json({"notifications": found})
        return OK
    if not found:
        session.warn("no notifications" + (" like that" if args.state or args.run else ""))
        return OK
    now = connection.now()
    rows = [
        [one.id, one.event, one.run or one.workflow, one.target, _state(one), ago(now - one.created_at)]
        for one in found
    ]
    heads = ("notification", "about", "run", "to", "state", "since")
    for line in table(session.out, heads, rows, ("bold", None, None, None, None, "dim")):
        session.print(line)
    return OK


def _state(one: NotificationInfo) -> str:
    tries = f" after {one.tries} tries" if one.tries > 1 else ""
    return f"{one.state}{tries}" + (f": {printable(one.error)}" if one.error else "")


def _retry(args: Namespace, session: CommandSession) -> int:
    if bool(args.ids) == args.failed:
        raise GiveUp(BAD_INPUT, "retry which ones?", "weft notifications retry ID…, or --failed for all that failed")
    changed = session.connection().retry_notifications(None if args.failed else args.ids)
    if args.json:
        session.print_json({"changed": changed})
    else:
        session.print(
            f"{changed} will be delivered again" if changed else "nothing to do: they are being delivered right now"
        )
    return OK


def _default(args: Namespace, session: CommandSession) -> int:
    if args.file is not None and args.none:
        raise GiveUp(BAD_INPUT, "--file and --none exclude each other")
    connection = session.connection(create=True)
    if args.file is None and not args.none:
        targets = connection.notify_default()
    else:
        targets = connection.set_notify_default([] if args.none else _read(Path(args.file)))
    if args.json:
        session.print_json({"notify": targets})
    elif not targets:
        session.print("no targets for all workflows")
    for target in targets if not args.json else []:
        session.print(msgspec.json.encode(target).decode())
    return OK


def _read(path: Path) -> list[dict[str, Any]]:
    """A list of targets, one alone, or a mapping with `notify`."""
    try:
        value, faults = build(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise GiveUp(BAD_INPUT, f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if faults:
        raise GiveUp(BAD_INPUT, f"{path} is not YAML: {faults[0].message}")
    if isinstance(value, dict) and "notify" in value:
        value = value["notify"]
    found = [value] if isinstance(value, dict) else value
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise GiveUp(BAD_INPUT, f"{path}: expected a list of targets", "write - {on: [failed], webhook: …}")
    return found
