"""store: what it holds, its schema, and its move to PostgreSQL."""

from argparse import Namespace
from pathlib import Path

from weft.cli.commands.ls import store_info
from weft.cli.exit_codes import BAD_INPUT, NOT_FOUND, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import size
from weft.client.opening import STORE_FILE, store_place
from weft.config import store_from
from weft.store.postgres.url import PostgresUrl

ALONE = {"copy": ("source", "target", "wait", "quick", "undo"), "downgrade": ("schema",)}


def store(args: Namespace, session: CommandSession) -> int:
    for action, names in ALONE.items():
        given = [name for name in names if getattr(args, name)]
        if given and args.action != action:
            word = {"source": "from", "target": "to"}.get(given[0], given[0])
            raise GiveUp(BAD_INPUT, f"--{word} is for weft store {action}")
    return {"info": store_info, "copy": _copy, "migrate": _migrate, "downgrade": _downgrade}[args.action](
        args, session
    )


def _copy(args: Namespace, session: CommandSession) -> int:
    from weft.client.opening import need_psycopg
    from weft.client.store_copy import Copy, NotAlone, NotTheSame

    session.refuse_server()
    source, target = _places(args, session)
    need_psycopg(target)
    from weft.store.postgres.fill import Filling

    copy = Copy(source, Filling(target), lambda text: None if args.json else session.warn(text))
    try:
        if args.undo:
            copy.undo()
            session.warn(f"{source} is in use again")
            return OK
        done = copy.run(wait=args.wait, quick=args.quick)
    except NotAlone as problem:
        raise GiveUp(BAD_INPUT, str(problem), "stop them, or say --wait: they are drained then") from None
    except NotTheSame as problem:
        raise GiveUp(
            BAD_INPUT, f"nothing was moved: {problem}", f"weft store copy … --undo uses {source} again"
        ) from None
    finally:
        copy.close()
    if args.json:
        session.print_json(done)
    elif not done.rows:
        session.print(f"{done.source} had been moved to {done.target}")
    else:
        text = f"{done.rows['runs']:,} runs, {done.rows['tasks']:,} tasks, {size(done.output_bytes)} of output"
        session.print(f"moved {done.source} to {done.target}: {text}")
        if done.differing:
            named = ", ".join(done.differing[:5]) + (" …" if done.differing[5:] else "")
            session.warn(f"not what their events say, moved as they are: {named}; see weft verify RUN")
        session.warn(f"set WEFT_STORE to it on every machine; {done.source} only answers questions from now on")
    return OK


def _places(args: Namespace, session: CommandSession) -> tuple[Path, PostgresUrl]:
    if args.target is None:
        raise GiveUp(BAD_INPUT, "weft store copy needs --to", "weft store copy --to postgresql://USER@HOST/DATABASE")
    target = store_from("--to", args.target, session.directory)
    if not isinstance(target, PostgresUrl):
        raise GiveUp(
            BAD_INPUT, "--to must be postgresql://…: only a store that is a file can be moved, and only there"
        )
    if args.source is None:
        source = store_place(session.config, session.directory)
    else:
        source = store_from("--from", args.source, session.directory)
    if isinstance(source, PostgresUrl):
        raise GiveUp(BAD_INPUT, "--from must be a file: a store on PostgreSQL is moved with pg_dump and pg_restore")
    source = source / STORE_FILE if source.is_dir() else source
    if not source.exists():
        raise GiveUp(NOT_FOUND, f"there is no store at {source}")
    return source, target


def _migrate(args: Namespace, session: CommandSession) -> int:
    """Opening a store does it; this is for whoever wants it done before nodes come."""
    connection = session.local()
    if args.json:
        session.print_json({"location": connection.store.name, "schema": connection.store.schema})
    else:
        session.print(f"{connection.store.name} has schema {connection.store.schema}, that of this version")
    return OK


def _downgrade(args: Namespace, session: CommandSession) -> int:
    connection = session.local()
    have = connection.store.schema
    if args.schema is None or not 1 <= args.schema <= have:
        raise GiveUp(BAD_INPUT, f"--schema must be from 1 to {have}, which {connection.store.name} has now")
    live = connection.nodes()
    if live:
        text = ", ".join(node.node for node in live)
        raise GiveUp(BAD_INPUT, f"nodes are at work on it: {text}", "stop them first: weft drain NODE --wait")
    connection.store.downgrade(args.schema)
    if args.json:
        session.print_json({"location": connection.store.name, "schema": args.schema})
    else:
        session.print(
            f"{connection.store.name} has schema {args.schema}; the next command of this version brings it back"
        )
    return OK
