"""triggers: list them, pause and resume one, fire one by hand, and say when it fires next."""

import json
from argparse import Namespace
from datetime import datetime

from weft.cli.exit_codes import BAD_INPUT, FAILED, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import ago, moment
from weft.cli.terminal.tables import table
from weft.operations.replies import FireInfo, TriggerInfo

NEXT = 5
FIRES = 20


def triggers(args: Namespace, session: CommandSession) -> int:
    if args.limit is not None and not 1 <= args.limit <= 1000:
        raise GiveUp(BAD_INPUT, "--limit must be 1 to 1,000")
    if args.action != "list" and args.trigger is None:
        raise GiveUp(BAD_INPUT, f"triggers {args.action} needs a trigger", "weft triggers lists them")
    if args.body is not None and args.action != "fire":
        raise GiveUp(BAD_INPUT, "--body has a meaning for `fire` only")
    return _ACTIONS[args.action](args, session)


def _list(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    found = connection.triggers(args.trigger)
    if args.json:
        session.print_json({"triggers": found})
        return OK
    if not found:
        session.warn("no triggers; `weft apply FILE` activates those of a definition")
        return OK
    now = connection.now()
    rows = [[one.id, one.what, _next(one), _last(one.last, now), _state(one)] for one in found]
    for line in table(session.out, ("trigger", "fires", "next", "last", ""), rows, ("bold",)):
        session.print(line)
    return OK


def _next(one: TriggerInfo) -> str:
    """With the offset: the trigger may have a zone of its own."""
    if one.paused or one.problem or one.next_at is None:
        return "paused" if one.paused else one.problem or ""
    return datetime.fromtimestamp(one.next_at / 1000).astimezone().isoformat(" ", "seconds")


def _last(fire: FireInfo | None, now: int) -> str:
    return "" if fire is None else f"{fire.outcome} {ago(now - fire.at)}"


def _state(one: TriggerInfo) -> str:
    text = [f"{one.unfinished} running"] if one.unfinished else []
    return ", ".join([*text, f"{one.queued} queued"] if one.queued else text)


def _show(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    one = connection.trigger(args.trigger)
    fires = connection.fires(one.id, args.limit or FIRES)
    if args.json:
        session.print_json({"trigger": one, "fires": fires})
        return OK
    session.print(f"{one.id}: {one.what}, overlap {one.overlap}, catch-up {one.catch_up}")
    session.print(f"workflow version {one.hash[:12]}, next: {_next(one) or 'when it is called for'}")
    rows = [[moment(f.at), f.outcome, f.run or "", moment(f.due_at) or f.cause, f.reason or ""] for f in fires]
    for line in table(session.out, ("at", "outcome", "run", "for", "why"), rows):
        session.print(line)
    return OK


def _pause(args: Namespace, session: CommandSession) -> int:
    paused = args.action == "pause"
    one = session.connection().trigger(args.trigger)
    reply = session.connection().pause_trigger(one.id, paused=paused)
    if args.json:
        session.print_json({"trigger": one.id, "paused": paused, "changed": not reply.existing})
    elif reply.existing:
        session.print(f"{one.id} {'is paused already' if paused else 'was not paused'}")
    else:
        session.print(f"{one.id} is paused" if paused else f"{one.id} goes on from now; nothing is made up for")
    return OK


def _fire(args: Namespace, session: CommandSession) -> int:
    body = None
    if args.body is not None:
        try:
            body = json.loads(args.body)
        except ValueError as error:
            raise GiveUp(BAD_INPUT, f"--body is not JSON: {error}") from None
    reply = session.connection().fire(args.trigger, body)
    if args.json:
        session.print_json(reply)
    elif reply.run is not None:
        session.print(f"{reply.trigger} started run {reply.run}")
    else:
        session.print(f"{reply.trigger}: {reply.outcome}" + _because(reply.reason))
    return FAILED if reply.outcome == "failed" else OK


def _because(reason: str | None) -> str:
    return "" if reason is None else f", {reason}"


def _upcoming(args: Namespace, session: CommandSession) -> int:
    one = session.connection().trigger(args.trigger)
    times = session.connection().next_times(one.id, args.limit or NEXT)
    if args.json:
        session.print_json({"trigger": one.id, "paused": one.paused, "next": times})
        return OK
    if not times:
        session.print(f"{one.id} fires when it is called for: {one.what}")
    for at in times:
        late = f"  (fired at {moment(at['at'])})" if at["at"] != at["due_at"] else ""
        session.print(at["time"] + late)
    if one.paused:
        session.warn(f"{one.id} is paused: it fires when it is resumed")
    return OK


_ACTIONS = {"list": _list, "show": _show, "pause": _pause, "resume": _pause, "fire": _fire, "next": _upcoming}
