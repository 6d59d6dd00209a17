"""Money and tokens in words and numbers. Amounts are whole: millionths of a US dollar, and tokens."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from weft.core.rows import BudgetRow
from weft.core.workflow import MICROS, Usage

RUN: Final = "run:"  # scopes of budgets: of one run, by its number
POOL: Final = "pool:"  # of all tasks in a pool, by its name


class Amount(NamedTuple):
    """What was spent, or is reserved."""

    usd: int = 0
    tokens: int = 0

    def plus(self, other: "Amount", times: int = 1) -> "Amount":
        return Amount(self.usd + times * other.usd, self.tokens + times * other.tokens)


NOTHING: Final = Amount()


def run_scope(run_no: int) -> str:
    return f"{RUN}{run_no}"


def pool_scope(name: str) -> str:
    return POOL + name


def left(budget: Usage, spent: Amount) -> Usage:
    """What a task may still spend; what is below 0 was spent beyond its budget."""
    return Usage(
        None if budget.usd is None else budget.usd - spent.usd,
        None if budget.tokens is None else budget.tokens - spent.tokens,
    )


def used_up(budget: Usage, spent: Amount) -> bool:
    rest = left(budget, spent)
    return (rest.usd is not None and rest.usd <= 0) or (rest.tokens is not None and rest.tokens <= 0)


def reserved(budget: Usage, spent: Amount) -> Amount:
    """What is set aside for a running task: what it may still spend."""
    rest = left(budget, spent)
    return Amount(max(0, rest.usd or 0), max(0, rest.tokens or 0))


def in_words(unit: str, amount: int) -> str:
    """`$4.10`, `$0.000125`, `1,200 tokens`."""
    if unit == "tokens":
        return f"{amount:,} token{'' if amount == 1 else 's'}"
    whole, micros = divmod(abs(amount), MICROS)
    cents = f"{micros:06}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount < 0 else ''}${whole:,}" + ("" if micros == 0 else f".{cents}")


def limits_in_words(budget: Usage) -> str:
    return " and ".join(in_words(unit, amount) for unit, amount in limits(budget))


def limits(budget: Usage) -> Iterator[tuple[str, int]]:
    if budget.usd is not None:
        yield "usd", budget.usd
    if budget.tokens is not None:
        yield "tokens", budget.tokens


class Standing(NamedTuple):
    """A budget in one unit: its limit, what was spent of it, and what is reserved for running tasks."""

    unit: str
    limit: int
    spent: int
    reserved: int

    @property
    def free(self) -> int:
        return self.limit - self.spent - self.reserved

    def of(self, whose: str) -> str:
        """`the run has spent $4.10 of its budget of $5`."""
        return (
            f"{whose} has spent {in_words(self.unit, self.spent)} of its budget of {in_words(self.unit, self.limit)}"
        )

    def held(self) -> str:
        return "" if not self.reserved else f", {in_words(self.unit, self.reserved)} are reserved for running tasks"


def standings_of(row: BudgetRow) -> list[Standing]:
    """In the units that have a limit."""
    out = []
    if row.usd is not None:
        out.append(Standing("usd", row.usd, row.usd_spent, row.usd_reserved))
    if row.tokens is not None:
        out.append(Standing("tokens", row.tokens, row.tokens_spent, row.tokens_reserved))
    return out


def lacking(standings: Iterable[Standing], need: Usage) -> tuple[Standing, bool] | None:
    """The first budget that a task which may still spend `need` does not fit in, and whether it never will as things
    are: not even with nothing reserved. A task that needs no bound where there is a limit fits in no budget."""
    for standing in standings:
        wanted = need.usd if standing.unit == "usd" else need.tokens
        if wanted is None or wanted > standing.limit - standing.spent:
            return standing, True
        if wanted > standing.free:
            return standing, False
    return None


def refusal(standing: Standing, need: Usage, whose: str) -> str:
    """Why a task does not start."""
    wanted = need.usd if standing.unit == "usd" else need.tokens
    if wanted is None:
        return f"{whose} has a budget of {in_words(standing.unit, standing.limit)}, and this task has none"
    return f"{standing.of(whose)}{standing.held()}, and this task may spend {in_words(standing.unit, wanted)}"
