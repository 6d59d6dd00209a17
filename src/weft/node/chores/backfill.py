"""A chore of the leader: start the next runs of backfills.

Which times come next is worked out here, where the zone database may be read; whether one of them starts a run is
decided under the backfill's lock (core/rules/backfill.py). One that has moved since it was read is left alone.
"""

from weft.core.commands import Firing, Refused, Reply, StepBackfill
from weft.core.rows import BackfillRow, TriggerRow
from weft.core.rules.apply import trigger_of
from weft.core.rules.backfill import backfill_cause
from weft.node.ports import LinkLost, Ports
from weft.triggers.timetable import local_text, times_between

ROUNDS_MAX = 20
BACKFILLS_MAX = 100  # looked at in one go
TIMES_MAX = 50  # of one transaction: most of them have a run already, or the first one starts one


async def backfill(ports: Ports, term: int) -> None:
    """With each look at what is due: as many runs as may be unfinished, but no more than the clock can wait for."""
    for _ in range(ROUNDS_MAX):
        moved = False
        for row, trigger in await ports.chore_link.backfills_to_step(BACKFILLS_MAX):
            moved = await _step(ports, term, row, trigger) or moved
        if not moved:
            return


async def _step(ports: Ports, term: int, row: BackfillRow, trigger: TriggerRow) -> bool:
    """One that cannot go on never keeps the others from it."""
    try:
        definition = trigger_of(trigger)
        times = times_between(definition, *_rest(row), TIMES_MAX + 1, reverse=row.reverse)
        firings = [
            Firing(
                backfill_cause(row.id, at, row.again), ports.new_id(), {"time": local_text(definition, at)}, at,
            )
            for at in times[:TIMES_MAX]
        ]  # fmt: skip
        command = StepBackfill(row.id, term, row.cursor, firings, len(times) <= TIMES_MAX)
        reply: Reply = await ports.chore_link.commit(command)
        return bool(reply.changed)
    except (LinkLost, TimeoutError):
        raise
    except Exception as error:
        if isinstance(error, Refused) and error.code == "stale_term":
            raise
        ports.log("a backfill cannot go on", {"backfill": row.id, "error": str(error) or repr(error)})
        return False


def _rest(row: BackfillRow) -> tuple[int, int]:
    """What is left of its range, both ends included."""
    if row.cursor is None:
        return row.first_ms, row.last_ms
    return (row.first_ms, row.cursor - 1) if row.reverse else (row.cursor + 1, row.last_ms)
