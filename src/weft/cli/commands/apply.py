"""apply: definitions become the current versions of their workflows, and their triggers active."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from weft.authoring.errors import DefinitionErrors
from weft.authoring.load import Loaded, with_defaults
from weft.cli.definition_input import load_named, source_directory
from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import counted
from weft.core.definition.site_defaults import SiteDefaults
from weft.local_node.definition_directory import definitions_in
from weft.operations.resources.submissions import AppliedWorkflow


def apply(args: Namespace, session: CommandSession) -> int:
    """All are read before any is stored: what is wrong with one leaves everything as it was."""
    loaded = _load(args.files, session.config.definition_defaults)
    connection = session.connection(create=True)
    replies: list[AppliedWorkflow] = []
    for one in loaded:
        source = source_directory(one, session.config.workdir or session.directory)
        reply = connection.apply(one, source, "weft apply", preview=args.dry_run)
        replies.append(reply)
        if not args.json:
            for line in reply.lines:
                session.print(line)
            session.print(_line(reply, args.dry_run))
    if args.json:
        session.print_json({"applied": replies})
    elif not args.dry_run and any(reply.triggers for reply in replies) and not connection.nodes():
        session.warn("no node is there to fire them; start one with `weft worker`")
    return OK


def _load(files: list[str], defaults: SiteDefaults) -> list[Loaded]:
    names: list[str] = []
    for name in files:
        if Path(name).is_dir():
            found = definitions_in(Path(name))
            if not found:
                raise GiveUp(BAD_INPUT, f"there are no definitions in {name}", "they end in .yaml, .yml or .json")
            names += [str(path) for path in found]
        else:
            names.append(name)
    loaded: dict[str, tuple[str, Loaded]] = {}
    wrong: list[Any] = []
    more = 0
    for name in names:
        try:
            one = with_defaults(load_named(name), defaults)
        except DefinitionErrors as errors:
            wrong += errors.errors
            more += errors.more
            continue
        other = loaded.setdefault(one.workflow.name, (name, one))
        if other[1] is not one:
            what = f"{other[0]} and {name} both define the workflow {one.workflow.name}"
            raise GiveUp(BAD_INPUT, what, "give one of them another name")
    if wrong:
        raise DefinitionErrors(wrong, more)
    return [one for _, one in loaded.values()]


def _line(applied: AppliedWorkflow, preview: bool = False) -> str:
    names = {"added": applied.added, "changed": applied.changed, "removed": applied.removed}
    text = [f"{how}: {', '.join(found)}" for how, found in names.items() if found]
    version = "is current already" if applied.existing else "would be current" if preview else "is current now"
    count = counted(applied.triggers, "trigger")
    return f"{applied.workflow} {applied.hash[:12]} {version}, {count}" + (f" ({'; '.join(text)})" if text else "")
