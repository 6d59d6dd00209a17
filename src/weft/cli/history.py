"""events, why, verify: what happened to a run, what it waits for, and whether its history explains its state."""

import json
import time
from argparse import Namespace

from weft.cli.exits import FAILED, OK
from weft.cli.lists import limit_of
from weft.cli.session import Session
from weft.cli.terminal import printable
from weft.cli.views import event_json
from weft.cli.words import clock, counted, state_word
from weft.control.records import EventInfo

EVENTS_LIMIT = 1000
FOLLOW_EVERY_S = 0.1
PAGE = 500


def events(args: Namespace, session: Session) -> int:
    control = session.control()
    _, run_id = control.find(args.run)
    if args.canonical:
        for line in control.canonical(run_id):
            session.print(line)
        return OK
    left = limit_of(args, 2**62 if args.follow else EVENTS_LIMIT)
    after = args.after
    while True:
        page = control.events(run_id, after=after, limit=min(PAGE, left))
        for event in page:
            session.print(event_json(event) if args.json else _line(session, event))
        left -= len(page)
        if page:
            after = page[-1].seq
            session.out.stream.flush()
        elif not args.follow or control.run(run_id).finished:
            return OK
        else:
            time.sleep(FOLLOW_EVERY_S)
        if left <= 0:
            if not args.json and control.events(run_id, after=after, limit=1):
                session.warn(f"more: weft events {run_id} --after {after}")
            return OK


def _line(session: Session, event: EventInfo) -> str:
    out = session.out
    data = dict(event.data)
    parts = [out.paint(clock(event.at), "dim"), f"{event.seq:>6}", f"{event.kind:<12}"]
    if event.task:
        parts.append(out.paint(event.task, "bold"))
    state = data.pop("state", None)
    if isinstance(state, str):
        parts.append(out.state(state, state_word(state)))
    for name, value in data.items():
        if name in ("hash", "started_at", "session") or value is None:
            continue
        shown = counted(len(value), "task") if name == "tasks" and isinstance(value, list) else None
        text = shown or (value if isinstance(value, str) else json.dumps(value))
        parts.append(out.paint(f"{name}={printable(text)[:120]}", "dim") if shown is None else shown)
    if event.node:
        parts.append(out.paint(f"on {event.node}", "dim"))
    return "  ".join(parts)


def why(args: Namespace, session: Session) -> int:
    control = session.control()
    found = control.why(args.run, args.task)
    if args.json:
        session.print_json({"explanations": found})
        return OK
    if not found:
        session.print("nothing waits: all of its tasks have ended")
    for one in found:
        head = f"{session.out.paint(one.task, 'bold')}  {session.out.state(one.state, state_word(one.state))}"
        session.print(f"{session.out.state(one.state)} {head}: {printable(one.summary)}")
        for line in one.details:
            session.print(f"    {printable(line)}")
    return OK


def verify(args: Namespace, session: Session) -> int:
    control = session.control()
    found = control.verify(args.run)
    if args.json:
        session.print_json({**_plain(found), "ok": found.ok})
    elif found.ok:
        text = f"{counted(found.events, 'event')} and {counted(found.tasks, 'task')} agree"
        session.print(f"{session.out.state('succeeded')} run {found.run_id}: {text}")
    else:
        session.print(f"{session.out.state('failed')} run {found.run_id}: its events do not explain its tables")
        for line in found.differences:
            session.print(f"  {printable(line)}")
    return OK if found.ok else FAILED


def _plain(record: object) -> dict[str, object]:
    import msgspec

    value: dict[str, object] = msgspec.to_builtins(record)
    return value
