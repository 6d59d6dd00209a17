"""The canary: a whole run that prints a secret in every way it can, and then no trace of it anywhere."""

import base64
import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests import forked
from tests.cli.conftest import Weft, environment, wait_for

CANARY = "c4nary:bird/of +paradise\"in a 'mine'\\"
NUMBER = "8675309112358"

DEFINITION = """\
name: canary
on_failure: continue
output: "${{ tasks.answers.output }}"
tasks:
  prints:
    secrets: [CANARY]
    run: |
      echo "plain: $CANARY"
      echo "stderr: $CANARY" >&2
      printf %s "$CANARY" | base64
      printf 'x%s' "$CANARY" | base64
      printf 'xy%s' "$CANARY" | base64
      python3 -c 'import os, json, urllib.parse as u; c = os.environ["CANARY"];
      print(u.quote(c, safe=""), u.quote(c), u.quote_plus(c), json.dumps(c), repr(c))'
      env
      set -x
      : "$CANARY"
  answers:
    secrets: [CANARY, NUMBER]
    run: |
      python3 - <<'END'
      import json, os
      c = os.environ["CANARY"]
      value = {c: [c, {"n": int(os.environ["NUMBER"])}], "nested": json.dumps({"c": c})}
      json.dump(value, open(os.environ["WEFT_OUTPUT"], "w"))
      json.dump({"seen": c, c: 1}, open(os.environ["WEFT_CONTEXT"], "w"))
      END
  fails: {secrets: [CANARY], argv: [sh, -c, 'echo "$CANARY" >&2; exit 3'], retry: {max: 1, backoff: 1ms}}
  large:
    secrets: [CANARY]
    run: |
      yes "$CANARY" | head -c 9000000 > text
      python3 -c 'import json; print(json.dumps(open("text").read()))' > "$WEFT_OUTPUT"
      rm text
  raises: {secrets: [CANARY], python: "birds:raises"}
  returns: {secrets: [CANARY], python: "birds:returns"}
  waits: {secrets: [CANARY], python: "birds:waits"}
  others: env
  later: {needs: [answers], run: "echo later ${{ tasks.answers.output.nested }}"}
"""

FUNCTIONS = """\
import os, weft

def raises():
    token = os.environ["CANARY"]
    raise PermissionError(f"denied: {token}")

def returns():
    weft.context_update(bird=os.environ["CANARY"])
    print(os.environ["CANARY"])
    return {"bird": os.environ["CANARY"]}

async def waits():
    print(weft.variables()["CANARY"])
    return os.environ["CANARY"].encode().hex()
"""


def traces(text: bytes) -> list[bytes]:
    """Whatever of the secrets is to be seen, in the forms that the masker promises to know."""
    found = []
    for secret in (CANARY.encode(), NUMBER.encode()):
        # The letters of base64 that no neighbour has a part in, cut to what must be in any such text.
        middle = [base64.b64encode(bytes(n) + secret)[4 : (n + len(secret)) * 8 // 6 - 1] for n in range(3)]
        found += [secret, quote(secret, safe="").encode(), *middle]
    return [form for form in found if form in text]


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    (tmp_path / "canary.yaml").write_text(DEFINITION)
    (tmp_path / "birds.py").write_text(FUNCTIONS)
    return tmp_path


def test_no_trace_of_a_secret_anywhere(weft: Weft, birds: Path) -> None:
    assert traces(base64.b64encode(b"?" + CANARY.encode()))  # the test can see
    env = {"CANARY": CANARY, "NUMBER": NUMBER}

    def look(*words: str) -> str:
        """With its errors: the traceback of a task is among them."""
        done = forked.run(words, birds, environment(**env))
        return (done.stdout + done.stderr).decode()

    texts = [look("run", "canary.yaml", "--logs")]
    for words in (
        ("show", "last"), ("show", "last", "--json"), ("events", "last"), ("events", "last", "--json"),
        ("logs", "last"), ("logs", "last", "--json"), ("tasks", "last", "--json"), ("verify", "last"),
        ("why", "last"),
        *(("show", "last", task, "--json") for task in ("prints", "answers", "fails", "large", "returns", "raises")),
    ):  # fmt: skip
        texts.append(look(*words))
        assert texts[-1], words
    for text in texts:
        assert not traces(text.encode()), text
    files = [path for path in (birds / ".weft").rglob("*") if path.is_file()]
    assert len(files) > 8, files
    for path in files:
        assert not traces(path.read_bytes()), path
    everything = weft("show", "last", "--json").out + weft("show", "last", "returns", "--json").out
    assert everything.count("***") > 3
    assert weft("logs", "last", "prints").out.count("***") >= 10
    assert weft("show", "last", "raises", "--json").json["attempts"][0]["error"] == "PermissionError: denied: ***"
    assert "CANARY" not in weft("logs", "last", "others").out, "whoever does not list it has no such variable"
    assert weft("logs", "last", "later").out == 'later {"c": "***"}\n'
    states = {task["name"]: task["state"] for task in weft("tasks", "last", "--json").json["tasks"]}
    assert states["large"] == states["returns"] == states["waits"] == "succeeded", states


def test_files_win_over_variables_and_can_change(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "TOKEN").write_text("from the file\n")
    (tmp_path / "vault" / "UNLISTED").write_text("x")
    (tmp_path / "weft.toml").write_text('secrets_dir = "vault"\n')
    (tmp_path / "w.yaml").write_text(
        "tasks:\n"
        '  a: {secrets: [TOKEN, OTHER], run: \'test "$TOKEN $OTHER" = "from the file from outside"\'}\n'
        "  b: 'test -z \"${TOKEN-}${OTHER-}${UNLISTED-}\"'\n"
    )
    env = {"TOKEN": "from outside", "OTHER": "from outside", "UNLISTED": "from outside"}
    result = weft("run", "w.yaml", env=env)
    assert result.code == 0, result


def test_a_missing_secret_fails_at_once_and_says_where_it_was_looked_for(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("tasks:\n  a: {secrets: TOKEN, run: 'true', retry: 5}\n")
    result = weft("run", "w.yaml")
    assert result.code == 1
    assert "the secret TOKEN is missing: looked in the node's environment (secrets_dir is not set)" in result.err
    assert weft("show", "last", "a", "--json").json["task"]["attempt"] == 1
    vault = tmp_path / "vault"
    vault.mkdir()
    result = weft("run", "w.yaml", env={"WEFT_SECRETS_DIR": str(vault)})
    assert f"in {vault} (there is no file TOKEN in it)" in result.err
    (vault / "TOKEN").write_text("\n")
    result = weft("run", "w.yaml", env={"WEFT_SECRETS_DIR": str(vault)})
    assert f"the secret TOKEN is empty ({vault}/TOKEN)" in result.err


def test_a_short_secret_is_given_with_a_warning(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("tasks:\n  a: {secrets: PIN, run: 'echo ${#PIN}'}\n")
    result = weft("run", "w.yaml", env={"PIN": "123"})
    assert result.code == 0
    assert "too short to be masked" in result.err


def test_its_processes_do_not_have_it_on_their_command_lines(birds: Path, weft: Weft) -> None:
    (birds / "w.yaml").write_text(
        'tasks:\n  a: {secrets: CANARY, run: \'tr "\\\\0" " " < /proc/$$/cmdline > seen\'}\n'
    )
    assert weft("run", "w.yaml", env={"CANARY": CANARY}).code == 0
    assert CANARY not in (birds / "seen").read_text()
    assert subprocess.run(["test", "-s", birds / "seen"], check=False).returncode == 0


def test_a_killed_node_leaves_no_trace_in_the_store(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    """While it was killed, a task was printing the secret and had it in its answers."""
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "CANARY").write_text(CANARY)
    (tmp_path / "weft.toml").write_text('secrets_dir = "vault"\n')
    (tmp_path / "w.yaml").write_text(
        "tasks:\n  a:\n    secrets: CANARY\n    run: |\n"
        '      echo "$CANARY" > "$WEFT_OUTPUT"; echo "$CANARY" > "$WEFT_CONTEXT"\n'
        '      while :; do echo "$CANARY"; echo now > here; done\n'
    )
    process = start("run", "w.yaml")
    output = tmp_path / ".weft" / "output"
    wait_for(lambda: (tmp_path / "here").exists() and any(path.stat().st_size for path in output.rglob("*.out")))
    process.kill()
    process.wait()
    wait_for(lambda: not _runs_below(tmp_path))
    files = [path for path in (tmp_path / ".weft").rglob("*") if path.is_file()]
    assert any(b"***\n" in path.read_bytes() for path in files)
    for path in files:
        assert not traces(path.read_bytes()), path


def _runs_below(directory: Path) -> bool:
    """Does anything run in this directory?"""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid() and (entry / "cwd").readlink() == directory:
                return True
    return False
