"""A store that is a file, or on PostgreSQL, becomes the beginning of a log, and a log becomes such a store again."""

import json
import signal

import psycopg

from tests import forked
from tests.postgres_server import new_database
from tests.replicated.conftest import Nodes

TASKS = "tasks:\n  one: echo one\n  wait: {needs: [one], wait: {signal: go}}\n  two: {needs: [wait], run: echo two}\n"


def test_a_store_moves_into_a_log_and_back_with_unfinished_runs(nodes: Nodes) -> None:
    home = nodes.home("n0")
    (home / "w.yaml").write_text(TASKS)
    env = {key: value for key, value in nodes.env("n0").items() if key != "WEFT_STORE"}

    def plain(*words: str) -> str:
        done = forked.run([*words], home, env, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    plain("submit", "w.yaml")
    done = forked.run(["store", "copy", "--to", nodes.url("n0")], home, env, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert b"moved" in done.stdout
    nodes.start("n0")  # what was copied is here
    nodes.start("n1")  # and this one fetches it
    run = nodes.call("n1", "ls")["runs"][0]["id"]
    nodes.call("n1", "signal", run, "go")
    assert nodes.until_ended("n0", run) == "succeeded"
    assert nodes.call("n0", "verify", "--replicas")["equal"] is True
    assert nodes.call("n1", "verify", run)["ok"] is True
    target = home / "back.db"
    said = nodes.call("n0", "store", "copy", "--from", nodes.url("n0"), "--to", str(target), fails=True)
    assert "at work" in said
    for name in ("n0", "n1"):
        nodes.kill(name, signal.SIGTERM)
    nodes.call("n0", "store", "copy", "--from", nodes.url("n0"), "--to", str(target))
    assert "two" in plain("logs", run, "two", "--store", str(target))
    assert '"ok": true' in plain("verify", run, "--json", "--store", str(target))
    assert "was moved to" in nodes.call("n1", "worker", fails=True)


def counts(url: str) -> dict[str, int]:
    """Rows of each table that people read."""
    with psycopg.connect(url) as connection:
        tables = ("runs", "tasks", "events", "attempts", "workflows", "output_chunks", "output_ends")
        found = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in tables}
        return {table: row[0] for table, row in found.items() if row is not None}


def test_a_store_moves_from_postgresql_into_a_log_and_back_killed_on_the_way(nodes: Nodes) -> None:
    home = nodes.home("n0")
    (home / "w.yaml").write_text(TASKS)
    first, second = new_database(), new_database()

    def weft(*words: str, code: int = 0, store: str = first, **more: str) -> str:
        done = forked.run([*words], home, nodes.env("n0", **{"WEFT_STORE": store, **more}), timeout=90)
        assert done.returncode == code, (words, done.stdout.decode(), done.stderr.decode())
        return done.stdout.decode() + done.stderr.decode()

    def copy(*words: str, code: int = 0, **more: str) -> str:
        return weft("store", "copy", *words, code=code, **more)

    nodes.start("n0", WEFT_STORE=first)
    run = json.loads(weft("submit", "w.yaml", "--json"))["run"]
    nodes.until(lambda: '"waiting"' in weft("show", run, "--json"))
    assert "nodes are at work" in copy("--to", nodes.url("n0"), code=2)
    nodes.kill("n0", signal.SIGTERM)
    copy("--to", nodes.url("n0"), code=-signal.SIGKILL, WEFT_CRASH_AT="copy.filled")
    assert "is being moved to" in weft("submit", "w.yaml", code=2)
    copy("--to", nodes.url("n0"), "--undo")
    other = json.loads(weft("submit", "w.yaml", "--json"))["run"]
    copy("--to", nodes.url("n0"), code=-signal.SIGKILL, WEFT_CRASH_AT="copy.committed")
    had = counts(first)
    done = json.loads(copy("--to", nodes.url("n0"), "--json"))
    assert done["rows"] == {}, "it was there already"
    for words in (["submit", "w.yaml"], ["worker"]):
        assert "was moved to etcd" in weft(*words, code=2)
    assert "waiting" in weft("show", run), "what is left can be looked at"

    nodes.start("n0")
    nodes.start("n1")
    assert {found["id"] for found in nodes.call("n1", "ls")["runs"]} == {run, other}
    assert nodes.call("n1", "verify", run)["ok"] is True
    assert nodes.call("n1", "verify", "--replicas")["equal"] is True
    assert "one" in weft("logs", run, "one", store=nodes.url("n0"))
    nodes.call("n1", "signal", run, "go")
    assert nodes.until_ended("n0", run) == "succeeded"
    third = nodes.submit("n1", TASKS)
    assert nodes.call("n1", "show", third, "--consistent")["run"]["no"] > 2, "numbers go on"
    for name in ("n0", "n1"):
        nodes.kill(name, signal.SIGTERM)

    there = ("--from", nodes.url("n0"), "--to", second)
    for point in ("move.marked", "copy.filled"):  # broken off, undone, and in use again
        copy(*there, code=-signal.SIGKILL, WEFT_CRASH_AT=point)
        assert "is in use again" in copy(*there, "--undo")
    nodes.start("n1")
    nodes.kill("n1", signal.SIGTERM)
    for point in ("move.marked", "move.kept", "copy.filled", "copy.committed"):
        copy(*there, code=-signal.SIGKILL, WEFT_CRASH_AT=point)
    assert "was moved to postgresql" in nodes.call("n1", "worker", fails=True)
    assert "moved" in copy(*there)
    assert "cannot be undone" in copy(*there, "--undo", code=2)
    found = counts(second)
    assert found["runs"] == 3
    assert all(found[table] >= count for table, count in had.items()), (had, found)
    assert "two" in weft("logs", run, "two", store=second)
    assert json.loads(weft("verify", run, "--json", store=second))["ok"] is True
    weft("signal", other, "go", store=second)
    nodes.start("n0", WEFT_STORE=second)
    nodes.until(lambda: '"succeeded"' in weft("show", other, "--json", store=second))
