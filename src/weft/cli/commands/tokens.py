"""token: who may use the server from elsewhere."""

from argparse import Namespace

from weft.cli.arguments import duration_ms
from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import moment
from weft.cli.terminal.tables import table
from weft.operations.replies import TokenInfo
from weft.operations.resources.tokens import LABEL_MAX

LABEL_DEFAULT = "unnamed"


def token(args: Namespace, session: CommandSession) -> int:
    return {"create": _create, "list": _list, "revoke": _revoke}[args.action](args, session)


def _create(args: Namespace, session: CommandSession) -> int:
    label = args.token or args.worker or LABEL_DEFAULT
    if not label.isprintable() or len(label) > LABEL_MAX:
        raise GiveUp(BAD_INPUT, f"a label is a text of at most {LABEL_MAX} characters")
    role, labels = args.api_role or "viewer", None
    if args.worker:
        if args.api_role is not None or args.token is not None:
            raise GiveUp(BAD_INPUT, "a worker's token has a name and no role", "weft token create --worker NAME")
        role, labels = "worker", _labels(args.worker_label) if args.worker_label else None
    elif args.worker_label or args.worker_workflow:
        raise GiveUp(BAD_INPUT, "--label and --workflow are for tokens of workers", "add --worker")
    made = session.connection(create=True).create_token(
        label, role, _expires_ms(args.expires), labels=labels, workflows=args.worker_workflow
    )
    if args.json:
        session.print_json(made)
        return OK
    session.print(made.token)
    until = "never expires" if made.expires_at is None else f"expires {moment(made.expires_at)}"
    session.warn(f"{made.id} ({made.label}, {made.role}) {until}. It is shown this once: keep it now.")
    return OK


def _labels(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if any(not name for name, _, _ in pairs):
        raise GiveUp(BAD_INPUT, "--label: a label has a name", "write --label gpu, or --label zone=eu")
    return {name: value for name, _, value in pairs}


def _expires_ms(text: str) -> int | None:
    if text == "never":
        return None
    found = duration_ms("--expires", text)
    if found == 0:
        raise GiveUp(BAD_INPUT, "--expires: such a token would be of no use", "write 30d, or never")
    return found


def _list(args: Namespace, session: CommandSession) -> int:
    found = session.connection().tokens()
    if args.json:
        session.print_json({"tokens": found})
        return OK
    if not found:
        session.warn("no tokens; make one with `weft token create LABEL --role viewer`")
        return OK
    rows = [
        [
            one.id,
            one.label,
            one.role,
            one.state,
            moment(one.created_at),
            moment(one.expires_at) or "never",
            _bound(one),
        ]
        for one in found
    ]
    heads = ("token", "label", "role", "state", "made", "expires", "bound to")
    for line in table(session.out, heads, rows, ("bold",)):
        session.print(line)
    return OK


def _bound(token: TokenInfo) -> str:
    labels = [name + (f"={value}" if value else "") for name, value in (token.labels or {}).items()]
    return ", ".join([*labels, *token.workflows])


def _revoke(args: Namespace, session: CommandSession) -> int:
    if args.token is None:
        raise GiveUp(BAD_INPUT, "token revoke: which one?", "weft token revoke ID; weft token list shows them")
    done = session.connection().revoke_token(args.token)
    if args.json:
        session.print_json(done)
    else:
        session.print(f"{done.id} {'was revoked already' if done.existing else 'is revoked'}")
    return OK
