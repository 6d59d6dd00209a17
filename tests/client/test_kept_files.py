"""Files that tasks keep: on a store and through a server; for other tasks, for people, and for how long."""

import hashlib
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from tests.api.conftest import until
from tests.client.conftest import Place
from weft.authoring.load import Loaded, load_text
from weft.core.artifacts import kept_files
from weft.core.rows import ORDINAL_BITS
from weft.executors.protocol import Launch
from weft.node.attempts.files import FILES_MAX, AttemptFiles, find_files
from weft.operations.errors import NotFound
from weft.store.artifact_files import ArtifactError
from weft.store.kept_files import DirectoryFiles, FileOwner, FilesError, KeptFileReader, StoreFiles, fetch
from weft.store.shipment import CHUNK_MAX, Shipment

LARGE = 700_000  # several parts
FLOW = f"""
workspace: run
tasks:
  build:
    run: |
      mkdir -p dist/deep
      head -c {LARGE} /dev/zero > dist/large
      : > dist/deep/empty
      printf '#!/bin/sh\\necho ran' > tool && chmod +x tool
    artifacts: [dist, "to*"]
  each: {{map: [a, b], run: 'echo ${{{{ item }}}} > ${{{{ item }}}}.txt', artifacts: "${{{{ item }}}}.txt"}}
  use:
    files: [build, each]
    run: |
      cd "$WEFT_FILES" && find . -type f | sort && build/tool && cat each/1/b.txt
      wc -c < build/dist/large
"""


def loaded(text: str) -> Loaded:
    return load_text(text, "flow.yaml")


def test_the_whole_way(place: Place) -> None:
    place.work()
    run = place.submit(loaded(FLOW))
    assert place.ended(run) == "succeeded"
    assert place.store.read_output(run, "use", 1, "stdout").data.decode().splitlines() == [
        "./build/dist/deep/empty", "./build/dist/large", "./build/tool", "./each/0/a.txt", "./each/1/b.txt",
        "ran", "b", str(LARGE),
    ]  # fmt: skip
    found = place.connection.artifacts(run)
    assert not found.more
    assert [(one.task, one.path, one.bytes) for one in found.artifacts] == [
        ("build", "dist/large", LARGE), ("build", "dist/deep/empty", 0), ("build", "tool", 18),
        ("each.0", "a.txt", 2), ("each.1", "b.txt", 2),
    ]  # fmt: skip
    assert [one.task for one in place.connection.artifacts(run, "each").artifacts] == ["each.0", "each.1"]
    assert [one.task for one in place.connection.artifacts(run, "each.1").artifacts] == ["each.1"]
    short = place.connection.artifacts(run, limit=2)
    assert (len(short.artifacts), short.more) == (2, True)
    for one in found.artifacts:
        reference, file = place.connection.open_file(run, one.task, one.path)
        with file:
            data = file.read()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (one.bytes, one.sha256)
        assert (reference.bytes, reference.sha256) == (one.bytes, one.sha256)
    with pytest.raises(NotFound, match="has kept no file 'dist/other'"):
        place.connection.open_file(run, "build", "dist/other")
    with pytest.raises(NotFound):
        place.connection.artifacts(run, "nothing")
    directory = place.directory / ".weft" / "artifacts" / run
    assert len(list(directory.glob("files/*/*"))) == 5
    list(place.store.prune(2**53))
    assert not directory.exists()


def test_bytes_that_are_gone_are_an_error(place: Place) -> None:
    place.work()
    run = place.submit(loaded("tasks:\n  a: {run: echo x > f, artifacts: f}\n"))
    assert place.ended(run) == "succeeded"
    (kept,) = (place.directory / ".weft" / "artifacts" / run / "files").glob("*/*")
    kept.unlink()
    with pytest.raises(ArtifactError):
        place.connection.open_file(run, "a", "f")[1].read()


def test_what_is_missing_fails_the_attempt_and_a_later_attempt_replaces_the_files(place: Place) -> None:
    place.work()
    flow = """
    tasks:
      a:
        run: "echo $WEFT_ATTEMPT > out; test ! -f ready || touch more"
        artifacts: [out, "mor*"]
        retry: {max: 1000, backoff: 50ms, multiplier: 1}
    """
    run = place.submit(loaded(textwrap.dedent(flow)))
    until(lambda: len(place.connection.attempts(run, "a")) > 1)
    error = place.connection.attempts(run, "a")[0].error
    assert error == f"artifacts: 'mor*' is not there: no such file in {place.directory}"
    assert place.connection.artifacts(run).artifacts == []
    kept = place.directory / ".weft" / "artifacts" / run / "files"
    task_id = place.store.find(run)[0] << ORDINAL_BITS
    (kept / f"{task_id}.1").mkdir(parents=True)  # as of a node that was killed
    (kept / f"{task_id}.1" / "left").touch()
    (place.directory / "ready").touch()
    assert place.ended(run) == "succeeded"
    found = place.connection.artifacts(run).artifacts
    assert [one.path for one in found] == ["out", "more"]
    assert [only.name for only in kept.iterdir()] == [f"{task_id}.{found[0].attempt}"]


def test_which_files_are_meant(tmp_path: Path) -> None:
    for name in ("b/2", "b/1", "a.txt", "c.txt", "empty/"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.mkdir() if name.endswith("/") else path.touch()
    assert find_files(str(tmp_path), ("*.txt", "b", "./a.txt", "**/1")) == ["a.txt", "c.txt", "b/1", "b/2"]
    for wrong, why in (
        ("../x", "must lie below"), ("/etc", "must lie below"), ("nope", "is not there"), ("empty", "is not there"),
    ):  # fmt: skip
        with pytest.raises(FilesError, match=why):
            find_files(str(tmp_path), (wrong,))
    for number in range(FILES_MAX):
        (tmp_path / "b" / f"n{number}").touch()
    with pytest.raises(FilesError, match="more than 1,000 files"):
        find_files(str(tmp_path), ("b",))


def test_a_result_cannot_name_other_places() -> None:
    sha = "a" * 64
    listed = '[{"path":"%s","bytes":1,"sha256":"%s"}]'
    sound = '{"files":{"run":"r1","task":1,"attempt":1,"place":"directory","list":' + listed + "}}"
    assert kept_files(sound % ("a/b", sha)) is not None
    for path, digest in (("../b", sha), ("/b", sha), ("a", "../../x"), ("", sha)):
        assert kept_files(sound % (path, digest)) is None
    assert kept_files(sound.replace("r1", "../r") % ("a", sha)) is None
    assert kept_files('{"output": {"files": {"run": "r1"}}}') is None


class Chunks:
    """A store's chunks of files, in memory: takes those of one session."""

    def __init__(self) -> None:
        self.rows: dict[int, bytes] = {}

    def keep(self, shipment: Shipment) -> list[tuple[int, int]]:
        held = {(chunk.task_id, chunk.attempt) for chunk in shipment.chunks if chunk.session == "mine"}
        self.rows |= {chunk.at: chunk.data for chunk in shipment.chunks if (chunk.task_id, chunk.attempt) in held}
        return shipment.without(held)

    def read(self, name: str, task: int, attempt: int, first: int, end: int, limit: int) -> list[tuple[int, bytes]]:
        return [(at, self.rows[at]) for at in sorted(self.rows) if first <= at < end][:limit]


def test_chunks_in_a_store(tmp_path: Path) -> None:
    chunks = Chunks()
    storage = StoreFiles(chunks.keep, lambda: cast(Any, chunks))
    data = bytes(range(256)) * (5 * CHUNK_MAX // 256) + b"end"

    def found() -> Iterator[tuple[str, BinaryIO]]:
        for name, content in (("first", b"12345"), ("empty", b""), ("large", data)):
            (tmp_path / name).write_bytes(content)
            yield name, (tmp_path / name).open("rb")

    owner = FileOwner("r", 1, 1, "mine")
    kept = storage.put(owner, found(), 2**30)
    fetch(storage, kept, str(tmp_path / "got"))
    assert (tmp_path / "got" / "large").read_bytes() == data
    assert (tmp_path / "got" / "empty").read_bytes() == b""
    large = kept.list[2]
    with KeptFileReader(storage, kept, large) as reader:
        for at in (0, 1, CHUNK_MAX - 1, 3 * CHUNK_MAX + 7, len(data) - 1, len(data)):
            reader.seek(at)
            assert reader.read() == data[at:], at
    with pytest.raises(FilesError, match="with large its files have more than files_max"):
        storage.put(owner, found(), CHUNK_MAX)
    with pytest.raises(FilesError, match="the attempt is not this node's any more"):
        storage.put(owner._replace(session="another"), found(), 2**30)
    del chunks.rows[large.at + CHUNK_MAX]
    with pytest.raises(FilesError, match="large is not in the store any more"):
        list(storage.parts(kept, large))
    chunks.rows[large.at + CHUNK_MAX] = bytes(CHUNK_MAX)
    with pytest.raises(FilesError, match="large does not hold what was kept of it"):
        fetch(storage, kept, str(tmp_path / "changed"))


def test_links_lead_nowhere_else(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (tmp_path / "secret").write_text("s")
    (base / "inside").write_text("i")
    (base / "link").symlink_to("inside")
    (base / "out").symlink_to(tmp_path / "secret")
    (base / "away").symlink_to(tmp_path)
    files = AttemptFiles(DirectoryFiles(tmp_path / "kept"), 2**20)

    def keep(*paths: str) -> list[str]:
        launch = Launch(1, 1, "r", "t", "shell", {}, {}, str(base), "", 0, artifacts=paths)
        return [file.path for file in files.keep(launch, "s").list]

    assert keep("inside", "link") == ["inside", "link"]
    for path in ("out", "away/secret"):
        with pytest.raises(FilesError, match="lies outside of"):
            keep(path)
