"""A node in the middle of a chain asks the store for nothing else, and still hears of what others bring."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.postgres.test_races import submission
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.local_node.factory import make_node, node_settings
from weft.node import exchange
from weft.operations.access import StoreAccess
from weft.store.postgres.driver import PostgresStore

Make = Callable[..., PostgresStore]


def chain(count: int) -> dict[str, Any]:
    return {f"t{i}": {"inline": "noop", "needs": [f"t{i - 1}"] if i else []} for i in range(count)}


async def until(happened: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def test_a_chain_looks_for_other_work_only_when_it_is_woken(
    make_store: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "LOOK_EVERY_S", 60.0)
    sent: list[c.Exchange] = []
    store = make_store()
    elsewhere, reader = StoreConnection(StoreAccess(store, root=tmp_path)), store.reader()
    calls: list[str] = []

    def ended(run: str) -> bool:
        return reader.query(f"SELECT state FROM runs WHERE id = '{run}'") == [("succeeded",)]

    async def noop(launch: Any) -> None:
        calls.append(launch.run_id)
        if len(calls) == 20:  # in the midst of the chain, by another process as it were
            elsewhere.link.committer.commit(submission("other", {"one": {"inline": "noop"}}))
        if len(calls) > 20 and "other" not in calls:
            await asyncio.sleep(0.05)  # the chain must last until the wake-up comes

    async def main() -> None:
        connection = StoreConnection(StoreAccess(make_store(), root=tmp_path))
        node = make_node(connection, node_settings(connection, slots=4, workdir=tmp_path), inline={"noop": noop})
        link, genuine = connection.link, connection.link.exchange

        async def counted(command: c.Exchange, *, alone: bool = False) -> c.ExchangeReply:
            sent.append(command)
            return await genuine(command, alone=alone)

        monkeypatch.setattr(link, "exchange", counted)
        running = asyncio.create_task(node.run())
        await node.ready()
        await until(lambda: link.hears)
        elsewhere.link.committer.commit(submission("chained", chain(120)))
        await until(lambda: ended("chained") and ended("other"))
        node.stop()
        node.stop()
        await running
        connection.close()

    asyncio.run(main())
    elsewhere.close()
    looked = [command.look for command in sent if command.reports]
    assert looked.count(False) >= 100, looked
    assert len(calls) == 121
    assert "other" in calls[:-1], "what another process brought waited for the end of the chain"
