"""budget: what a run may spend, and has spent."""

from argparse import Namespace

from weft.cli.exit_codes import OK
from weft.cli.session import CommandSession
from weft.cli.terminal.formats import budget_text, spent_text
from weft.cli.terminal.tables import table


def budget(args: Namespace, session: CommandSession) -> int:
    connection = session.connection()
    _, run_id = connection.find(args.run)
    if args.usd is not None or args.tokens is not None:
        connection.set_budget(run_id, usd=args.usd, tokens=args.tokens)
    found = connection.budget(run_id)
    if args.json:
        session.print_json(found)
        return OK
    if not found.spends:
        session.warn(f"none of the tasks of run {run_id} can spend anything")
        return OK
    session.print(budget_text(found.budget))
    rows = [[one.task, f"{one.generation}", spent_text(one.usd, one.tokens)] for one in found.tasks]
    for line in table(session.out, ("task", "generation", "spent"), rows, ("bold",)) if rows else ():
        session.print(line)
    return OK
