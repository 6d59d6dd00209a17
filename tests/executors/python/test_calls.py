"""Functions, what they get and what they give back."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.executors.attempts import ends

from .runners import Runners, with_runners

TASKS = """
    import os, sys
    import weft

    state = {"calls": 0}

    def echo(**values): return values
    def nothing(): pass
    def pair(a, b=2, *, c=3): return (a, b, c)
    def count():
        state["calls"] += 1
        return state["calls"], os.getpid()
    def where(): return {"cwd": os.getcwd(), "path": sys.path[0], "argv": len(sys.argv), "main": __name__}
    def variables(*names): return {n: os.environ.get(n) for n in ("WEFT_TASK", "MODE", "WEFT_OUTPUT", "LEAK", "HOME")}
    def untidy():
        os.environ["LEAK"] = "1"
        del os.environ["HOME"]
        os.chdir("/")
        sys.stdout = sys.stderr = None
    def fail(text): raise ValueError(text)
    def chained():
        try:
            {}["x"]
        except KeyError as error:
            raise RuntimeError("second") from error
    def leave(code): sys.exit(code)
    def remember():
        weft.context_update(day="monday", nested={"a": (1, 2)})
        return dict(weft.variables())
    def bad_context(): weft.context_update(when=object())
    def remember_and_fail():
        weft.context_update(day="never")
        raise ValueError("no")
    def long(size): return "x" * size
    def deep_trace(n): return deep_trace(n - 1) if n else 1 / 0
    square = lambda x: x * x
    number = 5
    class Thing:
        def __init__(self, x): self.x = x
    class Caller:
        def __call__(self, x): return x + 1
    caller = Caller()
    def only_by_place(x, /): return x
    def maker():
        async def later(): return "awaited"
        return later()
"""


def test_values_go_in_and_come_out(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        given = {"text": "é\n\0", "n": 10**30, "f": 1.5, "list": [1, None, True], "map": {"a": {"b": []}}}
        outcome = await runners.run("echo", **given)
        assert (outcome.ok, outcome.output, outcome.exit_code, outcome.error) == (True, given, 0, None)
        assert outcome.result == {"exitCode": 0, "stdout": "", "stderr": ""}
        assert outcome.started is not None
        assert outcome.started <= outcome.ended
        assert (await runners.run("nothing")).output is None
        assert (await runners.run("pair", a=1)).output == [1, 2, 3]
        assert (await runners.run("caller", x=1)).output == 2
        assert (await runners.run("maker")).output == "awaited"
        assert not os.listdir(runners.output_dir), "functions that print nothing leave no files"

    with_runners(tmp_path, TASKS, story)


def test_a_runner_is_warm_and_stands_in_the_definitions_directory(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        first, second = await runners.run("count"), await runners.run("count")
        assert (first.output[0], second.output[0]) == (1, 2)
        assert first.output[1] == second.output[1] != os.getpid()
        assert (await runners.run("where")).output == {
            "cwd": str(tmp_path), "path": str(tmp_path), "argv": 1, "main": "tasks",
        }  # fmt: skip

    with_runners(tmp_path, TASKS, story)


def test_variables_are_the_attempts_own_and_what_a_function_changed_is_undone(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        _, future = runners.start_with("tasks:variables", {}, env={"WEFT_TASK": "a", "MODE": "fast", "HOME": "/x"})
        assert (await ends(future)).output == {
            "WEFT_TASK": "a", "MODE": "fast", "WEFT_OUTPUT": None, "LEAK": None, "HOME": "/x",
        }  # fmt: skip
        assert (await runners.run("untidy")).ok
        seen = (await runners.run("variables")).output
        assert seen["WEFT_TASK"] == "t3"
        assert (seen["MODE"], seen["LEAK"], seen["HOME"]) == (None, None, os.environ.get("HOME"))
        assert (await runners.run("where")).output["cwd"] == str(tmp_path)

    with_runners(tmp_path, TASKS, story)


def test_an_exception_keeps_type_message_and_traceback(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        outcome = await runners.run("fail", text="first\nsecond")
        assert (outcome.ok, outcome.error, outcome.exit_code) == (False, "ValueError: first", 1)
        assert outcome.result is not None
        error = outcome.result["error"]
        assert (error["type"], error["message"]) == ("ValueError", "first\nsecond")
        lines = error["traceback"].splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert lines[1].startswith(f'  File "{tmp_path}/tasks.py", line'), "the runner's own frames are left out"
        assert outcome.result["stderr"] == error["traceback"]
        chained = await runners.run("chained")
        assert chained.result is not None
        text = chained.result["error"]["traceback"]
        assert "KeyError: 'x'" in text
        assert "The above exception was the direct cause" in text
        long = await runners.run("fail", text="x" * 100_000)
        assert long.error is not None
        assert len(long.error) <= 500
        assert long.result is not None
        assert len(long.result["error"]["traceback"]) <= 32 * 1024
        assert len(long.result["error"]["message"]) <= 4096

    with_runners(tmp_path, TASKS, story)


def test_exit_is_a_failure_and_the_runner_lives_on(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        pid = (await runners.run("count")).output[1]
        for code in (0, 3):
            outcome = await runners.run("leave", code=code)
            assert not outcome.ok
            assert f"called exit({code})" in str(outcome.error)
        assert (await runners.run("count")).output[1] == pid

    with_runners(tmp_path, TASKS, story)


def test_context_updates_count_on_success_only(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        outcome = await runners.run("remember")
        assert outcome.context == {"day": "monday", "nested": {"a": [1, 2]}}
        assert outcome.output == {"WEFT_TASK": "t1"}
        assert (await runners.run("remember_and_fail")).context is None
        bad = await runners.run("bad_context")
        assert "context_update() got when = an object, which JSON cannot hold" in str(bad.error)
        assert (await runners.run("nothing")).context is None

    with_runners(tmp_path, TASKS, story)


def test_outside_a_task_there_is_no_context() -> None:
    import weft

    with pytest.raises(RuntimeError, match="only in a function that Weft runs"):
        weft.context_update(a=1)
    assert weft.variables() == {}


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        ("tasks:pair", {}, "pair() needs a, which `with` does not give"),
        ("tasks:pair", {"a": 1, "d": 2}, "pair() takes no d: it takes a, b and c"),
        ("tasks:fail", {"txt": 1, "text": ""}, "fail() takes no txt: did you mean text?"),
        ("tasks:nothing", {"a": 1}, "nothing() takes no a: it takes no arguments by name"),
        ("tasks:only_by_place", {"x": 1}, "the parameter x cannot be passed by name"),
        ("tasks:cuont", {}, "has no function 'cuont'; did you mean count?"),
        ("tasks:number", {}, "tasks:number is a value of type int, not a function"),
        ("tasks:Thing", {"x": 1}, "tasks:Thing is a class, not a function"),
        ("tasks:square", {"x": 1}, "tasks:square is a lambda: write a function with `def`"),
        ("tasks:maker.<locals>.later", {}, "only functions at the top of a module"),
        ("taks:count", {}, "there is no module 'taks' (did you mean tasks?); searched "),
        ("broken:f", {}, "importing broken failed: ModuleNotFoundError: No module named 'pandaz'"),
        ("syntax:f", {}, "importing syntax failed: SyntaxError: "),
        ("raises:f", {}, "importing raises failed: RuntimeError: at import"),
        ("gone.py:f", {}, "there is no file "),
        ("sub/broken.py:f", {}, "loading sub/broken.py failed: ZeroDivisionError: division by zero"),
        ("tasks:long", {"size": 1 << 20}, "output of 1,048,578 bytes is over the limit of 1 MiB; write a file"),
    ],
)
def test_what_cannot_be_called_says_why(tmp_path: Path, function: str, arguments: dict[str, Any], said: str) -> None:
    async def story(runners: Runners) -> None:
        runners.write("broken.py", "import pandaz\n")
        runners.write("syntax.py", "def f(:\n")
        runners.write("raises.py", "raise RuntimeError('at import')\n")
        runners.write("sub/broken.py", "1 / 0\n")
        outcome = await ends(runners.start_with(function, arguments)[1])
        assert not outcome.ok
        assert said in str(outcome.error)
        assert outcome.result is not None
        if "failed" in said:
            assert "Traceback" in outcome.result["error"]["traceback"] or "SyntaxError" in said
        if "no module" in said:
            assert str(tmp_path) in str(outcome.error)
        assert (await runners.run("nothing")).ok, "the runner lives on"

    with_runners(tmp_path, TASKS, story)


def test_an_import_that_failed_is_tried_again(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        assert not (await ends(runners.start_with("late:f", {})[1])).ok
        runners.write("late.py", "def f(): return 1\n")
        assert (await ends(runners.start_with("late:f", {})[1])).output == 1

    with_runners(tmp_path, TASKS, story)


def test_files_are_loaded_once_by_path_and_not_as_main(tmp_path: Path) -> None:
    source = """
        import sys
        loads = []
        loads.append(1)
        if __name__ == "__main__":
            raise SystemExit("guarded")
        def f(): return [len(loads), __name__, sys.modules[__name__].f is f]
        def bump(): loads.append(1)
    """

    async def story(runners: Runners) -> None:
        runners.write("sub/odd-name.py", source)
        runners.write("plain.py", source)
        odd = (await ends(runners.start_with("sub/odd-name.py:f", {})[1])).output
        assert odd[0] == 1
        assert odd[2]
        assert (await ends(runners.start_with("sub/odd-name.py:bump", {})[1])).ok
        assert (await ends(runners.start_with("sub/odd-name.py:f", {})[1])).output[0] == 2
        assert (await ends(runners.start_with("plain.py:f", {})[1])).output == [1, "plain", True]
        assert (await ends(runners.start_with("plain:bump", {})[1])).ok
        assert (await ends(runners.start_with("plain.py:f", {})[1])).output[0] == 2, "the same module either way"
        path = str(tmp_path / "plain.py")
        assert (await ends(runners.start_with(f"{path}:f", {})[1])).output[0] == 2

    with_runners(tmp_path, TASKS, story)


def test_arguments_that_cannot_be_sent_harm_nobody_else(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        futures = [runners.start_with("tasks:echo", {"x": x})[1] for x in (1, object(), 2)]
        outcomes = [await ends(f) for f in futures]
        assert [o.ok for o in outcomes] == [True, False, True]
        assert "cannot be sent" in str(outcomes[1].error)

    with_runners(tmp_path, TASKS, story)


def test_a_missing_directory_fails_the_attempt(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        outcome = await ends(runners.start_with("tasks:nothing", {}, cwd=str(tmp_path / "gone"))[1])
        assert not outcome.ok
        assert "cannot enter the directory" in str(outcome.error)
        assert (await runners.run("nothing")).ok

    with_runners(tmp_path, TASKS, story)


def test_a_python_that_is_none_fails_the_attempt(tmp_path: Path) -> None:
    async def story(runners: Runners) -> None:
        outcome = await runners.run("nothing")
        assert not outcome.ok
        assert "no Python runner could be started: exit code 7: told you" in str(outcome.error)

    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho told you >&2; exit 7\n")
    python.chmod(0o755)
    with_runners(tmp_path, TASKS, story, python=str(python))


def test_a_whole_run(tmp_path: Path) -> None:
    """Through `weft run`: data between functions, context, the traceback in `weft show`, the setting."""
    (tmp_path / "etl.py").write_text(
        "import os\n"
        "def extract(day): print('extracting', day); return {'files': [day + '.a', day + '.b']}\n"
        "async def load(files): return len(files)\n"
        "def bad(): raise ValueError('so it goes')\n"
    )
    (tmp_path / "etl.yaml").write_text(
        "name: etl\n"
        "inputs: {day: {type: string, default: monday}}\n"
        "on_failure: continue\n"
        "tasks:\n"
        "  extract: {python: 'etl:extract', with: {day: '${{ inputs.day }}'}}\n"
        "  load: {python: 'etl.py:load', with: {files: '${{ tasks.extract.output.files }}'}}\n"
        "  check: {needs: [load], run: 'test ${{ tasks.load.output }} = 2'}\n"
        "  bad: {python: 'etl:bad'}\n"
    )

    def weft(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "WEFT_LOG": "info"}
        return subprocess.run(
            [sys.executable, "-m", "weft", *words], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    done = weft("run", "etl.yaml", "--python-runners", "1")
    assert done.returncode == 1
    assert "python_runners=1" in done.stderr
    shown = json.loads(weft("show", "last", "--json").stdout)
    states = {task["name"]: task["state"] for task in shown["tasks"]}
    assert states == {"extract": "succeeded", "load": "succeeded", "check": "succeeded", "bad": "failed"}
    assert weft("logs", "last", "extract").stdout == "extracting monday\n"
    text = weft("show", "last", "bad").stdout
    assert "ValueError: so it goes" in text
    assert "etl.py" in text


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_functions_may_use_multiprocessing(tmp_path: Path, how: str) -> None:
    source = """
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        def square(x): print("child"); return x * x
        def squares(how):
            with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(how)) as pool:
                return list(pool.map(square, range(3)))
    """

    async def story(runners: Runners) -> None:
        outcome = await runners.run("squares", how=how)
        assert outcome.output == [0, 1, 4]
        assert outcome.result is not None
        assert outcome.result["stdout"] == "child\n" * 3

    with_runners(tmp_path, source, story)
