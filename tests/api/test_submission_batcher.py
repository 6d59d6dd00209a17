"""Submissions that come at once share transactions, and none of them another's mistakes."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import CHAIN, Running
from weft.api.app_state import SMALL
from weft.api.submission_batcher import SubmissionBatcher
from weft.authoring.load import load_value
from weft.client.local import StoreConnection
from weft.core.commands import Refused, Reply, Submit
from weft.operations.access import StoreAccess
from weft.operations.ids import id_from
from weft.operations.submission import submission
from weft.store.protocol import CommandUsed
from weft.store.sqlite.driver import SqliteStore


class Counted(StoreConnection):
    """Holds the first transaction until the others have come."""

    def __init__(self, path: Path) -> None:
        super().__init__(StoreAccess(SqliteStore(path)))
        self.sizes: list[int] = []
        self.go = threading.Event()

    def submit_each(self, commands: Sequence[Submit], ids: Sequence[str] | None = None) -> list[Reply | Refused]:
        self.sizes.append(len(commands))
        return super().submit_each(commands, ids)

    def submit(self, command: Submit, workflow: Any = None) -> Reply:
        self.sizes.append(1)
        assert self.go.wait(30)
        return super().submit(command, workflow)


def command(number: int, **more: Any) -> Submit:
    return submission(load_value(CHAIN), "{}", source="/", run_id=id_from(str(number)), **more)


def test_those_that_wait_go_together(tmp_path: Path) -> None:
    connection = Counted(tmp_path / "weft.db")
    connection.submit_each([command(100)], ["used-before"])
    connection.sizes.clear()

    def mistaken() -> Submit:
        raise ValueError("no such workflow")

    made: list[tuple[Callable[[], Submit], str | None]] = [(partial(command, n), None) for n in range(6)]
    made.append((partial(command, 6, key="k"), None))
    other = submission(load_value({**CHAIN, "name": "other"}), "{}", source="/", key="k")
    made += [(lambda: other, None), (partial(command, 8), "used-before"), (mistaken, None)]

    async def submit() -> list[Any]:
        gathering = SubmissionBatcher(connection)
        first = gathering.submit(*made[0])
        rest = [gathering.submit(*one) for one in made[1:]]
        connection.go.set()
        shown = await asyncio.gather(first, *rest, return_exceptions=True)
        gathering.close()
        return [type(one) if isinstance(one, BaseException) else one[1].run_id for one in shown]

    shown = asyncio.run(submit())
    assert connection.sizes == [1, 8, *[1] * 8]  # somebody's id was used before: then each alone
    assert shown[:6] == [id_from(str(n)) for n in range(6)]
    assert shown[6] == id_from("6")
    assert shown[7:] == [Refused, CommandUsed, ValueError]
    assert len(connection.runs(limit=100)) == 8
    connection.close()


def test_who_has_gone_holds_up_nobody(tmp_path: Path) -> None:
    connection = Counted(tmp_path / "weft.db")

    async def submit() -> str | None:
        gathering = SubmissionBatcher(connection)
        gone = gathering.submit(partial(command, 0))
        stays = gathering.submit(partial(command, 1))
        gone.cancel()
        connection.go.set()
        found = (await stays)[1].run_id
        gathering.close()
        return found

    assert asyncio.run(submit()) == id_from("1")
    assert len(connection.runs(limit=100)) == 2, "it was under way"
    connection.close()


def test_a_large_one_over_http(quiet: Running) -> None:
    """It is made elsewhere, so that it holds up no other."""
    large = {**CHAIN, "tasks": {**CHAIN["tasks"], "c": {"run": "echo " + "x" * 2 * SMALL}}}
    answer = quiet.client().post("/v1/runs", {"definition": large, "key": "large"})
    assert answer.status == 201
    assert quiet.client().post("/v1/runs", {"definition": large, "key": "large"}).json["run"] == answer.json["run"]
    wrong = {**large, "tasks": {**large["tasks"], "d": {"needs": ["nobody"], "run": "true"}}}
    refused = quiet.client().post("/v1/runs", {"definition": wrong})
    assert refused.status == 422
    assert "nobody" in refused.json["errors"][0]["message"]


@pytest.mark.parametrize("clients", [16])
def test_many_at_once_over_http(quiet: Running, clients: int) -> None:
    found: list[str] = []

    def submit() -> None:
        client = quiet.client()
        for _ in range(10):
            found.append(client.post("/v1/runs", {"definition": CHAIN}).json["run"])

    threads = [threading.Thread(target=submit) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == clients * 10
    assert {run.id for run in quiet.connection.runs(limit=1000)} == set(found)
