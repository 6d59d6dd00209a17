"""dead list, dead retry: tasks whose retries are used up."""

from argparse import Namespace

from weft.cli.commands.ls import TASKS_LIMIT, limit_of, print_tasks
from weft.cli.commands.run import go_on, refuse_for_server
from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.placement_checks import refuse_unplaceable
from weft.cli.session import CommandSession


def dead(args: Namespace, session: CommandSession) -> int:
    return _list(args, session) if args.action == "list" else _retry(args, session)


def _list(args: Namespace, session: CommandSession) -> int:
    if args.tasks:
        raise GiveUp(BAD_INPUT, "dead list takes no tasks")
    limit = limit_of(args, TASKS_LIMIT)
    connection = session.connection()
    if args.run is not None:
        found, after = connection.tasks(args.run, states=["dead_letter"], limit=limit)
    else:
        found, after = connection.dead_letters(limit=limit)
    if args.json:
        session.print_json({"tasks": found, "more": after is not None})
    elif not found:
        session.warn("no dead letters")
    else:
        print_tasks(session, connection, found, with_run=True)
        if after is not None:
            session.warn(f"there are more than {limit:,}: --limit shows more")
    return OK


def _retry(args: Namespace, session: CommandSession) -> int:
    if args.run is None:
        raise GiveUp(BAD_INPUT, "dead retry needs a run", "weft dead retry RUN [TASK…]; weft dead list shows them")
    refuse_for_server(args, session)
    connection = session.connection()
    _, run_id = connection.find(args.run)
    refuse_unplaceable(session, args, connection, [connection.workflow(run_id)])
    after = connection.last_event(run_id)
    return go_on(args, session, connection, connection.retry_dead(run_id, args.tasks or None), after)
