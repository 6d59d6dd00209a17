"""weft.once, weft.current and weft.context_update in inline functions, on a node in this process."""

import asyncio
from pathlib import Path
from typing import Any

import weft
from weft.authoring.load import load_value
from weft.client.local import StoreConnection
from weft.core import commands as c
from weft.core.definition.document import encode_document
from weft.local_node.factory import make_node, node_settings
from weft.operations.access import StoreAccess
from weft.store.sqlite.driver import SqliteStore


def test_effects_of_inline_functions(tmp_path: Path) -> None:
    effects: list[str] = []

    async def charge() -> int:
        effects.append(weft.current().idempotency_key)
        return 17

    async def pay(launch: Any) -> Any:
        value = await weft.once("charge", charge)
        if weft.current().attempt < 3:
            raise ValueError("again")
        weft.context_update(receipt=value)
        return value

    def plain(launch: Any) -> Any:
        return weft.once("charge", lambda: 1)

    document = {
        "name": "w",
        "on_failure": "continue",
        "tasks": {
            "pay": {"inline": "pay", "retry": {"max": 2, "backoff": "10ms"}},
            "plain": {"inline": "plain"},
        },
    }
    loaded = load_value(document)
    connection = StoreConnection(StoreAccess(SqliteStore(tmp_path / "weft.db")))
    body = encode_document(loaded.document)
    connection.submit(c.Submit("r", loaded.workflow.hash, "w", body, "{}"), loaded.workflow)

    async def work() -> None:
        settings = node_settings(connection, slots=4, scope="r")
        node = make_node(connection, settings, inline={"pay": pay, "plain": plain})
        working = asyncio.create_task(node.run())
        while not connection.run("r").finished:
            await asyncio.sleep(0.01)
        node.stop()
        await working

    asyncio.run(work())
    assert effects == ["r/pay"]
    assert connection.task("r", "pay").state == "succeeded"
    assert connection.context("r") == {"receipt": 17}
    assert "give once() an async function" in str(connection.task("r", "plain").reason)
    assert connection.verify("r").ok
    connection.close()
