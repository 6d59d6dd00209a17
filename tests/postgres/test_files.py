"""Files of tasks between nodes that share nothing but the database: two workers in directories of their own."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.cli.conftest import WEFT, Result, environment, wait_for
from tests.postgres.test_commands import ready
from tests.postgres_server import emptied
from weft.store.postgres.driver import PostgresStore

LARGE = 1_500_000
FLOW = f"""
name: between
workspace: run
tasks:
  make:
    requires: {{node: one}}
    run: mkdir -p out && head -c {LARGE} /dev/urandom > out/large && sha256sum out/large | cut -c -64 > out/sum
    artifacts: out
  check:
    requires: {{node: two}}
    files: make
    run: test ! -e out && cd "$WEFT_FILES/make/out" && test "$(sha256sum large | cut -c -64)" = "$(cat sum)"
"""


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Two workers: in each its own directory, as on another machine."""
    store = emptied()
    workers = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        workers.append(
            subprocess.Popen(
                [*WEFT, "worker", "--json", "--name", name], cwd=tmp_path / name, env=environment(WEFT_STORE=store),
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
    try:
        for worker in workers:
            ready(worker)
        yield store, tmp_path
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


def test_a_task_on_another_node_gets_them(machines: tuple[str, Path]) -> None:
    store, directory = machines

    def weft(*words: str, code: int = 0) -> Result:
        done = forked.run(words, directory, environment(WEFT_STORE=store), timeout=120)
        assert done.returncode == code, (words, done)
        return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode())

    (directory / "flow.yaml").write_text(FLOW)
    weft("submit", "flow.yaml")
    wait_for(lambda: weft("ls", "--json").json["runs"][0]["state"] not in ("pending", "running"))
    assert weft("ls", "--json").json["runs"][0]["state"] == "succeeded", weft("show", "last").out
    listed = weft("artifacts", "last", "--json").json["artifacts"]
    assert [(one["path"], one["bytes"]) for one in listed] == [("out/large", LARGE), ("out/sum", 65)]
    weft("artifacts", "get", "last", "make", "out/large", "-o", "copy")
    assert (directory / "copy").stat().st_size == LARGE
    assert not list(directory.glob("*/.weft/artifacts/*"))
    weft("prune", "--older", "0s")
    assert chunks(store) == 0


def chunks(store: str) -> int:
    opened = PostgresStore(store)
    try:
        return int(opened.reader().query("SELECT count(*) FROM output_chunks")[0][0])
    finally:
        opened.close()
