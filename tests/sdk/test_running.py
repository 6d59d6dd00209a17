"""Flows run inside an application: the result or the failure, the store, the worker, and interruptions."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from tests.cli.conftest import environment, wait_for
from tests.sdk import pipelines as p
from weft.core.commands import Refused
from weft.core.definition.inputs import InputError

TOO_LONG_S = 60


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("WEFT_"):
            monkeypatch.delenv(name)

    def too_long(*_: object) -> None:
        pytest.fail(f"the run did not end within {TOO_LONG_S} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(TOO_LONG_S)
    yield tmp_path / ".weft" / "weft.db"
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_run_gives_back_what_the_flow_returns(store: Path) -> None:
    assert p.shells.run("you") == {"greeting": "hello you", "seen": "hello you"}
    assert p.shells.run() == {"greeting": "hello world", "seen": "hello world"}
    assert store.exists()
    with weft.open() as w:
        assert [run.state for run in w.connection.runs()] == ["succeeded", "succeeded"]
        assert w.connection.runs()[1].inputs == {"who": "you"}
        assert w.connection.verify("last").ok


def test_a_failed_run_raises_with_what_failed(store: Path) -> None:
    with pytest.raises(weft.RunFailed) as caught:
        p.failing.run()
    error = caught.value
    assert (error.state, error.name) == ("failed", "failing")
    assert [(failure.task, failure.reason) for failure in error.failures] == [("bad", "exit code 3")]
    assert f"weft resume {error.run_id}" in str(error)
    with weft.open() as w, pytest.raises(weft.RunFailed):
        w.resume(error.run_id)


def test_a_submitted_run_waits_for_somebody_to_work_on_it(store: Path) -> None:
    run_id = p.shells.submit(who="later")
    with weft.open() as w:
        assert not w.connection.run(run_id).finished
        assert w.finish(run_id) == {"greeting": "hello later", "seen": "hello later"}
        assert w.finish(run_id) == w.output(run_id) == {"greeting": "hello later", "seen": "hello later"}


def test_a_worker_in_the_application_takes_what_is_submitted(store: Path) -> None:
    with weft.open(worker=True, slots=4) as w:
        ids = [w.submit(p.shells, who=str(number)) for number in range(5)]
        assert w.run(p.shells, who="here")["greeting"] == "hello here"
        assert [w.finish(id)["greeting"] for id in ids] == [f"hello {number}" for number in range(5)]
        assert len(w.connection.nodes()) == 1
    with weft.open() as w:
        assert w.connection.nodes() == []


def test_several_threads_run_at_the_same_time(store: Path) -> None:
    results: dict[int, str] = {}
    with weft.open() as w:

        def work(number: int) -> None:
            results[number] = w.run(p.shells, who=str(number))["greeting"]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {number: f"hello {number}" for number in range(4)}


def test_a_loop_of_the_application_is_no_obstacle(store: Path) -> None:
    import asyncio

    async def main() -> list[dict[str, str]]:
        return [await asyncio.to_thread(p.shells.run, "async"), p.shells.run("sync")]

    assert [one["greeting"] for one in asyncio.run(main())] == ["hello async", "hello sync"]


def test_one_run_per_key(store: Path) -> None:
    with weft.open() as w:
        first = w.start(p.shells, {"who": "a"}, key="k")
        assert w.start(p.shells, {"who": "a"}, key="k") == first
        with pytest.raises(Refused):
            w.start(p.shells, {"who": "b"}, key="k")
        assert len(w.connection.runs()) == 1


def test_a_definition_from_a_file_runs_too(store: Path, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("output: ${{ tasks.a.output.x }}\ntasks: {a: 'echo x=$(pwd) > $WEFT_OUTPUT'}\n")
    with weft.open() as w:
        assert w.finish(w.start(tmp_path / "w.yaml")) == str(tmp_path)


def test_wrong_arguments_store_nothing(store: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'whom'"):
        p.shells.run(whom="x")  # type: ignore[call-arg]
    with pytest.raises(InputError, match="the input 'who' takes text, found the number 3"):
        p.shells.run(3)  # type: ignore[arg-type]
    with weft.open() as w:
        assert w.connection.runs() == []


def test_what_no_node_could_run_is_refused(store: Path) -> None:
    with pytest.raises(Refused, match="no live node can run true: this node: it lacks the label gpu"):
        p.labelled.run()
    with weft.open(labels={"gpu": ""}) as w:
        w.run(p.labelled)


def test_the_store_is_the_one_that_the_command_line_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft import config
    from weft.client.opening import store_place

    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert store_place(config.load({}, below), below) == below / ".weft" / "weft.db"
    with weft.open(tmp_path / "a" / ".weft" / "weft.db"):
        pass
    assert store_place(config.load({}, below), below) == tmp_path / "a" / ".weft" / "weft.db"
    assert store_place(config.load({"WEFT_STORE": str(tmp_path)}, below), below) == tmp_path / "weft.db"
    (below / "weft.toml").write_text('store = "mine.db"\n')
    assert store_place(config.load({}, below), below) == below / "mine.db"


def test_a_wait_is_answered_while_the_application_runs_it(store: Path, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("output: ${{ tasks.ask.output.by }}\ntasks: {ask: {wait: {signal: go}}}\n")
    with weft.open() as w:
        run_id = w.start(tmp_path / "w.yaml")
        answered: list[object] = []
        thread = threading.Thread(target=lambda: answered.append(w.finish(run_id)))
        thread.start()
        w.connection.signal(run_id, "go", {"by": "ada"})
        thread.join(20)
        assert answered == ["ada"]


INTERRUPTED = """\
import sys
from weft import flow, shell

@flow
def slow() -> None:
    shell("echo started > started; sleep 60", name="slow")

if __name__ == "__main__":
    try:
        slow.run()
    except KeyboardInterrupt as interrupt:
        print(interrupt.__notes__[0])
        sys.exit(7)
"""


def test_an_interrupted_run_is_kept(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, "slow.py"], cwd=tmp_path, env=environment(WEFT_DRAIN="0s"), stdout=subprocess.PIPE, text=True
    )
    wait_for((tmp_path / "started").exists)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 7
    assert out.startswith("the run is kept: weft resume ")
    with weft.open(tmp_path / ".weft" / "weft.db") as w:
        run = w.connection.run(out.split()[-1])
        assert not run.finished
        assert w.connection.tasks(run.id)[0][0].state == "queued"


def test_an_application_that_gives_up_leaves_nothing_running(store: Path, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("- echo $$ > pid; sleep 60\n")

    class GivenUp(Exception):
        pass

    def give_up(*_: object) -> None:
        raise GivenUp

    signal.signal(signal.SIGALRM, give_up)

    def when_it_runs() -> None:
        wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGALRM)  # to the thread that waits: a lock ends its wait for its own alone

    threading.Thread(target=when_it_runs).start()
    with pytest.raises(GivenUp), weft.open() as w:
        w.finish(w.start(tmp_path / "w.yaml"))
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()
    with weft.open() as w:
        assert not w.connection.run("last").finished
        assert w.connection.nodes() == []


def test_python_functions_run(store: Path) -> None:
    assert p.mixed.run("d", ["u"]) == {"fetched": "got u", "total": 2}
    assert p.nightly.run(day="d") == 2


def test_an_exception_is_told_with_its_traceback(store: Path) -> None:
    with pytest.raises(weft.RunFailed) as caught:
        p.exploding.run("monday")
    assert caught.value.failures[0].reason == "ValueError: no data for monday"
    assert "in explode" in str(caught.value)


def test_a_main_program_runs_its_own_functions(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        "from weft import flow, task\n\n@task\ndef double(x: int) -> int:\n    return 2 * x\n\n"
        "@flow\ndef f(xs: list[int]) -> list[int]:\n    return double.map(xs)\n\n"
        'if __name__ == "__main__":\n    print(f.run([1, 2, 3]))\n'
    )
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[2, 4, 6]\n", done.stderr


def test_a_file_without_its_guard_fails_the_task_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        "from weft import flow, task\n\n@task\ndef double(x: int) -> int:\n    return 2 * x\n\n"
        "@flow\ndef f(x: int) -> int:\n    return double(x)\n\nprint(f.run(1))\n"
    )
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert 'outside of if __name__ == "__main__"' in done.stderr
