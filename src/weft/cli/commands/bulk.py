"""bulk: the same change to many runs."""

from argparse import Namespace
from typing import Any, Final, get_args

from weft.cli.commands.ls import filters_of
from weft.cli.exit_codes import BAD_INPUT, FAILED, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import counted, state_word
from weft.cli.terminal.tables import table
from weft.operations.resources.bulk import AT_ONCE_MAX, ChangedRun, ChangeRunsRequest, ChosenRunsRequest, RunAction

ACTIONS: Final = (*get_args(RunAction), "remove")


def bulk(args: Namespace, session: CommandSession) -> int:
    action = args.action.replace("-", "_")
    if action not in ACTIONS:
        known = ", ".join(word.replace("_", "-") for word in ACTIONS)
        raise GiveUp(BAD_INPUT, f"{args.action!r} cannot be done to many runs", f"known: {known}")
    connection = session.connection()
    found = filters_of(args, connection, connection.now())
    chosen: dict[str, Any] = {
        "preview": args.preview, "state": found["states"], "name": found["name"],
        "label": found["labels"] or None, "input": found["inputs"] or None, "trigger": found["trigger"],
        "backfill": found["backfill"], "since": found["since"], "until": found["until"], "text": found["text"],
        "late": args.late, "children": args.all,
    }  # fmt: skip
    request = (
        ChosenRunsRequest(**chosen)
        if action == "remove"
        else ChangeRunsRequest(**chosen, action=action, reason=args.reason)
    )
    changed: list[ChangedRun] = []
    refused: list[ChangedRun] = []
    named = list(dict.fromkeys(args.runs))
    while True:
        request.runs = named[:AT_ONCE_MAX] or None
        reply = connection.change_runs(request)
        changed += reply.changed
        refused += reply.refused
        named = named[AT_ONCE_MAX:]
        if not named and reply.next is None:
            break
        request.cursor = reply.next
    if args.json:
        session.print_json({"preview": args.preview, "changed": changed, "refused": refused})
    else:
        _print(args, session, changed, refused)
    return FAILED if args.runs and refused and not args.preview else OK


def _print(args: Namespace, session: CommandSession, changed: list[ChangedRun], refused: list[ChangedRun]) -> None:
    rows = [[one.run, one.name, state_word(one.state), f"new run {one.new}" if one.new else ""] for one in changed]
    rows += [[one.run, one.name, state_word(one.state), f"no: {one.refused}"] for one in refused]
    if rows:
        for line in table(session.out, ("run", "workflow", "state", ""), rows, (None, None, "state", "dim")):
            session.print(line)
    would = "would be changed" if args.preview else "changed"
    session.warn(f"{args.action}: {counted(len(changed), 'run')} {would}, {len(refused):,} left as they are")
