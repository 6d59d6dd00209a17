"""Submissions that come at once share transactions, and none of them another's mistakes."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import CHAIN, Running, until
from weft.api.gathering import Gathering
from weft.authoring.load import load_value
from weft.control.local import LocalControl
from weft.control.submission import id_from, submission
from weft.core.commands import Refused, Reply, Submit
from weft.store.protocol import CommandUsed
from weft.store.sqlite.driver import SqliteStore


class Counted(LocalControl):
    """Holds the first transaction until the others have come."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteStore(path))
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
    control = Counted(tmp_path / "weft.db")
    gathering = Gathering(control)
    told: dict[int, Any] = {}

    def submit(number: int, given: Submit, command_id: str | None) -> None:
        try:
            told[number] = gathering.submit(given, command_id).run_id
        except Exception as error:
            told[number] = type(error)

    control.submit_each([command(100)], ["used-before"])
    control.sizes.clear()
    made = [(0, command(0), None)]
    made += [(n, command(n), None) for n in range(1, 6)]
    made.append((6, command(6, key="k"), None))
    made.append((7, submission(load_value({**CHAIN, "name": "other"}), "{}", source="/", key="k"), None))
    made.append((8, command(8), "used-before"))  # type: ignore[arg-type]
    threads = [threading.Thread(target=submit, args=one) for one in made]
    threads[0].start()
    until(lambda: control.sizes)
    for thread in threads[1:]:
        thread.start()
    until(lambda: len(gathering._waiting) == 8)
    control.go.set()
    for thread in threads:
        thread.join()
    assert control.sizes == [1, 8, *[1] * 8]  # somebody's id was used before: then each alone
    assert {told[n] for n in range(6)} == {id_from(str(n)) for n in range(6)}
    refused = [n for n in (6, 7) if told[n] is Refused]
    assert len(refused) == 1
    assert told[8] is CommandUsed
    assert len(control.runs(limit=100)) == 8
    control.close()


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
    assert {run.id for run in quiet.control.runs(limit=1000)} == set(found)
