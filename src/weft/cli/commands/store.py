"""store: what it holds, its schema, and its move to PostgreSQL or to a replicated log."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.commands.ls import store_info
from weft.cli.exit_codes import BAD_INPUT, NOT_FOUND, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import size
from weft.client.opening import STORE_FILE, files_root, need_psycopg, store_place
from weft.config import store_from
from weft.store.etcd.url import EtcdUrl
from weft.store.postgres.url import PostgresUrl
from weft.store.urls import StoreUrl

if TYPE_CHECKING:
    from weft.client.move.store_copy import CopyInfo
    from weft.store.etcd.fill import LogFilling
    from weft.store.postgres.fill import Filling
    from weft.store.postgres.source import PostgresSource
    from weft.store.sqlite.source import SqliteSource

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
    from weft.client.move.store_copy import NotAlone, NotTheSame

    session.refuse_server()
    source = store_place(session.config, session.directory)
    if args.source is not None:
        source = store_from("--from", args.source, session.directory)
    try:
        if isinstance(source, EtcdUrl):
            done = _copy_log(args, session, source)
        else:
            done = _copy_store(args, session, source)
        if done is None:
            session.warn(f"{_shown(source)} is in use again")
            return OK
    except NotAlone as problem:
        hint = "stop them, or say --wait: they are drained then"
        if isinstance(source, EtcdUrl):
            hint = "stop all of them; those that were killed have ended when their lease has passed"
        raise GiveUp(BAD_INPUT, str(problem), hint) from None
    except NotTheSame as problem:
        hint = f"weft store copy … --undo uses {_shown(source)} again"
        raise GiveUp(BAD_INPUT, f"nothing was moved: {problem}", hint) from None
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


def _copy_log(args: Namespace, session: CommandSession, source: EtcdUrl) -> "CopyInfo | None":
    """From a replicated log to a file or to PostgreSQL. None: a copy was undone."""
    from weft.client.move.log_move import move_log, undo_move

    place = None if args.target is None else store_from("--to", args.target, session.directory)
    if place is None or isinstance(place, EtcdUrl):
        raise GiveUp(BAD_INPUT, "--to must be a file or postgresql://…: a replicated log can be moved only there")
    if args.wait:
        raise GiveUp(BAD_INPUT, "--wait is not for a replicated log: stop its nodes, and run it again")
    target: Any = place if isinstance(place, Path) else _filling(place, session)
    say = _sayer(args, session)
    if args.undo:
        undo_move(source, session.directory, target, say, wait_s=session.config.store_wait)
        return None
    return move_log(source, session.directory, target, say, quick=args.quick, wait_s=session.config.store_wait)


def _sayer(args: Namespace, session: CommandSession) -> Callable[[str], None]:
    return lambda text: None if args.json else session.warn(text)


def _filling(target: StoreUrl, session: CommandSession) -> "Filling | LogFilling":
    if isinstance(target, EtcdUrl):
        from weft.store.etcd.fill import LogFilling

        return LogFilling(target, files_root(session.directory))
    need_psycopg(target)
    from weft.store.postgres.fill import Filling

    return Filling(target)


def _copy_store(args: Namespace, session: CommandSession, source: Path | StoreUrl) -> "CopyInfo | None":
    """From a file, or from PostgreSQL to a replicated log. None: a copy was undone."""
    from weft.client.move.store_copy import Copy

    if args.target is None:
        raise GiveUp(BAD_INPUT, "weft store copy needs --to", "weft store copy --to postgresql://USER@HOST/DATABASE")
    target = store_from("--to", args.target, session.directory)
    if isinstance(target, Path):
        raise GiveUp(
            BAD_INPUT, "--to must be postgresql://… or etcd://…: only a replicated log can be moved to a file"
        )
    root = None if isinstance(source, Path) else files_root(session.directory)
    copy = Copy(_source(source, target), _filling(target, session), _sayer(args, session), root)
    try:
        if args.undo:
            copy.undo()
            return None
        return copy.run(wait=args.wait, quick=args.quick)
    finally:
        copy.close()


def _source(source: Path | StoreUrl, target: StoreUrl) -> "SqliteSource | PostgresSource":
    from weft.store.sqlite.source import SqliteSource

    if isinstance(source, PostgresUrl):
        if not isinstance(target, EtcdUrl):
            raise GiveUp(
                BAD_INPUT, "a store on PostgreSQL is moved to another PostgreSQL with pg_dump and pg_restore"
            )
        need_psycopg(source)
        from weft.store.postgres.source import PostgresSource

        return PostgresSource(source)
    assert isinstance(source, Path)
    file = source / STORE_FILE if source.is_dir() else source
    if not file.exists():
        raise GiveUp(NOT_FOUND, f"there is no store at {file}")
    return SqliteSource(file)


def _shown(source: Path | StoreUrl) -> str:
    return str(source) if isinstance(source, Path) else source.shown


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
