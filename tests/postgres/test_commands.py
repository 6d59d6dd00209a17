"""The command line on PostgreSQL: every way to run, look and change; several workers; a server that goes away."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.cli.conftest import WEFT, Result, environment, wait_for
from tests.cli.screens import Screen
from tests.postgres_server import Server, emptied

Call = Callable[..., Result]
Start = Callable[..., "subprocess.Popen[str]"]

FLOW = """\
name: flow
on_failure: continue
tasks:
  first: echo one
  gate: {needs: [first], run: "test -e open"}
  after: {needs: [gate], run: 'echo "${{ tasks.first.result.stdout }}"'}
  many: {needs: [first], replicas: 3, run: echo element $WEFT_INDEX}
"""


@pytest.fixture
def store() -> str:
    return emptied()


@pytest.fixture
def weft(tmp_path: Path, store: str) -> Call:
    def call(*words: str, code: int | None = 0, url: str | None = None, **env: str) -> Result:
        done = forked.run(words, tmp_path, environment(WEFT_STORE=url or store, **env), timeout=120)
        result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in result.err, result.err
        assert code is None or result.code == code, (words, result)
        return result

    return call


@pytest.fixture
def start(tmp_path: Path, store: str) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str, url: str | None = None, **env: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*WEFT, *words], cwd=tmp_path, env=environment(WEFT_STORE=url or store, **env), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ready(worker: "subprocess.Popen[str]") -> None:
    assert worker.stderr is not None
    while json.loads(worker.stderr.readline())["message"] != "ready":
        pass


def test_run_look_and_resume(tmp_path: Path, weft: Call) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW)
    weft("run", "flow.yaml", code=1)
    assert weft("ls", "--json").json["runs"][0]["state"] == "failed"
    states = {task["name"]: task["state"] for task in weft("tasks", "last", "--json").json["tasks"]}
    assert (states["first"], states["gate"], states["after"]) == ("succeeded", "failed", "skipped")
    assert "gate" in weft("show", "last").out
    assert "gate failed" in weft("why", "last", "after").out
    assert weft("logs", "last", "many.1").out == "element 1\n"
    kinds = [event["kind"] for event in weft("events", "last", "--json").lines]
    assert (kinds[0], kinds[-1]) == ("submitted", "run_finished")
    (tmp_path / "open").touch()
    weft("resume", "last")
    assert "one" in weft("logs", "last", "after").out
    weft("verify", "last")
    facts = weft("store", "info", "--json").json
    assert (facts["kind"], facts["runs"]) == ("postgresql", {"succeeded": 1})
    assert weft("nodes", "--ended", "--json").json["nodes"]
    assert weft("rerun", "last").code == 0
    weft("prune", "--older", "0s")
    assert weft("ls", "--json").json["runs"] == []


def test_submit_to_a_worker_and_follow(tmp_path: Path, weft: Call, start: Start) -> None:
    (tmp_path / "w.yaml").write_text(
        "tasks:\n  slow: 'while ! test -e open; do sleep 0.02; done'\n"
        "  approve: {needs: [slow], wait: {signal: ok}}\n"
        "  last: {needs: [approve], run: 'sleep 60'}\n"
    )
    worker = start("worker", "--json", "--slots", "2")
    ready(worker)
    run_id = weft("submit", "w.yaml").out.strip()
    following = start("events", run_id, "--follow", "--json")
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["kind"] == "submitted"
    (tmp_path / "open").touch()
    while json.loads(following.stdout.readline())["kind"] != "waiting":
        pass
    weft("signal", run_id, "ok", "--data", '{"by": "me"}')
    while (event := json.loads(following.stdout.readline()))["task"] != "last" or event["kind"] != "started":
        pass
    weft("cancel", run_id, code=None)
    kinds = [json.loads(line)["kind"] for line in following.stdout]
    assert kinds[-1] == "run_finished"
    assert weft("ls", "--json").json["runs"][0]["state"] == "cancelled"
    weft("verify", run_id)
    worker.terminate()
    assert worker.wait(30) == 0


def test_a_map_over_more_than_one_mebibyte_works_whoever_opens_it(tmp_path: Path, weft: Call, start: Start) -> None:
    """The map is opened by the command that sends the signal; its elements run on a node that did not write the
    artifact. Both read it in the shared directory."""
    (tmp_path / "big.py").write_text("def rows():\n    return [{'n': n, 'text': 'x' * 40_000} for n in range(40)]\n")
    (tmp_path / "w.yaml").write_text(
        "tasks:\n"
        '  make: {python: "big:rows", requires: {labels: [place=one]}}\n'
        "  ask: {needs: [make], wait: {signal: go}}\n"
        '  each: {needs: [ask], map: "${{ tasks.make.output }}", requires: {labels: [place=two]},'
        ' argv: [echo, "${{ item.n }}", "${{ item.text.length }}"]}\n'
    )
    shared = {"WEFT_ARTIFACTS": str(tmp_path / "shared")}
    for name in ("one", "two"):
        ready(start("worker", "--json", "--label", f"place={name}", "--name", name, **shared))
    run_id = weft("submit", "w.yaml", **shared).out.strip()
    wait_for(lambda: '"waiting"' in weft("tasks", run_id, "--json").out)
    weft("signal", run_id, "go", **shared)
    wait_for_end(weft, run_id)
    assert weft("ls", "--json").json["runs"][0]["state"] == "succeeded"
    assert weft("logs", run_id, "each.39").out == "39 40000\n"
    weft("verify", run_id)


def test_the_stores_password_is_not_passed_on_and_not_for_the_command_line(
    tmp_path: Path, weft: Call, store: str
) -> None:
    (tmp_path / "w.yaml").write_text(
        "tasks:\n"
        "  other: {run: 'echo ${PGPASSWORD-none} ${PGOPTIONS-none}'}\n"
        "  lists_it: {run: 'echo ${#PGPASSWORD}', secrets: [PGPASSWORD]}\n"
    )
    scheme, _, rest = store.partition("://")
    user, at, place = rest.partition("@")
    url = f"{scheme}://{user}:hunter22{at}{place}"
    result = weft("run", "w.yaml", "--store", url, PGPASSWORD="hunter22", PGOPTIONS="-c search_path=public")
    assert "every user of this machine can read the password in --store while this runs" in result.err
    assert "hunter22" not in result.err
    assert weft("logs", "last", "other").out == "none -c search_path=public\n"
    assert weft("logs", "last", "lists_it").out == "8\n"


def test_two_workers_share_a_graph_and_nothing_runs_twice(tmp_path: Path, weft: Call, start: Start) -> None:
    layers = {f"t{i}": {"argv": ["sh", "-c", "echo $WEFT_TASK $WEFT_ATTEMPT >> journal"]} for i in range(500)}
    for i in range(100, 500):
        layers[f"t{i}"]["needs"] = [f"t{i - 100}"]
    (tmp_path / "w.json").write_text(json.dumps({"name": "shared", "tasks": layers}))
    workers = [start("worker", "--json", "--slots", "8", "--name", name) for name in ("one", "two")]
    for worker in workers:
        ready(worker)
    run_id = weft("submit", "w.json").out.strip()
    wait_for_end(weft, run_id)
    assert weft("ls", "--json").json["runs"][0]["succeeded"] == 500
    ran = Counter((tmp_path / "journal").read_text().splitlines())
    assert len(ran) == 500
    assert set(ran.values()) == {1}
    by_node = Counter(task["node"] for task in weft("tasks", run_id, "--limit", "1000", "--json").json["tasks"])
    assert set(by_node) == {"one", "two"}
    weft("verify", run_id)


def test_two_workers_share_what_tasks_start(tmp_path: Path, weft: Call, start: Start) -> None:
    """Its children begin, end and are told of by whoever comes first; each task runs once."""
    (tmp_path / "child.yaml").write_text(
        "inputs: {n: integer}\noutput: ${{ inputs.n }}\ntasks:\n"
        "  a: echo a ${{ inputs.n }} >> journal\n"
        "  b: {needs: [a], run: 'echo b ${{ inputs.n }} >> journal; test -e open || test ${{ inputs.n }} != 7'}\n"
    )
    (tmp_path / "w.yaml").write_text(
        "output: ${{ tasks.each.output }}\ntasks:\n"
        "  each: {replicas: 40, workflow: ./child.yaml, with: {n: '${{ index }}'}}\n"
    )
    workers = [start("worker", "--json", "--slots", "4", "--name", name) for name in ("one", "two")]
    for worker in workers:
        ready(worker)
    run_id = weft("submit", "w.yaml").out.strip()
    wait_for_end(weft, run_id)
    weft("verify", run_id)
    assert weft("ls", "--json").json["runs"][0]["state"] == "failed"
    assert "failed" in weft("why", run_id, "each.7").out
    (tmp_path / "open").touch()
    weft("resume", run_id, "--detach")
    wait_for_end(weft, run_id)
    weft("verify", run_id)
    assert weft("show", run_id, "--json").json["output"] == list(range(40))
    ran = Counter((tmp_path / "journal").read_text().splitlines())
    assert len(ran) == 80
    assert [line for line, times in ran.items() if times > 1] == ["b 7"]
    assert len(weft("ls", "--all", "--limit", "100", "--json").json["runs"]) == 41


def wait_for_end(weft: Call, run_id: str, url: str | None = None) -> None:
    deadline = time.monotonic() + 120
    while weft("ls", "--json", url=url).json["runs"][0]["state"] in ("pending", "running"):
        assert time.monotonic() < deadline, weft("show", run_id, url=url).out


def test_a_killed_worker_loses_nothing(tmp_path: Path, weft: Call, start: Start) -> None:
    """There is no proof of death between machines but the lease."""
    (tmp_path / "w.yaml").write_text(
        "tasks:\n  t: 'echo $WEFT_ATTEMPT >> journal; test $WEFT_ATTEMPT = 2 || sleep 60'\n"
    )
    short = {"WEFT_LEASE_TTL": "3s", "WEFT_RENEW_EVERY": "500ms"}
    first = start("worker", "--json", **short)
    ready(first)
    run_id = weft("submit", "w.yaml").out.strip()
    wait_for(lambda: (tmp_path / "journal").exists())
    second = start("worker", "--json", **short)
    ready(second)
    first.send_signal(signal.SIGKILL)
    began = time.monotonic()
    wait_for_end(weft, run_id)
    assert time.monotonic() - began < 30
    assert (tmp_path / "journal").read_text() == "1\n2\n"
    weft("verify", run_id)


@pytest.fixture
def own_server() -> Iterator[Any]:
    server = Server(durable=True)  # else what was acknowledged could be lost with it
    yield server
    server.close()


def test_a_server_that_is_stopped_and_started_again(
    tmp_path: Path, own_server: Server, weft: Call, start: Start
) -> None:
    """`immediate`: it writes nothing any more, and recovers. What was acknowledged is there, and all finishes."""
    import psycopg

    with psycopg.connect(own_server.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE weft")
    url = own_server.url("weft")
    tasks: dict[str, Any] = {f"t{i}": {"run": "echo $WEFT_TASK >> journal; sleep 0.02"} for i in range(300)}
    for i in range(10, 300):
        tasks[f"t{i}"]["needs"] = [f"t{i - 10}"]
    (tmp_path / "w.json").write_text(json.dumps({"name": "stopped", "tasks": tasks}))
    worker = start("worker", "--json", "--slots", "4", url=url)
    ready(worker)
    run_id = weft("submit", "w.json", url=url).out.strip()
    for count in (30, 120, 210):
        wait_for(lambda count=count: lines(tmp_path / "journal") >= count)  # type: ignore[misc]
        own_server.stop()
        own_server.start()
    wait_for_end(weft, run_id, url)
    run = weft("ls", "--json", url=url).json["runs"][0]
    assert (run["state"], run["succeeded"]) == ("succeeded", 300)
    weft("verify", run_id, url=url)
    assert worker.poll() is None, "the worker went through it"


def test_a_run_here_goes_through_a_restart_too(tmp_path: Path, own_server: Server, weft: Call, start: Start) -> None:
    url = own_server.url("postgres")
    (tmp_path / "w.yaml").write_text("- touch begun\n- 'while ! test -e open; do sleep 0.02; done'\n- echo end\n")
    run = start("run", "w.yaml", url=url)
    wait_for(lambda: (tmp_path / "begun").exists())
    own_server.stop()
    (tmp_path / "open").touch()  # its end has to be reported to a server that is not there
    own_server.start()
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert "end" in out
    weft("verify", "last", url=url)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_command_waits_for_a_server_that_restarts(tmp_path: Path, own_server: Server, start: Start) -> None:
    """It says in one line what it waits for, and goes on when the server is back."""
    url = own_server.url("postgres")
    (tmp_path / "wait.py").write_text(
        "import sys\n"
        "from weft.client.opening import open_store\n"
        "from weft.client.local import StoreConnection\n"
        "from weft.core.commands import Prune\n"
        "from weft.operations.access import StoreAccess\n"
        "from weft.store.postgres.url import PostgresUrl\n"
        "control = StoreConnection(StoreAccess(open_store(PostgresUrl(sys.argv[1]))))\n"
        "control.store.log = lambda text: print(text, flush=True)\n"
        "print('open', flush=True)\n"
        "sys.stdin.readline()\n"
        "print(control.access.commit(Prune(1)).changed, flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "wait.py"), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    own_server.stop()
    process.stdin.write("go\n")
    process.stdin.flush()
    assert process.stdout.readline().startswith("waiting for the store: postgresql://weft@127.0.0.1")
    own_server.start()
    assert process.stdout.read() == "0\n"
    assert process.wait(30) == 0
    process.stdin.close()
    process.stdout.close()


def test_a_server_that_is_not_there(weft: Call) -> None:
    done = weft("ls", code=4, url="postgresql://weft:s3cret@127.0.0.1:9/weft", WEFT_STORE_WAIT="500ms")
    waiting, given_up = done.err.splitlines()
    assert waiting.startswith("waiting up to 0.5 s for the store: postgresql://weft@127.0.0.1:9/weft does not answer")
    assert "refused" in waiting
    assert given_up.startswith("weft: postgresql://weft@127.0.0.1:9/weft does not answer")
    assert "s3cret" not in done.err + done.out


def test_starting_waits_for_the_database(tmp_path: Path, own_server: Server, start: Start) -> None:
    """A worker, a server and a submission that come before the database go on when it is there, each with one line
    about what it waits for."""
    url = own_server.url("postgres")
    own_server.stop()
    (tmp_path / "w.yaml").write_text("- echo hello\n")
    worker = start("worker", "--json", url=url)
    serve = start("serve", "--port", "0", "--json", url=url)
    submit = start("submit", "w.yaml", url=url)
    for process in (worker, serve, submit):
        assert process.stderr is not None
        line = process.stderr.readline()
        said = line if process is submit else json.loads(line)["message"]
        assert said.startswith("waiting up to 30 s for the store: postgresql://weft@127.0.0.1"), line
    own_server.start()
    ready(worker)
    ready(serve)
    out, err = submit.communicate(timeout=60)
    assert (submit.returncode, "waiting" in err) == (0, False), err
    assert out.strip()


def test_what_waiting_does_not_help_is_said_at_once(weft: Call, store: str) -> None:
    began = time.monotonic()
    done = weft("worker", code=2, url=store.rpartition("/")[0] + "/nothing")
    assert "there is no such database" in done.err
    done = weft("ls", code=2, url=store.replace("weft@", "nobody@"))
    assert "there is no such role" in done.err
    assert time.monotonic() - began < 20, "well below the 30 s that a silent server is waited for"
    assert "waiting" not in done.err


def test_the_password_is_not_logged(weft: Call, store: str) -> None:
    done = weft("run", "-v", "--", "true", url=store.replace("weft@", "weft:s3cret@"))
    assert "settings" in done.err
    assert "s3cret" not in done.err + done.out


def test_top_shows_a_run_and_its_output(weft: Call, store: str, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW)
    weft("run", "flow.yaml", code=1)
    screen = Screen(["top", "last"], tmp_path, 100, WEFT_STORE=store)
    screen.until(lambda screen: all(word in screen.text for word in ("✓ 3/3", "✗ failed", "○ skipped", "q quit")))
    screen.process.send("\r")
    screen.until(lambda screen: "stdout 4 B" in screen.text and "succeeded on" in screen.text)
    assert "one" in screen.lines
    screen.process.send("q")
    assert screen.to_the_end() == 0
