"""/readyz says 503 while writes cannot be done; and what a node leaves behind when its session is over."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw

from tests.api.conftest import CHAIN, Running, until
from weft.core.commands import Expire
from weft.store.sqlite.driver import SqliteStore


def test_readyz_is_503_while_writes_fail_and_200_once_they_work(quiet: Running) -> None:
    """After a write that failed it tries one by itself: nobody sends requests to a server that is not ready."""
    assert isinstance(quiet.connection.store, SqliteStore)
    writer = quiet.connection.store._writer
    assert quiet.get("/readyz").status == 200
    writer.execute("PRAGMA query_only = ON")
    assert quiet.post("/v1/runs", {"definition": CHAIN}).status == 503
    assert quiet.get("/readyz").status == 503
    assert quiet.get("/v1/runs").status == 200
    writer.execute("PRAGMA query_only = OFF")
    assert quiet.get("/readyz").status == 200


def test_readyz_is_503_while_another_program_holds_the_write_lock(quiet: Running, tmp_path: Path) -> None:
    assert isinstance(quiet.connection.store, SqliteStore)
    quiet.connection.store._writer.set_busy_timeout(1)
    other = apsw.Connection(str(tmp_path / ".weft" / "weft.db"))
    other.execute("BEGIN IMMEDIATE")
    assert quiet.get("/readyz").status == 503
    other.execute("ROLLBACK")
    assert quiet.get("/readyz").status == 200
    other.close()


def test_a_command_id_with_another_body_does_not_stop_the_server_from_writing(
    serving: Callable[..., Running], tmp_path: Path
) -> None:
    server = serving()
    for _ in range(3):
        body = {"runs": [{"definition": CHAIN}, {"definition": CHAIN}]}
        server.post("/v1/runs:batch", body, Weft_Command="the-command")
        refused = server.post("/v1/runs:batch", {"runs": [{"definition": ["true"]}]}, Weft_Command="the-command")
        assert refused.code == "command_used"
        other = apsw.Connection(str(tmp_path / "server0" / ".weft" / "weft.db"))
        other.set_busy_timeout(5000)
        other.execute("UPDATE meta SET value = value WHERE key = 'clock_boot'")
        other.close()
        assert server.post("/v1/runs", {"definition": CHAIN}).status == 201
        assert server.get("/readyz").status == 200


def test_sessions_that_are_over_leave_no_lock_files_and_no_descriptors(server: Running, tmp_path: Path) -> None:

    def followed(session: str) -> bool:
        nodes = server.connection.nodes()
        return bool(nodes) and nodes[0].session != session

    for _ in range(3):
        (node,) = until(server.connection.nodes)
        server.connection.link.committer.commit(Expire(node.session, "process"))
        server.submit({"name": "wake", "tasks": {"a": {"run": "true"}}})  # so that the node hears of it
        until(partial(followed, node.session))
    files = server.connection.link._files
    assert files is not None
    (node,) = server.connection.nodes()
    until(lambda: list(files._mine) == [node.session])
    assert [file.stem for file in (tmp_path / ".weft" / "sessions").iterdir()] == [node.session]
