"""pools: limits that tasks of many runs and nodes share."""

from argparse import Namespace

from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import budget_text, counted
from weft.cli.terminal.tables import table
from weft.core.definition.fields import POOL_NAME
from weft.operations.replies import BudgetInfo

SIZE_MAX = 1_000_000


def pools(args: Namespace, session: CommandSession) -> int:
    return _set(args, session) if args.action == "set" else _list(args, session)


def _list(args: Namespace, session: CommandSession) -> int:
    found = session.connection().pools()
    if args.json:
        session.print_json({"pools": found})
        return OK
    if not found:
        session.warn("no pools; make one with `weft pools set NAME SIZE`")
        return OK
    rows = [[pool.name, f"{pool.used:,}/{pool.size:,}", f"{pool.waiting:,}", _few(pool.holders)] for pool in found]
    heads: tuple[str, ...] = ("pool", "used", "waiting", "held by")
    if any(pool.budget is not None and _counts(pool.budget) for pool in found):
        heads = (*heads[:3], "spent", heads[3])
        rows = [
            [*row[:3], budget_text(pool.budget) if pool.budget is not None else "", row[3]]
            for row, pool in zip(rows, found, strict=True)
        ]
    for line in table(session.out, heads, rows, ("bold",)):
        session.print(line)
    return OK


def _counts(budget: BudgetInfo) -> bool:
    return budget.usd is not None or budget.tokens is not None or budget.usd_spent > 0 or budget.tokens_spent > 0


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _set(args: Namespace, session: CommandSession) -> int:
    if args.name is None or args.size is None:
        raise GiveUp(BAD_INPUT, "pools set needs a name and a size", "weft pools set NAME SIZE")
    if POOL_NAME.compiled.fullmatch(args.name) is None:
        raise GiveUp(BAD_INPUT, f"{args.name!r} is not a pool's name", POOL_NAME.fix)
    if not 0 <= args.size <= SIZE_MAX:
        raise GiveUp(BAD_INPUT, f"the size must be a whole number from 0 to {SIZE_MAX:,}, found {args.size}")
    reply = session.connection(create=True).set_pool(
        args.name, args.size, usd=args.usd, tokens=args.tokens, renew=args.renew
    )
    if args.json:
        session.print_json(reply)
    else:
        how = "now has" if reply.existing else "is made, with"
        session.print(f"the pool {args.name} {how} {counted(args.size, 'place')}")
        if reply.used > args.size:
            session.warn(f"{reply.used:,} running tasks hold places: they go on, nothing more starts until then")
    return OK
