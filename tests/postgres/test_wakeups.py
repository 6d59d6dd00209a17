"""Wake-ups between processes: heard, coalesced, and restored when their connection dies."""

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from weft.core.decision.draft import Hint
from weft.store.postgres import notify as module
from weft.store.postgres.driver import PostgresStore
from weft.store.postgres.statements import Statement

Make = Callable[..., PostgresStore]


async def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def test_others_are_told_and_oneself_is_not(make_store: Make) -> None:
    async def talk() -> None:
        mine, yours = make_store().wakeups(), make_store().wakeups()
        heard = {"mine": 0, "yours": 0}

        def hear(name: str) -> Callable[[Any], None]:
            return lambda hint: heard.update({name: heard[name] + 1})

        mine.listen(hear("mine"))
        yours.listen(hear("yours"))
        await until(lambda: mine.heard and yours.heard)  # both hear themselves: they are listening
        mine.wake_others()
        await until(lambda: heard["yours"])
        assert heard["mine"] == 0
        mine.wake_all()
        await until(lambda: heard["mine"])
        mine.close()
        yours.close()

    asyncio.run(talk())


def test_many_words_become_few(make_store: Make) -> None:
    async def talk() -> None:
        mine, yours = make_store().wakeups(), make_store().wakeups()
        heard: list[Any] = []
        yours.listen(heard.append)
        await until(lambda: yours.heard)
        for _ in range(2000):
            mine.wake_others()
        await until(lambda: heard)
        mine.close()
        yours.close()
        assert len(heard) < 200

    asyncio.run(talk())


@pytest.mark.parametrize("claimed", [True, False])
def test_one_task_does_not_bring_all_idle_nodes_to_the_database(
    make_store: Make, monkeypatch: pytest.MonkeyPatch, claimed: bool
) -> None:
    """Told of a task, a few nodes look. The others come only if none of those took it."""
    monkeypatch.setattr(module, "ANSWER_S", 0.1)
    monkeypatch.setattr(module, "GROUP_S", 0.5)  # well above what a claim takes here
    idle = 12

    async def talk() -> None:
        teller = make_store().wakeups()
        nodes = [make_store().wakeups() for _ in range(idle)]
        woken: list[module.Notifier] = []

        def look(node: module.Notifier) -> Callable[[Hint], None]:
            def wake(hint: Hint) -> None:
                woken.append(node)
                if claimed and len(woken) == 1:
                    node.taken(1)

            return wake

        for node in nodes:
            node.listen(look(node))
        await until(lambda: all(len(node._known) == idle for node in nodes))  # they know of each other
        woken.clear()
        teller.wake_others(Hint(queued=1))
        if claimed:
            await until(lambda: woken)
            await until(lambda: not any(node._wake_at for node in nodes))
            assert len(woken) <= idle / 2, "those that were woken before the first one had claimed it"
        else:
            await until(lambda: len(set(map(id, woken))) == idle)
        for one in (teller, *nodes):
            one.close()

    asyncio.run(talk())


def test_what_is_said_last_is_said_before_closing(make_store: Make) -> None:
    """`weft submit` commits, tells, and ends."""

    async def talk() -> None:
        mine, yours = make_store().wakeups(), make_store().wakeups()
        heard: list[Any] = []
        yours.listen(heard.append)
        await until(lambda: yours.heard)
        mine.wake_others()
        mine.close()
        await until(lambda: heard)
        yours.close()

    asyncio.run(talk())


def test_a_killed_connection_is_made_anew(make_store: Make, url: str) -> None:
    async def talk() -> None:
        mine, yours = make_store().wakeups(), make_store().wakeups()
        heard: list[Any] = []
        yours.listen(heard.append)
        await until(lambda: yours.heard)
        with psycopg.connect(url, autocommit=True) as connection:
            killed = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE '%pg_notify%' AND datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchall()
        assert killed
        await until(lambda: heard, module.HEARD_WITHIN_S)  # whatever was said meanwhile was lost: it looks for itself
        heard.clear()
        before = yours.heard
        await until(lambda: yours.heard > before, 15)  # it listens again
        mine.wake_others()
        await until(lambda: heard)
        mine.close()
        yours.close()

    asyncio.run(talk())


def test_where_a_pooler_is_known_nobody_listens(make_store: Make, url: str) -> None:
    """It says so once, when somebody would listen; what it has to say arrives at those that can hear."""
    said: list[str] = []

    async def talk() -> None:
        store, direct = make_store(), make_store()
        store.log, store.pooled = said.append, True
        mine, yours = store.wakeups(), direct.wakeups()
        heard: list[Any] = []
        yours.listen(heard.append)
        await until(lambda: yours.heard)
        mine.wake_others()
        await until(lambda: heard)
        assert not said, "it only told"
        mine.listen(lambda hint: None)
        await until(lambda: said)
        yours.wake_others()
        await until(lambda: yours.heard > 2)
        mine.close()
        yours.close()
        assert (mine.heard, len(said)) == (0, 1)

    asyncio.run(talk())


def test_behind_a_pooler_that_breaks_listen_it_says_so_once(
    make_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a transaction pooler: LISTEN is accepted, and nothing ever comes."""
    monkeypatch.setattr(module, "HEARD_WITHIN_S", 0.2)
    monkeypatch.setattr(module, "TEST_EVERY_S", 0.3)
    monkeypatch.setattr(module, "_LISTEN", Statement("SELECT 1"))
    said: list[str] = []

    async def talk() -> None:
        store = make_store()
        store.log = said.append
        wakeups = store.wakeups()
        wakeups.listen(lambda hint: None)
        await until(lambda: said)
        await asyncio.sleep(1.5)  # two more tests: it is not said again
        wakeups.close()

    asyncio.run(talk())
    assert len(said) == 1
    assert "polling" in said[0]
