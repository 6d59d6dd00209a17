"""backfill and backfills: runs for fire times that have passed."""

import re
from argparse import Namespace

from weft.cli.arguments import moment_given
from weft.cli.definition_input import given_inputs
from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import counted, moment
from weft.cli.terminal.tables import table
from weft.operations.resources.backfills import PARALLEL_MAX, BackfillInfo, BackfillStarted

SHOWN = 20
DAY_MS = 86_400_000
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def backfill(args: Namespace, session: CommandSession) -> int:
    if args.what in ("show", "cancel"):
        return _of_one(args, session)
    if args.id is not None:
        raise GiveUp(
            BAD_INPUT, f"{args.id} is one word too many", "weft backfill show ID, or weft backfill cancel ID"
        )
    if args.first is None:
        raise GiveUp(BAD_INPUT, "where does the range begin?", "add --from TIME, e.g. --from 7d")
    connection = session.connection()
    now = connection.now()
    first = moment_given("--from", args.first, now)
    last = now if args.last is None else moment_given("--to", args.last, now)
    if args.last is not None and _DAY.fullmatch(args.last):
        last += DAY_MS - 1  # a date is the whole day
    if last < first:
        raise GiveUp(BAD_INPUT, "the range ends before it begins", "--from is the earlier moment, --to the later one")
    if not 1 <= args.parallel <= PARALLEL_MAX:
        raise GiveUp(BAD_INPUT, f"--parallel must be from 1 to {PARALLEL_MAX:,}")
    inputs = {}
    if args.input:
        inputs = given_inputs(connection.workflow_of_hash(connection.trigger(args.what).hash), args.input)
    done = connection.start_backfill(
        args.what, first, last, parallel=args.parallel, reverse=args.reverse, again=args.again, inputs=inputs,
        preview=args.dry_run,
    )  # fmt: skip
    if args.json:
        session.print_json(done)
    else:
        _print_started(args, session, done)
    return OK


def _print_started(args: Namespace, session: CommandSession, done: BackfillStarted) -> None:
    if args.dry_run:
        for one in done.times:
            session.print(one.time + (f"  has run {one.run or 'queued'} already" if one.has_run else ""))
        if len(done.times) < done.total:
            session.print(f"{session.out.sign('more')} {done.total - len(done.times):,} more")
    runs = done.total if args.again else done.total - done.existing
    known = f"; {done.existing:,} have a run already" if done.existing else ""
    session.print(f"{counted(done.total, 'fire time')} of {done.trigger}{known}: {counted(runs, 'run')}")
    if done.backfill is not None:
        session.print(f"backfill {done.backfill.id} has begun: weft backfill show {done.backfill.id}")
        if not session.connection().nodes():
            session.warn("no node is there to start its runs; start one with `weft worker`")


def _of_one(args: Namespace, session: CommandSession) -> int:
    if args.id is None:
        raise GiveUp(BAD_INPUT, f"backfill {args.what} needs the id of a backfill", "weft backfills lists them")
    connection = session.connection()
    found = connection.backfill(args.id) if args.what == "show" else connection.cancel_backfill(args.id, args.reason)
    if args.json:
        session.print_json(found)
        return OK
    session.print(f"backfill {found.id} of {found.trigger}: {found.state}")
    session.print(f"  times  {moment(found.first_ms)} to {moment(found.last_ms)}, {_direction(found)}")
    session.print(f"  runs   {_progress(found)}")
    if found.reason is not None:
        session.print(f"  reason {found.reason}")
    session.print(f"its runs: weft ls --backfill {found.id}")
    return OK


def _direction(found: BackfillInfo) -> str:
    return f"{'newest' if found.reverse else 'oldest'} first, {found.parallel} at a time"


def _progress(found: BackfillInfo) -> str:
    parts = [
        (found.succeeded, "succeeded"), (found.failed, "failed"), (found.cancelled, "cancelled"),
        (found.running, "running"), (found.left, "left"), (found.existing, "had a run already"),
        (found.not_started, "could not be started"),
    ]  # fmt: skip
    return ", ".join(f"{count:,} {word}" for count, word in parts if count) or "none"


def backfills(args: Namespace, session: CommandSession) -> int:
    if args.limit is not None and not 1 <= args.limit <= 1000:
        raise GiveUp(BAD_INPUT, "--limit must be 1 to 1,000")
    found = session.connection().backfills(args.limit or SHOWN)
    if args.json:
        session.print_json({"backfills": found})
        return OK
    if not found:
        session.warn("no backfills; `weft backfill TRIGGER --from TIME` makes runs for times that have passed")
        return OK
    rows = [
        [one.id, one.trigger, one.state, f"{one.total:,}", _progress(one), moment(one.created_at)] for one in found
    ]
    for line in table(session.out, ("backfill", "trigger", "state", "times", "runs", "since"), rows, ("bold",)):
        session.print(line)
    return OK
