"""What people expect of a command line: the command's own exit code, `-` for standard input, options in any place."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Weft
from weft.cli.command_table import BY_NAME, DESTRUCTIVE


@pytest.mark.parametrize(
    ("command", "code"),
    [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["no-such-program"], 127), (["true"], 0)],
)
def test_a_single_command_gives_its_own_exit_code(weft: Weft, command: list[str], code: int) -> None:
    assert weft("run", "--", *command).code == code


def test_a_command_with_a_key_gives_its_exit_code_each_time(weft: Weft) -> None:
    words = ("run", "--key", "k", "--", "sh", "-c", "echo once >> ran; exit 9")
    assert [weft(*words).code, weft(*words).code] == [9, 9]


def test_a_workflow_of_one_task_still_exits_with_1(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("tasks: {a: exit 7}")
    assert weft("run", "one.yaml").code == 1


def test_validate_and_graph_read_standard_input(weft: Weft) -> None:
    good = weft("validate", "-", input=b"tasks: {a: make}")
    assert (good.code, good.out) == (0, "-: ok, 1 task in 1 level\n")
    bad = weft("validate", "-", input=b'{"tasks": {"a": {"cmd": "make"}}}')
    assert bad.code == 2
    assert bad.err.startswith("stdin:1:18: unknown key 'cmd' in a task")
    assert "a" in weft("graph", "-", input=b"tasks: {a: make}").out
    assert weft("validate", "-", input=b"\xff").code == 2
    flowing = b"{name: one, tasks: {a: {type: frob, spec: {x: 1}}}}"
    assert weft("validate", "-", input=flowing).out == "-: ok, 1 task in 1 level; no plugin here has the type frob\n"


def test_apply_and_resume_read_standard_input(weft: Weft) -> None:
    assert weft("apply", "-", input=b"{name: one, tasks: {a: exit 1}}").code == 0
    assert weft("run", "one").code == 1
    assert weft("resume", "last", "--file", "-", input=b"{name: one, tasks: {a: 'true'}}").code == 0


def test_a_command_without_its_input_is_noted(weft: Weft) -> None:
    assert "CMD gets no standard input" in weft("run", "--", "cat", input=b"lost").err
    assert "standard input" not in weft("run", "--", "cat", input=b"").err


def test_two_ats_are_one(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text('inputs: {who: string}\ntasks: {a: "echo ${{ inputs.who }}"}\n')
    assert weft("run", "x.yaml", "-i", "who=@@x", "--logs").out == "@x\n"
    (tmp_path / "x").write_text("from a file")
    assert weft("run", "x.yaml", "-i", "who=@x", "--logs").out == "from a file\n"


def test_json_and_version_stand_before_the_command(weft: Weft) -> None:
    assert weft("run", "--", "true").code == 0
    assert weft("--json", "ls").json["runs"][0]["name"] == "true"
    assert "nodes" in weft("--json", "nodes", "--ended").json
    assert weft("-V").out == weft("--version").out == weft("version").out
    assert set(weft("--json", "-V").json) == {"version"}
    assert weft("--json", "show", "zzzz").json["error"]["code"] == 3


def test_no_word_is_taken_for_a_destructive_command(weft: Weft) -> None:
    assert set(DESTRUCTIVE) <= set(BY_NAME)
    for word in ("pause", "prue", "prunee", "cancle", "cancell", "releas", "drian"):
        refused = weft(word)
        assert refused.code == 2
        assert not any(name in refused.err.replace(word, "") for name in DESTRUCTIVE), refused.err


def test_the_words_after_two_hyphens_are_the_commands(weft: Weft) -> None:
    done = weft("run", "--json", "--", "echo", "--json", "-V")
    assert json.loads(done.out.splitlines()[-1])["state"] == "succeeded"


def test_bulk_changes_what_it_lists(weft: Weft) -> None:
    assert weft("run", "--", "false").code == 1
    assert weft("run", "--", "true").code == 0
    plan = weft("bulk", "resume", "--state", "failed", "--preview")
    assert plan.code == 0
    assert plan.err == "resume: 1 run would be changed, 0 left as they are\n"
    done = weft("bulk", "retry-dead", "last")
    assert (done.code, "no: it has no dead letters" in done.out) == (1, True)
    assert "name runs, or give at least one filter" in weft("bulk", "cancel").err
    assert weft("bulk", "burn", "last").code == 2
    assert weft("bulk", "remove", "--state", "failed").err == "remove: 1 run changed, 0 left as they are\n"
    assert "failed" not in weft("ls").out
