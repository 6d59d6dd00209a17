"""run, submit, resume and rerun: a run is stored, and then worked on here or left to workers."""

import hashlib
from argparse import Namespace
from typing import Any

from weft.authoring.children import family_of, workflows_of
from weft.cli.definition_input import load, read_inputs, source_directory
from weft.cli.exits import BAD_INPUT, OK, GiveUp
from weft.cli.placing import refuse_unplaceable, workers
from weft.cli.session import Session
from weft.cli.summary import summarise, summary_lines
from weft.cli.tracker import last_seq
from weft.cli.working import Options, work_on
from weft.config import Config
from weft.control.local import LocalControl, new_id
from weft.core.commands import Reply, Submit
from weft.core.definition import encode_document

PRIORITY_MAX = 10


def run(args: Namespace, session: Session) -> int:
    control, reply = _store_run(args, session, session.config)
    assert reply.run_id is not None
    if reply.existing:
        session.warn(f"run {reply.run_id} has this key already")
    return work_here(args, session, control, reply.run_id, 0)


def submit(args: Namespace, session: Session) -> int:
    args.argv = None
    control, reply = _store_run(args, session, None)
    assert reply.run_id is not None
    live = workers(control)
    if args.json:
        session.print_json({"run": reply.run_id, "existing": reply.existing, "workers": len(live)})
    else:
        session.print(reply.run_id)
        _say_who_works(session, control)
    return OK


def _say_who_works(session: Session, control: LocalControl) -> None:
    if not workers(control):
        session.warn("no live worker: start one with `weft worker`, or work on it here with `weft resume last`")


def _store_run(args: Namespace, session: Session, config: Config | None) -> tuple[LocalControl, Reply]:
    loaded = load(args)
    inputs = read_inputs(loaded.workflow, args.input)
    least = 1 if loaded.workflow.passes is None else 0
    if args.max_parallel is not None and args.max_parallel < least:
        raise GiveUp(BAD_INPUT, f"--max-parallel must be at least {least}")
    if args.by_hand and loaded.workflow.passes is None:
        raise GiveUp(BAD_INPUT, f"{loaded.workflow.name} has no levels to rest after", "add mode: levels to it")
    if not 0 <= args.priority <= PRIORITY_MAX:
        raise GiveUp(BAD_INPUT, f"--priority must be from 0 to {PRIORITY_MAX}")
    if args.key is not None and not 0 < len(args.key) <= 256:
        raise GiveUp(BAD_INPUT, "--key must have 1 to 256 characters")
    workflow = loaded.workflow
    control = session.control(create=True)
    for one in workflows_of(loaded):
        refuse_unplaceable(control, one, config)
    source = source_directory(loaded, session.config.workdir or session.directory)
    children, pins = family_of(loaded, source)
    body = f"{workflow.hash}\n{inputs}\n{args.max_parallel}\n{args.priority}" + ("\nby hand" if args.by_hand else "")
    if pins:
        body += "".join(f"\n{pin.name} {pin.child}" for pin in pins)
    command = Submit(
        run_id=new_id(),
        workflow=workflow.hash,
        name=workflow.name,
        document=encode_document(loaded.document),
        inputs=inputs,
        priority=args.priority,
        max_parallel=args.max_parallel,
        key=args.key,
        body_hash=hashlib.sha256(body.encode()).hexdigest(),
        source=source,
        children=children,
        pins=pins,
        fresh=args.no_cache,
        by_hand=args.by_hand,
    )
    return control, control.submit(command, workflow)


def resume(args: Namespace, session: Session) -> int:
    control = session.control()
    _, run_id = control.find(args.run)
    for workflow in control.workflows(run_id):
        refuse_unplaceable(control, workflow, None if args.detach else session.config)
    after = last_seq(control, run_id)
    return go_on(args, session, control, control.resume(run_id), after)


def advance(args: Namespace, session: Session) -> int:
    control = session.control()
    _, run_id = control.find(args.run)
    after = last_seq(control, run_id)
    return go_on(args, session, control, control.advance(run_id, by_task=args.task), after)


def go_on(args: Namespace, session: Session, control: LocalControl, reply: Reply, after: int) -> int:
    """After a resume: work on it here, or say that somebody else has to."""
    assert reply.run_id is not None
    now = control.run(reply.run_id)
    if now.finished:
        if not args.json:
            session.warn("there is nothing left to do")
        return _say_end(args, session, control, reply.run_id)
    if args.detach:
        return _detached(args, session, control, reply.run_id)
    return work_here(args, session, control, reply.run_id, after)


def _say_end(args: Namespace, session: Session, control: LocalControl, run_id: str) -> int:
    summary = summarise(control, run_id, 0, False)
    if args.json:
        value = {"type": "summary", "run": run_id, "state": summary.run.state, "output": summary.output}
        session.print_json({**value, "output_error": summary.output_error}, line=True)
    else:
        for line in summary_lines(summary, session.err):
            session.warn(line)
    return summary.exit_code


def _detached(args: Namespace, session: Session, control: LocalControl, run_id: str) -> int:
    if args.json:
        session.print_json({"run": run_id, "workers": len(workers(control))})
    else:
        session.print(run_id)
        _say_who_works(session, control)
    return OK


def rerun(args: Namespace, session: Session) -> int:
    control = session.control()
    old = control.run(args.run)
    workflow = control.workflow(old.id)
    for one in control.workflows(old.id):
        refuse_unplaceable(control, one, None if args.detach else session.config)
    reply = control.submit(_same_again(control, old, args.no_cache), workflow)
    assert reply.run_id is not None
    if args.detach:
        return _detached(args, session, control, reply.run_id)
    return work_here(args, session, control, reply.run_id, 0)


def _same_again(control: LocalControl, old: Any, fresh: bool) -> Submit:
    import json

    return Submit(
        run_id=new_id(),
        workflow=old.workflow,
        name=old.name,
        document=encode_document(control.document(old.workflow)),
        inputs=json.dumps(old.inputs),
        priority=old.priority,
        max_parallel=old.max_parallel,
        source=old.source,
        fresh=fresh,
        by_hand=old.pace is not None,
        pins=control.pins(old.id),
    )


def work_here(args: Namespace, session: Session, control: LocalControl, run_id: str, after: int) -> int:
    if control.run(run_id).finished and after == 0:
        return _say_end(args, session, control, run_id)
    return work_on(session, control, run_id, after, Options(logs=args.logs, json=args.json))
