"""on_failure and task_timeout as settings: for definitions that state neither, and part of the run from then on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft as sdk
from tests.api.conftest import Running
from tests.cli.conftest import Weft
from weft.authoring.load import load_file, load_text, with_defaults
from weft.core.definition.site_defaults import SiteDefaults

SET = SiteDefaults("continue", 60_000)
PLAIN = "name: plain\ntasks: {a: exit 1, b: {run: echo b, timeout: 5s}, c: {run: echo c, timeout: null}}\n"
STATED = 'name: stated\non_failure: halt_now\ndefaults: {timeout: 1h, grace: 2s}\ntasks: {a: "true"}\n'


def meaning(loaded: Any) -> tuple[str, list[int | None]]:
    return loaded.workflow.on_failure, [task.timeout_ms for task in loaded.workflow.tasks]


def test_they_are_for_what_a_definition_does_not_state() -> None:
    plain, stated = load_text(PLAIN), load_text(STATED)
    assert meaning(plain) == ("halt", [None, 5000, None])
    assert meaning(with_defaults(plain, SET)) == ("continue", [60_000, 5000, None])
    assert with_defaults(stated, SET) == stated
    assert meaning(with_defaults(load_text('defaults: {timeout: null}\ntasks: {a: "true"}\n'), SET))[1] == [None]
    assert with_defaults(plain, SiteDefaults()) is plain


def test_the_hash_is_that_of_what_is_stored() -> None:
    plain = load_text(PLAIN)
    completed = with_defaults(plain, SET)
    assert completed.workflow.hash != plain.workflow.hash
    written = PLAIN + "on_failure: continue\ndefaults: {timeout: 60000ms}\n"
    assert completed.workflow.hash == load_text(written).workflow.hash


def test_levels_cannot_continue_and_waits_do_not_time_out() -> None:
    loaded = with_defaults(load_text('mode: levels\ntasks: {a: "true", w: {wait: {signal: go}}}\n'), SET)
    assert meaning(loaded) == ("halt", [60_000, None])


def test_workflows_that_a_task_runs_by_file_get_them_too(tmp_path: Path) -> None:
    (tmp_path / "child.yaml").write_text(PLAIN)
    (tmp_path / "parent.yaml").write_text("tasks: {x: {workflow: child.yaml}, y: {workflow: child.yaml}}\n")
    loaded = with_defaults(load_file(tmp_path / "parent.yaml"), SET)
    assert {meaning(child)[0] for child in loaded.children.values()} == {"continue"}


def test_a_run_keeps_them(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text(PLAIN)
    (tmp_path / "weft.toml").write_text('task_timeout = "50ms"\n')
    (tmp_path / "slow.yaml").write_text("tasks: {a: sleep 60}\n")
    assert weft("run", "plain.yaml", env={"WEFT_ON_FAILURE": "continue"}).code == 1
    ended = {task["name"]: task["state"] for task in weft("show", "last", "--json").json["tasks"]}
    assert (ended["b"], ended["c"]) == ("succeeded", "succeeded")
    done = weft("run", "slow.yaml")
    assert (done.code, "after 0.05 s" in done.err) == (1, True), done.err
    (tmp_path / "weft.toml").unlink()
    assert "after 0.05 s" in weft("rerun", "last").err, "the setting is gone, what was stored is not"
    for name, value in (("WEFT_ON_FAILURE", "stop"), ("WEFT_TASK_TIMEOUT", "0s")):
        assert weft("run", "plain.yaml", env={name: value}).code == 2


def test_a_server_and_python_use_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Running]
) -> None:
    server = make(defaults=SET)
    run = server.submit({"name": "plain", "tasks": {"a": "true"}})
    assert meaning_of(server, run) == ("continue", [60_000])
    task = server.post("/v1/tasks", {"run": "true"}).json["run"]
    assert meaning_of(server, task) == ("continue", [60_000])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEFT_ON_FAILURE", "halt_now")
    (tmp_path / "plain.yaml").write_text('tasks: {a: "true"}\n')
    with sdk.Client(f"http://127.0.0.1:{server.port}", token="any") as client:
        assert meaning_of(server, client.start("plain.yaml")) == ("halt_now", [60_000])
    with sdk.open(tmp_path / "own.db") as own:
        assert own.connection.workflow(own.start("plain.yaml")).on_failure == "halt_now"


def meaning_of(server: Running, run: str) -> tuple[str, list[int | None]]:
    workflow = server.connection.workflow(run)
    return workflow.on_failure, [task.timeout_ms for task in workflow.tasks]


@pytest.fixture
def make(tmp_path: Path) -> Any:
    made: list[Running] = []

    def begin(**more: Any) -> Running:
        made.append(Running(tmp_path / "server", node=False, **more))
        return made[-1]

    yield begin
    for one in made:
        one.close()
