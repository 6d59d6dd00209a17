"""A Python task that waits for a runner has not started."""

from pathlib import Path

from weft.client.local import StoreConnection
from weft.operations.access import StoreAccess
from weft.store.sqlite.driver import SqliteStore

from .conftest import Weft

FUNCTIONS = """
import time

def long():
    time.sleep(1.5)

def short():
    time.sleep(0.8)
"""
DEFINITION = """
name: queue
tasks:
  long: {python: "functions:long"}
  short: {python: "functions:short", timeout: 5s}
"""


def test_an_attempt_that_waits_for_a_runner_has_not_started(weft: Weft, tmp_path: Path) -> None:
    """Its start was told when it was handed to the executor: with a timeout the store took it away as overdue."""
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "queue.yaml").write_text(DEFINITION)
    assert weft("run", "queue.yaml", "--python-runners", "1").code == 0
    connection = StoreConnection(StoreAccess(SqliteStore(tmp_path / ".weft" / "weft.db")))
    try:
        first, second = sorted(
            (connection.task("last", name) for name in ("long", "short")), key=lambda t: t.finished_at or 0
        )
        assert first.finished_at is not None
        for started in connection.events("last", kinds=["started"], task=second.name):
            assert started.data["started_at"] >= first.finished_at - 400, "it was behind the other until then"
    finally:
        connection.close()
