"""examples/plugin, installed as its README says, in real workers that are killed, cancelled and timed out."""

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.cluster.conftest import Cluster
from weft.core.placement.eligibility import NOT_CHECKED

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
SLOW = "tasks: {hello: {type: greeting, spec: {to: you, times: 1000, pause_s: 0.1}%s}}"
LETTER = """\
tasks: {order: {type: mailbox, spec: {text: coffee}, retry: {on_lost: %s}}}
output: ${{ tasks.order.output }}
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built and installed offline, into a directory of its own."""
    directory = tmp_path_factory.mktemp("example")
    source = shutil.copytree(EXAMPLE, directory / "source", ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    words = ["install", *options, "--target", str(directory / "site"), str(source)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    return directory / "site"


@pytest.fixture
def mailbox(tmp_path: Path) -> Path:
    path = tmp_path / "mailbox"
    path.mkdir()
    return path


class Plugged(Cluster):
    """Workers with the plugin."""

    def __init__(self, directory: Path, site: Path, mailbox: Path) -> None:
        self._more = {"PYTHONPATH": str(site), "MAILBOX": str(mailbox)}
        super().__init__("sqlite", directory)

    def _env(self, more: dict[str, str]) -> dict[str, str]:
        return {**super()._env({}), **self._more, **more}


@pytest.fixture
def cluster(tmp_path: Path, site: Path, mailbox: Path) -> Iterator[Plugged]:
    made = Plugged(tmp_path, site, mailbox)
    yield made
    made.close()


def weft(cluster: Cluster, *words: str, plugged: bool = True) -> "subprocess.CompletedProcess[bytes]":
    env = cluster._env({}) if plugged else Cluster._env(cluster, {})
    store = () if words[0] == "validate" else ("--store", cluster.store)
    return forked.run([*words, *store], cluster.directory, env, timeout=60)


def printed(cluster: Cluster, run_id: str) -> str:
    return weft(cluster, "logs", run_id).stdout.decode()


def last_error(cluster: Cluster, run_id: str, task: str) -> str:
    return str(cluster.connection.attempts(run_id, task)[-1].error)


def the_letter(cluster: Cluster, mailbox: Path, place: str) -> str:
    found: str = cluster.until(lambda: next(iter(sorted(p.name for p in (mailbox / place).glob("*"))), None))
    return found


# -- one machine -------------------------------------------------------------------------------------------


def test_the_example_runs_as_its_readme_says(cluster: Plugged) -> None:
    done = weft(cluster, "run", str(EXAMPLE / "greeting.yaml"), "--input", "name=Ada", "--json")
    assert done.returncode == 0, done.stderr
    run_id = json.loads(done.stdout.splitlines()[0])["run"]
    assert printed(cluster, run_id).count("Hello, Ada!") == 2
    assert "greeted 2 times" in printed(cluster, run_id)


def test_without_the_plugin_a_run_here_is_refused_at_once(cluster: Plugged) -> None:
    done = weft(cluster, "run", str(EXAMPLE / "greeting.yaml"), plugged=False)
    assert done.returncode == 2
    text = done.stderr.decode()
    assert "no live node has an executor for tasks of type greeting, so none can run hello" in text
    assert "fix: install the plugin that adds greeting, or start a worker that has it" in text


def test_a_run_without_plugins_imports_nothing_of_them(cluster: Plugged) -> None:
    code = "import sys; from weft.cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    (cluster.directory / "plain.yaml").write_text("tasks: {a: 'true'}")
    words = [sys.executable, "-c", code, "run", "plain.yaml", "--store", cluster.store]
    done = subprocess.run(words, cwd=cluster.directory, env=cluster._env({}), capture_output=True, text=True)
    loaded = done.stderr.split("\n")[-2].split(" ")
    assert "weft.node.node" in loaded
    assert [name for name in loaded if name.startswith(("weft.plugins", "importlib.metadata", "weft_greeting"))] == []


def test_a_wrong_spec_is_found_where_the_plugin_is(cluster: Plugged) -> None:
    (cluster.directory / "bad.yaml").write_text("tasks:\n  a:\n    type: greeting\n    spec: {too: you}\n")
    done = weft(cluster, "validate", "bad.yaml")
    assert b"bad.yaml:4:12: unknown key 'too'" in done.stderr + done.stdout
    assert b"did you mean 'to'?" in done.stderr + done.stdout
    assert weft(cluster, "validate", "bad.yaml", plugged=False).returncode == 0


def test_executors_are_listed_with_versions_and_reasons(cluster: Plugged) -> None:
    cluster.worker("one")
    cluster.until(lambda: cluster.connection.node("one").executors["greeting"].usable)
    found = json.loads(weft(cluster, "executors", "--json").stdout)
    here = {row["type"]: row for row in found["here"]}
    assert here["greeting"]["plugin"] == "weft-greeting"
    assert here["greeting"]["version"] == "0.1.0"
    assert here["mailbox"]["usable"]
    assert here["mailbox"]["engine"].startswith("mailbox ")
    ((node),) = found["nodes"]
    assert node["executors"]["greeting"]["version"] == "0.1.0"
    text = weft(cluster, "executors").stdout.decode()
    assert any(line.split()[:5] == ["greeting", "weft-greeting", "0.1.0", "yes", "one"] for line in text.splitlines())
    shown = weft(cluster, "nodes", "show", "one").stdout.decode()
    assert "greeting (weft-greeting 0.1.0), http, kubernetes, mailbox (weft-greeting 0.1.0)" in shown
    del cluster._more["MAILBOX"]
    found = json.loads(weft(cluster, "executors", "--json").stdout)
    (box,) = [row for row in found["here"] if row["type"] == "mailbox"]
    assert (box["usable"], box["error"]) == (False, "LookupError: $MAILBOX is not set")


# -- workers -----------------------------------------------------------------------------------------------


def test_a_task_waits_for_a_node_with_its_plugin(cluster: Plugged) -> None:
    (cluster.directory / "w.yaml").write_text("tasks: {hello: {type: greeting, spec: {to: you}}}")
    plain = Cluster._env(cluster, {})
    cluster.worker("plain", PYTHONPATH="")
    done = forked.run(["submit", "w.yaml", "--store", cluster.store, "--json"], cluster.directory, plain)
    reply = json.loads(done.stdout)
    assert reply["warnings"] == [
        "no live node has an executor for tasks of type greeting, so none can run hello. It waits for a node that can"
    ]
    why = weft(cluster, "why", reply["run"], "hello").stdout.decode()
    assert "no live node has an executor for tasks of type greeting" in why
    assert "install the plugin that adds it where a node runs" in why
    assert "plain: it has no executor for tasks of type greeting, which a plugin adds" in why
    cluster.worker("two")
    cluster.ended(reply["run"])
    cluster.sound(reply["run"], 1)


def test_cancel_and_timeout(cluster: Plugged) -> None:
    cluster.worker("one")
    run_id = cluster.submit(SLOW % "")
    cluster.until(lambda: "Hello" in printed(cluster, run_id))
    weft(cluster, "cancel", run_id)
    cluster.ended(run_id)
    assert last_error(cluster, run_id, "hello") == "cancelled while it ran"
    run_id = cluster.submit(SLOW % ", timeout: 1s")
    cluster.ended(run_id)
    assert last_error(cluster, run_id, "hello") == "timed out after 1 s"


def test_a_killed_node_takes_its_calls_along(cluster: Plugged) -> None:
    first = cluster.worker("one")
    run_id = cluster.submit("tasks: {hello: {type: greeting, spec: {to: you, times: 40, pause_s: 0.1}}}")
    cluster.until(lambda: "Hello" in printed(cluster, run_id))
    first.kill()
    first.wait()
    cluster.worker("two")
    cluster.ended(run_id)
    assert cluster.outcomes() == {"lost": 1, "succeeded": 1}
    assert cluster.connection.run(run_id).state == "succeeded"


def test_a_server_takes_what_it_does_not_know_with_a_warning(cluster: Plugged, tmp_path: Path) -> None:
    from tests.api.conftest import Running

    server = Running(tmp_path / "served", node=True)
    try:
        answer = server.post(
            "/v1/runs", {"definition": {"tasks": {"hello": {"type": "greeting", "spec": {"to": 1}}}}}
        )
        assert answer.status == 201, answer.json
        assert "no live node has an executor for tasks of type greeting" in answer.json["warnings"][0]
        (why,) = server.get(f"/v1/runs/{answer.json['run']}/why").json["explanations"]
        assert "no live node has an executor for tasks of type greeting" in str(why)
        node = server.get("/v1/nodes").json["nodes"][0]
        assert node["executors"]["shell"] == {
            "usable": True, "error": None, "engine": None, "plugin": None, "version": None,
        }  # fmt: skip
    finally:
        server.close()


# -- what outlives its node --------------------------------------------------------------------------------


def test_a_letter_is_answered(cluster: Plugged, mailbox: Path) -> None:
    cluster.worker("one")
    run_id = cluster.submit(LETTER % "true")
    name = the_letter(cluster, mailbox, "inbox")
    assert (mailbox / "inbox" / name).read_text() == "coffee"
    (mailbox / "inbox" / name).write_text("served")
    (mailbox / "inbox" / name).rename(mailbox / "done" / name)
    cluster.ended(run_id)
    assert cluster.connection.output(run_id) == "served"
    assert not list((mailbox / "done").iterdir())


def test_a_cancel_is_over_when_the_service_has_let_go(cluster: Plugged, mailbox: Path) -> None:
    cluster.worker("one")
    run_id = cluster.submit(LETTER % "true")
    name = the_letter(cluster, mailbox, "inbox")
    (mailbox / "inbox" / name).rename(mailbox / "taken" / name)
    cluster.connection.cancel(run_id)
    assert the_letter(cluster, mailbox, "cancel") == name
    time.sleep(0.5)
    assert not cluster.connection.run(run_id).finished, "the service has not let go of it"
    (mailbox / "taken" / name).unlink()
    cluster.ended(run_id)
    assert "its engine says that it is gone" in last_error(cluster, run_id, "order")


@pytest.mark.parametrize("on_lost", ["true", "adopt"])
def test_what_a_killed_node_left_is_removed_or_adopted(cluster: Plugged, mailbox: Path, on_lost: str) -> None:
    first = cluster.worker("one")
    run_id = cluster.submit(LETTER % on_lost)
    name = the_letter(cluster, mailbox, "inbox")
    first.kill()
    first.wait()
    cluster.worker("two")
    if on_lost == "adopt":
        cluster.until(lambda: cluster.connection.task(run_id, "order").attempt == 2)
        assert the_letter(cluster, mailbox, "inbox") == name
    else:
        cluster.until(lambda: not (mailbox / "inbox" / name).exists())
        assert the_letter(cluster, mailbox, "inbox") != name
        name = the_letter(cluster, mailbox, "inbox")
    (mailbox / "inbox" / name).rename(mailbox / "done" / name)
    cluster.ended(run_id)
    cluster.sound(run_id, 1)


def test_a_broken_plugin_does_not_keep_a_node_from_working(cluster: Plugged, tmp_path: Path) -> None:
    from tests.plugins.distributions import write_distribution

    broken = tmp_path / "broken"
    source = "from weft.plugins import AsyncExecutor\nimport time\nclass E(AsyncExecutor):\n"
    source += "    async def check(self):\n        time.sleep(3600)\n"
    write_distribution(broken, "weft-hangs", {"hangs": "weft_hangs:E"}, source)
    write_distribution(broken, "weft-raises", {"raises": "weft_raises:E"}, "raise ImportError('no libfoo')")
    write_distribution(broken, "weft-takes", {"python": "weft_takes:E"}, source)
    process = cluster.worker("one", PYTHONPATH=str(broken))
    run_id = cluster.submit("tasks: {a: echo fine, b: {type: raises}}")
    cluster.until(lambda: "fine" in printed(cluster, run_id))
    cluster.until(lambda: cluster.connection.node("one").executors["raises"].error != NOT_CHECKED)
    why = weft(cluster, "why", run_id, "b").stdout.decode()
    assert "one: its executor for raises tasks cannot be used: weft_raises:E cannot be imported: ImportError" in why
    node = cluster.connection.node("one").executors
    assert node["hangs"].error == "its check has not answered yet"
    assert node["python"].plugin is None
    process.terminate()
    assert process.wait(60) == 0


def test_threads_of_this_process_are_not_left_behind() -> None:
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("plugin ")]
