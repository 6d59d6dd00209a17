"""The overview, the errors of the command line itself, and the documentation made from the same table."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.cli.command_table import COMMANDS, ELSEWHERE
from weft.cli.reference import cli_reference, settings_reference

from .conftest import WEFT, Weft, environment

DOCS = Path(__file__).parents[2] / "docs" / "reference"


def modules_of(cwd: Path, *words: str) -> list[str]:
    """What a command has imported at its end."""
    code = "import sys; from weft.cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, cwd=cwd)
    return done.stderr.splitlines()[-1].split()


@pytest.mark.parametrize("words", [("--help",), ("run", "--help")], ids=" ".join)
def test_help_imports_nothing_heavy(tmp_path: Path, words: tuple[str, ...]) -> None:
    heavy = {"yaml", "apsw", "asyncio", "msgspec", "weft.core.decision.decide", "weft.store.sqlite.driver"}
    assert not heavy & set(modules_of(tmp_path, *words))


def test_a_run_imports_only_the_operations_that_it_uses(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("name: one\ntasks:\n  a: {run: 'true'}\n")
    parts = [
        name for name in modules_of(tmp_path, "run", "one.yaml") if name.startswith("weft.operations.resources.")
    ]
    assert {part.rpartition(".")[2] for part in parts} <= {"events", "nodes", "runs", "store", "tasks"}


def test_help_is_quick(tmp_path: Path) -> None:
    took = []
    for _ in range(5):
        child = subprocess.Popen([*WEFT, "--help"], stdout=subprocess.DEVNULL, cwd=tmp_path)
        _, child.returncode, usage = os.wait4(child.pid, 0)
        assert child.returncode == 0
        took.append(usage.ru_utime + usage.ru_stime)  # its own time: what else runs here is not its doing
    assert min(took) < 0.3


def test_the_overview_names_every_command(call: Weft) -> None:
    done = call()
    assert done.code == 0
    assert done == call("--help") == call("help")
    for command in COMMANDS:
        assert f"  {command.name} " in done.out


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_has_help(call: Weft, name: str) -> None:
    done = call(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: weft {name}")
    assert call("help", name).out == done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], "did you mean 'run'?"),
        (["nonsense"], "weft --help"),
        (["runs"], "did you mean 'ls'?"),
        (["ls", "--jsno"], "did you mean --json?"),
        (["run", "--sltos", "3", "x.yaml"], "did you mean --slots?"),
        (["run", "--bogus", "x.yaml"], "unknown option '--bogus' for weft run\n  see: weft run --help"),
        (["show"], "RUN"),
        (["ls", "--limit", "many"], "--limit"),
        (["ls", "--limit", "0"], "--limit"),
        (["ls", "--state", "suceeded"], "did you mean succeeded?"),
        (["tasks", "--state", "finished"], "known states"),
        (["events", "--kind", "submited"], "did you mean 'submitted'?"),
        (["prune"], "--older"),
        (["prune", "--older", "soon"], "--older"),
        (["dead"], "list"),
        (["dead", "retry"], "needs a run"),
        (["store", "frobnicate"], "info"),
        (["run"], "nothing to run"),
        (["run", "--"], "no command"),
        (["run", "x.yaml", "--", "true"], "both"),
        (["run", "no-such-file.yaml"], "no such file"),
        (["run", "chain.yaml", "--slots", "0"], "--slots"),
        (["run", "chain.yaml", "--max-parallel", "0"], "--max-parallel"),
        (["run", "chain.yaml", "--priority", "11"], "--priority"),
        (["run", "chain.yaml", "--input", "novalue"], "NAME=VALUE"),
        (["run", "chain.yaml", "--input", "a=1"], "no input 'a'"),
        (["submit", "chain.yaml", "--key", ""], "--key"),
        (["validate"], "FILE"),
        (["graph", "chain.yaml", "--format", "png"], "png"),
        (["--store"], "--store"),
        (["--json"], "no command"),
        (["ls", "--limit=--"], "expected a value"),
        (["ls", "-n--"], "expected a value"),
    ],
)
def test_nonsense_is_refused_with_a_hint(call: Weft, words: list[str], said: str) -> None:
    done = call(*words)
    assert done.code == 2, done
    assert said in done.err
    assert done.err.startswith("weft: ") or done.err.startswith("no-such-file.yaml")
    assert ("error" in done.json) if "--json" in words else (done.out == "")


def test_the_cli_reference_is_what_the_table_says() -> None:
    assert (DOCS / "cli.md").read_text() == cli_reference(), "python -m weft.cli.reference docs/reference writes it"


def test_the_settings_reference_is_what_the_table_says() -> None:
    assert (DOCS / "settings.md").read_text() == settings_reference()


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m weft schema | head -c 5"],
        capture_output=True, text=True, cwd=tmp_path, env=environment(), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_words_of_other_tools_lead_to_commands_that_there_are() -> None:
    names = {command.name for command in COMMANDS}
    assert set(ELSEWHERE.values()) <= names
    assert not set(ELSEWHERE) & names
