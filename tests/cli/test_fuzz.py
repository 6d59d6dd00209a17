"""No input makes the command line fall over: every command with every option, with values of all kinds.

The lists of arguments are made from the table of commands, so that a new command or option is tried by itself. Each
call is one seed, and plays the same way every time; WEFT_HUNT=1 tries more, and others.
"""

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.api.conftest import Running
from tests.cli.conftest import environment
from tests.cli.fuzzing import Draw, Place, make_place
from tests.postgres_server import emptied
from weft.cli.command_table import BY_NAME, COMMANDS

HUNT = int(os.environ.get("WEFT_HUNT") or 0)  # 10 looks ten times as long as 1
CALLS = 4 * (1 + 10 * HUNT)  # of each command
SAMPLE = 25 * (1 + 10 * HUNT)  # where a call costs more
EXIT_CODES = {0, 1, 2, 3, 4, 130}
PATIENCE_S = 1.0  # then ^C, as often as it takes
ENDS_S = 60.0
NAMES = [command.name for command in COMMANDS if command.name != "demo"]  # which takes 20 s, and no arguments
BUGS = (b"Traceback", b"internal error", b"the server failed", b"Exception ignored", b"never awaited", b"Fatal")


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return make_place(tmp_path_factory.mktemp("fuzz"), environment())


def seed_of(name: str, number: int) -> str:
    return f"{name} {number}" + (f" {time.time_ns()}" if HUNT else "")


def play(seed: str, name: str, place: Place, directory: Path, **more: str) -> None:
    """One call, and what must hold of its end."""
    draw = Draw(seed, BY_NAME[name], place.runs)
    env = environment(**{**more, **draw.env, "HOME": str(directory)})  # `mcp install` writes files there
    done = forked.run(draw.words, directory, env, draw.input, ENDS_S, PATIENCE_S)
    story = f"seed {seed!r}: weft {draw.words}\n{draw.env}\n{_story(done)}"
    assert done.returncode in EXIT_CODES, story
    assert not any(text in done.stdout + done.stderr for text in BUGS), story
    if done.returncode not in (0, 130):
        assert done.stderr.strip() or "--json" in draw.words, story
    if "--json" in draw.words and "--" not in draw.words:
        assert done.returncode == 130 or name == "mcp" or _is_json(done.stdout), story


def _story(done: "subprocess.CompletedProcess[bytes]") -> str:
    err = done.stderr[-4000:].decode(errors="replace")
    return f"exit code {done.returncode}\nstdout: {done.stdout[-2000:]!r}\nstderr: {err}"


def _is_json(out: bytes) -> bool:
    """One value, or one to a line."""
    try:
        for text in [out] if out[:2] == b"{\n" else out.splitlines():
            json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_any_arguments_of(name: str, place: Place, tmp_path: Path) -> None:
    for number in range(CALLS):
        play(seed_of(name, number), name, place, place.copy(tmp_path / str(number)))


def test_any_arguments_on_postgresql(tmp_path: Path) -> None:
    url = emptied()
    place = make_place(tmp_path, environment(WEFT_STORE=url))
    for number in range(SAMPLE):
        seed = seed_of("postgresql", number)
        play(seed, random.Random(seed).choice(NAMES), place, tmp_path, WEFT_STORE=url)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path / "there")
    yield made
    made.close()


def test_any_arguments_through_a_server(server: Running, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    url = f"http://127.0.0.1:{server.port}"
    place = make_place(here, environment(WEFT_STORE=str(server.directory / ".weft" / "weft.db")))
    assert forked.run(["ls"], here, environment(WEFT_SERVER=url)).returncode == 0
    names = [name for name in NAMES if BY_NAME[name].store and BY_NAME[name].remote]
    for number in range(SAMPLE):
        seed = seed_of("server", number)
        play(seed, random.Random(seed).choice(names), place, here, WEFT_SERVER=url)
