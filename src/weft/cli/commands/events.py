"""events, why, verify: what happened to a run, what it waits for, and whether its history explains its state."""

import json
from argparse import Namespace
from typing import Any

from weft.cli.arguments import moment_given
from weft.cli.commands.ls import limit_of
from weft.cli.exit_codes import BAD_INPUT, FAILED, OK, GiveUp
from weft.cli.run_view.text_views import event_json
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import clock, counted, state_word
from weft.cli.terminal.terminal import printable
from weft.client.following import ALL
from weft.client.verbs import Connection
from weft.core.definition.suggest import nearest
from weft.core.history.kinds import EVENT_KINDS
from weft.operations.replies import EventInfo, titled

EVENTS_LIMIT = 1000
FOLLOW_FROM = 10  # numbers back, where the whole cluster is followed


def events(args: Namespace, session: CommandSession) -> int:
    kinds = None if args.kind is None else [_kind(word) for kind in args.kind for word in kind.split(",")]
    connection = session.connection()
    run_id = None if args.run is None else connection.find(args.run)[1]
    if args.canonical:
        if run_id is None:
            raise GiveUp(BAD_INPUT, "--canonical: of which run?", "weft events RUN --canonical")
        for line in connection.canonical(run_id):
            session.print(line)
        return OK
    limit = limit_of(args, ALL if args.follow else EVENTS_LIMIT)
    filters = {"kinds": kinds, **_filters(args, connection.now())}
    follower = connection.follow(run_id, after=_begin(args, connection, limit), **filters)

    def ended() -> bool:
        return not args.follow or (run_id is not None and connection.run(run_id).finished)

    try:
        for page in follower.pages(ended, limit):
            limit -= len(page)
            for event in page:
                session.print(event_json(event) if args.json else _line(session, event, with_run=run_id is None))
            session.out.stream.flush()
    finally:
        follower.close()
    if limit <= 0 and connection.events(run_id, after=follower.seq, limit=1, **filters):
        session.warn(f"more: weft events {run_id or ''}{' ' if run_id else ''}--after {follower.seq}")
    return OK


def _begin(args: Namespace, connection: Connection, limit: int) -> int:
    """A run is told from its beginning; the cluster's history has none that matters: its end is shown."""
    if args.after is not None:
        return int(args.after)
    if args.run is not None or args.since is not None:
        return 0
    last = connection.last_event()
    if args.follow:
        return max(0, last - FOLLOW_FROM)
    narrowed = args.node or args.task or args.kind or args.until
    return 0 if narrowed else max(0, last - limit)


def _filters(args: Namespace, now: int) -> dict[str, Any]:
    return {
        "node": args.node,
        "task": args.task,
        "since": None if args.since is None else moment_given("--since", args.since, now),
        "until": None if args.until is None else moment_given("--until", args.until, now),
    }


def _kind(word: str) -> str:
    if word.strip() not in EVENT_KINDS:
        meant = nearest(word.strip(), EVENT_KINDS)
        fix = f"did you mean {meant!r}?" if meant else "docs/reference/events.md has them all"
        raise GiveUp(BAD_INPUT, f"--kind: no event is called {word.strip()!r}", fix)
    return word.strip()


def _line(session: CommandSession, event: EventInfo, *, with_run: bool) -> str:
    out = session.out
    data = dict(event.data)
    parts = [out.paint(clock(event.at), "dim"), f"{event.seq:>6}", f"{event.kind:<12}"]
    if with_run and event.run_id is not None:
        parts.append(out.paint(event.run_id, "dim"))
    if event.task:
        parts.append(out.paint(titled(event.task, event.label), "bold"))
    state = data.pop("state", None)
    if isinstance(state, str):
        parts.append(out.state(state, state_word(state)))
    for name, value in data.items():
        if name in ("hash", "labels", "started_at", "session", "node") or value is None:
            continue
        shown = counted(len(value), "task") if name == "tasks" and isinstance(value, list) else None
        text = shown or (value if isinstance(value, str) else json.dumps(value))
        parts.append(out.paint(f"{name}={printable(text)[:120]}", "dim") if shown is None else shown)
    if event.node:
        parts.append(out.paint(f"on {event.node}", "dim"))
    return "  ".join(parts)


def why(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    found = connection.why(args.run, args.task, None if args.at is None else max(0, args.at))
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


def verify(args: Namespace, session: CommandSession) -> int:
    if args.replicas:
        return _verify_replicas(args, session)
    if args.run is None:
        raise GiveUp(BAD_INPUT, "which run?", "weft verify RUN, or weft verify --replicas")
    connection = session.connection()
    found = connection.verify(args.run)
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


def _verify_replicas(args: Namespace, session: CommandSession) -> int:
    from weft.store.replicated.log_store import LogStore

    store = session.local().store
    if not isinstance(store, LogStore):
        raise GiveUp(BAD_INPUT, f"{store.name} has no replicas", "--replicas is for a store on etcd")
    found = store.compare_replicas()
    if args.json:
        replicas = [
            {"node": one.name, "replica": one.node, "revision": one.compared, "hash": one.hash}
            for one in found.replicas
        ]
        session.print_json({"revision": found.revision, "replicas": replicas, "equal": found.equal})
        return OK if found.equal else FAILED
    for one in found.replicas:
        late = one.compared < found.revision
        session.print(f"{one.name}  {'has not answered yet' if late else one.hash}")
    if found.equal:
        text = f"the tables of {counted(len(found.replicas), 'replica')} are equal after entry {found.revision:,}"
        session.print(f"{session.out.state('succeeded')} {text}")
    else:
        session.print(f"{session.out.state('failed')} not all replicas are known to be equal")
    return OK if found.equal else FAILED


def _plain(record: object) -> dict[str, object]:
    import msgspec

    value: dict[str, object] = msgspec.to_builtins(record)
    return value
