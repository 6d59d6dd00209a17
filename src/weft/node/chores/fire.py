"""A chore of the leader: fire the triggers whose time has come, follow runs that have ended, start what was queued.

What is due is worked out here, where the zone database may be read; what becomes of it is decided under the trigger's
lock (core/rules/fire.py). A trigger that has moved since it was read is left alone: somebody else has fired it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from weft.core.commands import Fire, Firing, Refused, Reply
from weft.core.rows import TriggerRow
from weft.core.rules.apply import trigger_of
from weft.node.chores.backfill import backfill
from weft.node.ports import LinkLost, NodeSettings, Ports
from weft.triggers.timetable import due_times, local_text

AHEAD = 1.5  # looks are up to 1.2 × fire_every_s apart
ENDS_MAX = 100  # ended runs that are looked at in one go
LAG_MAX = 10_000  # events, after which a trigger that follows runs is moved on though no run of interest ended


async def fire(ports: Ports, settings: NodeSettings, term: int) -> None:
    """Stays until the next look if something is due before that, so that it is fired at its moment."""
    until = ports.clock() + AHEAD * settings.fire_every_s
    moved_on = False
    await backfill(ports, term)
    while True:
        now, next_ms, follows, rows = await ports.chore_link.due_triggers()
        if follows and not moved_on:
            moved_on = True
            await _each(ports, await _moved_on(ports, term))
        moved = await _each(ports, [(row, partial(_fire_due, ports, term, row, now)) for row in rows])
        if follows:
            moved += await _each(ports, await _followed(ports, term, now))
        left = until - ports.clock()
        if left <= 0:
            return
        if not moved:
            if next_ms is None or next_ms <= now or (next_ms - now) / 1000 >= left:
                return
            await asyncio.sleep((next_ms - now) / 1000)


Work = Callable[[], Awaitable[Reply]]


async def _each(ports: Ports, work: list[tuple[TriggerRow, Work]]) -> int:
    """One trigger that cannot be fired never keeps the others from it. How many moved on."""
    moved = 0
    for row, one in work:
        try:
            reply = await one()
            moved += bool(reply.changed or reply.more)
        except (LinkLost, TimeoutError):
            raise
        except Exception as error:
            if isinstance(error, Refused) and error.code == "stale_term":
                raise
            if not isinstance(error, Refused) or error.code != "not_found":  # it may just have been removed
                ports.log("a trigger cannot be fired", {"trigger": row.id, "error": str(error) or repr(error)})
    return moved


async def _fire_due(ports: Ports, term: int, row: TriggerRow, now: int) -> Reply:
    definition = trigger_of(row)
    times: list[int] = []
    until, next_ms = None, None
    if definition.timed:
        times, next_ms = due_times(row.id, definition, row.since_ms, now)
        until = times[-1] if times else row.since_ms
    firings = [Firing(str(at), ports.new_id(), {"time": local_text(definition, at)}, at) for at in times]
    command = Fire(row.id, firings, term, row.since_ms, row.cursor, until, next_ms, ports.new_id())
    reply: Reply = await ports.chore_link.commit(command)
    return reply


async def _followed(ports: Ports, term: int, now: int) -> list[tuple[TriggerRow, Work]]:
    """Fires for runs that have ended, by trigger."""
    found: dict[str, tuple[TriggerRow, list[Firing], int]] = {}
    for row, seq, run_id, name, data in await ports.chore_link.ends_to_follow(ENDS_MAX):
        state = msgspec.json.decode(data)["state"]
        run = {"id": run_id, "name": name, "state": state}
        names = {"time": local_text(trigger_of(row), now), "run": run}
        _, firings, _ = found.get(row.id, (row, [], 0))
        firings.append(Firing(f"{run_id}@{seq}", ports.new_id(), names, state=state, seq=seq))
        found[row.id] = (row, firings, seq)

    def work(row: TriggerRow, firings: list[Firing], seq: int) -> Work:
        return lambda: ports.chore_link.commit(Fire(row.id, firings, term, row.since_ms, row.cursor, seq))

    return [(row, work(row, firings, seq)) for row, firings, seq in found.values()]


async def _moved_on(ports: Ports, term: int) -> list[tuple[TriggerRow, Work]]:
    """So that nobody has to read a million events to see that none was of interest. What came while this was worked
    out is looked at first: a trigger stands behind all of it."""
    newest, rows = await ports.chore_link.triggers_behind(LAG_MAX)
    waiting = {row.id for row, *_ in (await ports.chore_link.ends_to_follow(ENDS_MAX) if rows else [])}

    def work(row: TriggerRow) -> Work:
        return lambda: ports.chore_link.commit(Fire(row.id, [], term, row.since_ms, row.cursor, newest))

    return [(row, work(row)) for row in rows if row.id not in waiting]
