"""Commands with --server: the same words and exit codes as on a store, and refusals where a server cannot help."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.conftest import Running, until
from tests.cli.conftest import BRANCHES, Result, Weft, wait_for
from tests.client.cut import Cut

TOKEN = "a-token-of-some-length"
LINES = "for i in 1 2 3 4 5 6; do echo line $i; until [ -e go$i ]; do sleep 0.02; done; done"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path / "there")
    yield made
    made.close()


@pytest.fixture
def url(server: Running) -> str:
    return f"http://127.0.0.1:{server.port}"


def test_run_follows_to_the_end(weft: Weft, url: str, tmp_path: Path) -> None:
    (tmp_path / "branches.yaml").write_text(BRANCHES)
    done = weft("run", "branches.yaml", "--server", url)
    assert done.code == 1
    assert "branches failed" in done.err
    assert "bad  failed" in done.err
    assert "it broke" in done.err
    assert not (tmp_path / ".weft").exists()
    shown = weft("run", "branches.yaml", "--server", url, "--json").lines
    assert shown[-1]["type"] == "summary"
    assert shown[-1]["state"] == "failed"


def test_output_of_a_chain_comes_through(weft: Weft, url: str, tmp_path: Path) -> None:
    (tmp_path / "chain.yaml").write_text("- echo one\n- echo two >&2; pwd\n")
    done = weft("run", "chain.yaml", "--server", url)
    assert (done.code, done.out) == (0, f"one\n{tmp_path}\n")
    assert "two\n" in done.err
    done = weft("run", "--server", url, "--", "sh", "-c", "echo alone; exit 3")
    assert (done.code, done.out) == (3, "alone\n")


def timeless(result: Result) -> Result:
    return result._replace(out=re.sub(r"[0-9.]+ m?s ago|\bnow\b", "just now", result.out))


def test_both_print_the_same(weft: Weft, look: Weft, server: Running, url: str, tmp_path: Path) -> None:
    """Every command that looks, on the store itself and through its server."""
    (tmp_path / "branches.yaml").write_text(BRANCHES)
    weft("run", "branches.yaml", "--server", url)
    store = str(server.directory / ".weft" / "weft.db")
    looks: list[list[str]] = [
        ["ls"], ["ls", "--json"], ["tasks", "--state", "dead_letter", "--json"], ["show", "last"],
        ["show", "last", "--json"], ["logs", "last", "bad"], ["logs", "last", "--json", "many"],
        ["logs", "last", "-f"], ["events", "last"], ["events", "--json"],
        ["events", "--task", "bad", "--kind", "finished"], ["why", "last"], ["why", "last", "after_bad"],
        ["verify", "last"], ["dead", "list"], ["pools"], ["show", "uuu"], ["show", "last", "zzz"], ["logs", "../x"],
        ["cancel", "last"], ["nodes", "show", "zzz"], ["advance", "last"],
    ]  # fmt: skip
    for words in looks:
        here, there = look(*words, "--store", store), look(*words, "--server", url)
        assert timeless(there) == timeless(here), words
    assert look("store", "info", "--server", url).code == 0
    assert "here" in look("nodes", "--server", url).out


def test_submit_change_and_prune(weft: Weft, server: Running, url: str, tmp_path: Path) -> None:
    (tmp_path / "parent.yaml").write_text("name: parent\ntasks:\n  call: {workflow: child.yaml}\n")
    (tmp_path / "child.yaml").write_text("name: child\ntasks:\n  ask: {wait: {signal: go}}\n")
    env = {"WEFT_SERVER": url}
    run = weft("submit", "parent.yaml", "--key", "k", env=env).out.strip()
    assert weft("submit", "parent.yaml", "--key", "k", "--json", env=env).json["existing"]
    wait_for(lambda: server.connection.waiting_below(run, 1))
    (wanted,) = server.connection.waiting_below(run, 1)
    assert "sent" in weft("signal", wanted.run, "go", "--data", "[1]", env=env).out
    server.ended(run)
    again = weft("rerun", run, "--detach", env=env).out.strip()
    wait_for(lambda: server.connection.waiting_below(again, 1))
    done = weft("cancel", again, env=env)
    assert (done.code, "cancelled" in done.out) == (0, True)
    assert weft("resume", again, "--detach", env=env).out.strip() == again
    assert weft("pools", "set", "db", "3", env=env).code == 0
    assert "removed 2 runs" in weft("prune", "--older", "0s", "--state", "succeeded", env=env).out
    assert weft("drain", "here", "--deadline", "1s", "--wait", env=env).code == 0


def test_interrupted_it_stops_watching_and_the_run_goes_on(
    start: Callable[..., "subprocess.Popen[str]"], server: Running, url: str, tmp_path: Path
) -> None:
    (tmp_path / "waits.yaml").write_text("name: waits\ntasks:\n  ask: {wait: {signal: go}}\n")
    process = start("run", "waits.yaml", "--server", url)
    assert process.stderr is not None
    shown = ""
    while "weft signal" not in shown:
        shown = process.stderr.readline()
        assert shown
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "no longer watched" in err
    run = server.connection.find("last")[1]
    assert server.connection.run(run).state == "running"
    server.connection.signal(run, "go")
    assert server.ended(run)["state"] == "succeeded"


def test_what_a_server_cannot_do_is_refused(weft: Weft, url: str, tmp_path: Path) -> None:
    (tmp_path / "chain.yaml").write_text("- echo one\n")
    done = weft("serve", env={"WEFT_SERVER": url})
    assert (done.code, "weft serve works on a store" in done.err) == (2, True), done
    assert weft("serve", "--server", url).code == 2
    done = weft("worker", "--server", url)
    assert (done.code, "a worker of a server needs a token" in done.err) == (2, True), done
    done = weft("run", "chain.yaml", "--slots", "2", "--server", url)
    assert (done.code, "--slots is about a node here" in done.err) == (2, True)
    done = weft("ls", "--server", url, "--store", "x.db")
    assert (done.code, "exclude each other" in done.err) == (2, True)
    done = weft("ls", "--server", "127.0.0.1:8700")
    assert (done.code, "expected an address such as" in done.err) == (2, True)


def test_a_store_said_nearer_wins(weft: Weft, url: str, tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text(f'server = "{url}"\n')
    assert weft("ls", "--store", "nothing.db").code == 3
    assert weft("ls").code == 0


def test_nobody_there(weft: Weft) -> None:
    done = weft("ls", "--server", "http://127.0.0.1:9")
    assert (done.code, "does not answer: Connection refused" in done.err) == (4, True)


def test_a_token_is_needed_and_taken(weft: Weft, tmp_path: Path) -> None:
    from weft.api.access.auth import OneToken

    made = Running(tmp_path / "locked", node=False, gate=OneToken(TOKEN))
    try:
        url = f"http://127.0.0.1:{made.port}"
        done = weft("ls", "--server", url)
        assert (done.code, "WEFT_TOKEN" in done.err) == (2, True)
        assert weft("ls", "--server", url, env={"WEFT_TOKEN": TOKEN}).code == 0
    finally:
        made.close()


def test_the_command_line_through_breaks(
    weft: Weft, start: Callable[..., "subprocess.Popen[str]"], server: Running, tmp_path: Path
) -> None:
    """`logs -f` and `run` print every line once, also of a server that is away for a while."""
    (tmp_path / "lines.yaml").write_text(f"name: lines\ntasks:\n  a: {LINES}\n  b: {{needs: [a], run: echo more}}\n")

    cut = Cut(server.port)

    def disturb() -> None:
        run = until(lambda: [one.id for one in server.connection.runs()])[0]
        beside.append(start("logs", run, "-f", "--server", cut.url))
        for i in range(1, 7):
            size = len("line 1\n") * i
            until(lambda: server.connection.attempts(run, "a"))
            until(lambda: server.connection.read_output(run, "a", 1, "stdout").size == size)  # noqa: B023
            if i % 2:
                cut.refusing = True
            cut.cut()
            (tmp_path / f"go{i}").touch()
            time.sleep(0.3)
            cut.refusing = False

    beside: list[subprocess.Popen[str]] = []
    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    done = weft("run", "lines.yaml", "--logs", "--json", "--server", cut.url)
    disturbing.join()
    assert done.code == 0, done
    run = server.connection.runs()[0].id
    events = [line["seq"] for line in done.lines if line.get("type") == "event" or "seq" in line]
    assert events == [event.seq for event in server.connection.events(run)]
    printed = "".join(f"line {i}\n" for i in range(1, 7)) + "more\n"
    assert "".join(line.partition("│ ")[2] + "\n" for line in done.err.splitlines() if "│ " in line) == printed
    shown, _ = beside[0].communicate(timeout=60)
    logs = weft("logs", run, "-f", "--server", cut.url)
    assert logs == weft("logs", run, "-f", "--store", str(server.directory / ".weft" / "weft.db"))
    assert shown == logs.out
    cut.close()
